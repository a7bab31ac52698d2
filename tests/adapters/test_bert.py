"""The BERT adapter, on a tiny model and on its true shapes without weights."""

from __future__ import annotations

import pytest
from conformance import blocks_of_a_layer, meta_model, parameters, tiny_tree

from energyscope.adapter_registry import adapter_for, load_adapter
from energyscope.testing import check_adapter

ADAPTER = load_adapter("bert")
LAYER = "bert.encoder.layer.1"


def test_serves_its_family_as_a_classifier() -> None:
    """BERT is served by this adapter, judged by accuracy on SST-2."""
    assert adapter_for("bert") is ADAPTER
    assert (ADAPTER.task, ADAPTER.metric, ADAPTER.dataset) == ("classification", "accuracy", "sst2")


def test_conforms() -> None:
    """What authors of adapters check holds: paths, calls, weights, FLOPs, replay, removal and the rest."""
    report = check_adapter("bert")
    assert report.problems == []
    assert [check.name for check in report.checks if check.passed is None] == ["decode"]


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


@pytest.mark.parametrize(("name", "count"), [("bert-base", 109_483_778), ("bert-large", 335_143_938)])
def test_checkpoints_have_the_published_sizes(name: str, count: int) -> None:
    """With a classifier of two classes, the shapes have exactly the published number of parameters."""
    model = meta_model(ADAPTER, name)
    assert parameters(model) == count
    assert model.config.id2label == {0: "NEGATIVE", 1: "POSITIVE"}
