"""The BERT adapter, on a tiny model and on its true shapes without weights."""

from __future__ import annotations

import pytest
from conformance import (
    blocks_of_a_layer,
    meta_model,
    names_used_twice,
    nested_siblings,
    parameters,
    parameters_without_component,
    tiny_tree,
    unlike_the_model,
    work_beyond_children,
)

from energyscope.adapter_registry import adapter_for, load_adapter
from energyscope.adapters import GRANULARITIES, Granularity

ADAPTER = load_adapter("bert")
LAYER = "bert.encoder.layer.1"


def test_serves_its_family_as_a_classifier() -> None:
    """BERT is served by this adapter, judged by accuracy on SST-2."""
    assert adapter_for("bert") is ADAPTER
    assert (ADAPTER.task, ADAPTER.metric, ADAPTER.dataset) == ("classification", "accuracy", "sst2")


def test_every_layer_has_its_blocks_and_sub_components() -> None:
    """A layer holds what DistilBERT's does; the last projection of each half is a block of its own."""
    assert blocks_of_a_layer(tiny_tree("bert"), LAYER) == {
        "attention.self": [
            "attention", "attention.core", "attention.query", "attention.key", "attention.value",
        ],
        "attention.output.dense": ["attention.output"],
        "attention.output.LayerNorm": ["norm"],
        "intermediate": ["mlp", "mlp.up", "mlp.activation"],
        "output.dense": ["mlp.down"],
        "output.LayerNorm": ["norm"],
    }  # fmt: skip


def test_leaves_are_of_the_kinds_of_distilberts() -> None:
    """GIVEN the same kinds at the finest granularity THEN both families can be compared kind by kind."""
    bert, distilbert = (
        sorted(leaf.kind for leaf in tiny_tree(family).leaves() if leaf.layer == 1)
        for family in ("bert", "distilbert")
    )
    assert bert == distilbert


def test_ends_of_the_model_are_components_at_coarse() -> None:
    """Embeddings, layers, pooler and classifier are measured at coarse granularity."""
    kinds = [component.kind for component in tiny_tree("bert", "coarse").children("model")]
    assert kinds == ["embedding", "layer", "layer", "pooler", "classifier"]


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_components_are_disjoint(granularity: Granularity) -> None:
    """Each has its own name, none of two siblings holds the other, and together they own every weight."""
    tree = tiny_tree("bert", granularity)
    assert names_used_twice(tree) == set()
    assert nested_siblings(tree) == []
    assert parameters_without_component(tree) == set()


@pytest.mark.parametrize("granularity", ["medium", "fine"])
def test_blocks_hold_all_matrix_work(granularity: Granularity) -> None:
    """At medium only the layers have children, at fine all blocks do: none does matrix work beside them."""
    assert work_beyond_children(tiny_tree("bert", granularity)) == {}


@pytest.mark.parametrize("padded", [0, 4])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_components_replay_to_what_they_returned(granularity: Granularity, padded: int) -> None:
    """GIVEN captured inputs THEN each component alone, also without its children, returns what it did."""
    assert unlike_the_model(tiny_tree("bert", granularity), padded) == []


@pytest.mark.parametrize(("name", "count"), [("bert-base", 109_483_778), ("bert-large", 335_143_938)])
def test_checkpoints_have_the_published_sizes(name: str, count: int) -> None:
    """With a classifier of two classes, the shapes have exactly the published number of parameters."""
    model = meta_model(ADAPTER, name)
    assert parameters(model) == count
    assert model.config.id2label == {0: "NEGATIVE", 1: "POSITIVE"}
