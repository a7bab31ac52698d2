"""The DistilBERT adapter, on a tiny model without weights."""

from __future__ import annotations

from conformance import blocks_of_a_layer, meta_model, parameters, tiny_tree

from energyscope.adapter_registry import adapter_for, load_adapter
from energyscope.testing import check_adapter

ADAPTER = load_adapter("distilbert")


def test_serves_its_family_as_a_classifier() -> None:
    """DistilBERT is served by this adapter, judged by accuracy on SST-2."""
    assert adapter_for("distilbert") is ADAPTER
    assert (ADAPTER.task, ADAPTER.metric, ADAPTER.dataset) == ("classification", "accuracy", "sst2")


def test_conforms() -> None:
    """What authors of adapters check holds: paths, calls, weights, FLOPs, replay, removal and the rest."""
    report = check_adapter("distilbert")
    assert report.problems == []
    assert [check.name for check in report.checks if check.passed is None] == ["decode"]


def test_every_layer_has_its_blocks_and_sub_components() -> None:
    """A layer is attention, norm, feed-forward, norm, with their projections and the attention core below."""
    assert blocks_of_a_layer(tiny_tree("distilbert"), "distilbert.transformer.layer.1") == {
        "attention": [
            "attention", "attention.core",
            "attention.query", "attention.key", "attention.value", "attention.output",
        ],
        "sa_layer_norm": ["norm"],
        "ffn": ["mlp", "mlp.up", "mlp.down", "mlp.activation"],
        "output_layer_norm": ["norm"],
    }  # fmt: skip


def test_ends_of_the_model_are_components_at_coarse() -> None:
    """Embeddings, layers and the two linears of the head are measured at coarse granularity."""
    tree = tiny_tree("distilbert", "coarse")
    assert [component.kind for component in tree.children("model")] == [
        "embedding", "layer", "layer", "pooler", "classifier",
    ]  # fmt: skip


def test_checkpoint_has_the_published_size() -> None:
    """distilbert-base-uncased-finetuned-sst-2-english has 66,955,010 parameters and two classes."""
    model = meta_model(ADAPTER, "distilbert")
    assert parameters(model) == 66_955_010
    assert model.config.id2label == {0: "NEGATIVE", 1: "POSITIVE"}
