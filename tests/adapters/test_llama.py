"""The Llama adapter, on a tiny model without weights."""

from __future__ import annotations

import pytest
from conformance import SIZES, blocks_of_a_layer, meta_model, parameters, tiny_tree

from energyscope.adapter_registry import adapter_for, load_adapter
from energyscope.testing import check_adapter

ADAPTER = load_adapter("llama")
GROUPED = {**SIZES, "num_key_value_heads": 1}


def test_serves_its_family_as_a_language_model() -> None:
    """Llama is served by this adapter, judged by perplexity on WikiText-2, and its weights are gated."""
    assert adapter_for("llama") is ADAPTER
    assert (ADAPTER.task, ADAPTER.metric, ADAPTER.dataset) == ("next-token", "perplexity", "wikitext2")
    assert all(checkpoint.gated for checkpoint in ADAPTER.checkpoints.values())


def test_conforms() -> None:
    """With shared keys and values, all that authors of adapters check holds, paths and replay and the rest."""
    report = check_adapter("llama", GROUPED)
    assert report.problems == []
    assert [check.name for check in report.checks if check.passed is None] == []


def test_every_layer_has_its_blocks_and_sub_components() -> None:
    """A layer is norm, attention, norm, gated MLP, with their projections and the attention core below."""
    assert blocks_of_a_layer(tiny_tree("llama"), "model.layers.1") == {
        "self_attn": [
            "attention", "attention.core",
            "attention.query", "attention.key", "attention.value", "attention.output",
        ],
        "mlp": ["mlp", "mlp.gate", "mlp.up", "mlp.down", "mlp.activation"],
        "input_layernorm": ["norm"],
        "post_attention_layernorm": ["norm"],
    }  # fmt: skip


def test_ends_of_the_model_are_components_at_coarse() -> None:
    """The embedding, the layers, the last norm and the head are coarse; the rotary embedding is fine."""
    coarse = tiny_tree("llama", "coarse")
    fine = tiny_tree("llama")
    kinds = [component.kind for component in coarse.children("model")]
    assert kinds == ["embedding", "layer", "layer", "norm", "lm_head"]
    assert "rotary" in {component.kind for component in fine.children("model")}


@pytest.mark.parametrize(
    ("name", "count", "tied"),
    [
        ("llama-3.2-1b", 1_235_814_400, True),
        ("llama-3.2-3b", 3_212_749_824, True),
        ("llama-3.1-8b", 8_030_261_248, False),
        ("llama-3.3-70b", 70_553_706_496, False),
    ],
)
def test_checkpoints_have_the_published_sizes(name: str, count: int, tied: bool) -> None:
    """Each shipped configuration has exactly the published number of parameters, and ties as published."""
    model = meta_model(ADAPTER, name)
    assert parameters(model) == count
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied


@pytest.mark.parametrize(("name", "factor"), [("llama-3.2-1b", 32.0), ("llama-3.1-8b", 8.0)])
def test_rotary_positions_are_llama_3s(name: str, factor: float) -> None:
    """The rotary embedding is the stretched one of Llama 3, in the form that transformers reads."""
    model = meta_model(ADAPTER, name)
    rotary = model.model.rotary_emb
    assert rotary.rope_type == "llama3"
    assert rotary.config.rope_parameters["rope_theta"] == 500_000.0
    assert rotary.config.rope_parameters["factor"] == factor
