"""The GPT-2 adapter, on a tiny model without weights."""

from __future__ import annotations

import pytest
from conformance import blocks_of_a_layer, meta_model, parameters, tiny_tree

from energyscope.adapter_registry import adapter_for, load_adapter
from energyscope.testing import check_adapter

ADAPTER = load_adapter("gpt2")


def test_serves_its_family_as_a_language_model() -> None:
    """GPT-2 is served by this adapter, judged by perplexity on WikiText-2."""
    assert adapter_for("gpt2") is ADAPTER
    assert (ADAPTER.task, ADAPTER.metric, ADAPTER.dataset) == ("next-token", "perplexity", "wikitext2")


def test_conforms() -> None:
    """What authors of adapters check holds: paths, calls, weights, FLOPs, replay, removal and the rest."""
    report = check_adapter("gpt2")
    assert report.problems == []
    assert [check.name for check in report.checks if check.passed is None] == []


def test_every_layer_has_its_blocks_and_sub_components() -> None:
    """A layer is norm, attention, norm, MLP; query, key and value are one projection; the core is a part."""
    assert blocks_of_a_layer(tiny_tree("gpt2"), "transformer.h.1") == {
        "ln_1": ["norm"],
        "attn": ["attention", "attention.core", "attention.qkv", "attention.output"],
        "ln_2": ["norm"],
        "mlp": ["mlp", "mlp.up", "mlp.down", "mlp.activation"],
    }


def test_ends_of_the_model_are_components_at_coarse() -> None:
    """Both embeddings, the layers, the last norm and the head are measured at coarse granularity."""
    tree = tiny_tree("gpt2", "coarse")
    assert [component.kind for component in tree.children("model")] == [
        "embedding", "embedding", "layer", "layer", "norm", "lm_head",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_checkpoints_have_the_published_sizes(name: str, count: int) -> None:
    """Each shipped configuration has exactly the published number of parameters."""
    assert parameters(meta_model(ADAPTER, name)) == count
