"""The Qwen2 adapter, on a tiny model and on its true shapes without weights."""

from __future__ import annotations

import pytest
from conformance import SIZES, blocks_of_a_layer, meta_model, parameters, tiny_tree

from energyscope.adapter_registry import adapter_for, load_adapter
from energyscope.testing import check_adapter

ADAPTER = load_adapter("qwen2")
HEADS = {"num_key_value_heads": 1}
GROUPED = {**SIZES, **HEADS}


def test_serves_its_family_as_a_language_model() -> None:
    """Qwen2 is served by this adapter, judged by perplexity on WikiText-2, and its weights are not gated."""
    assert adapter_for("qwen2") is ADAPTER
    assert (ADAPTER.task, ADAPTER.metric, ADAPTER.dataset) == ("next-token", "perplexity", "wikitext2")
    assert not any(checkpoint.gated for checkpoint in ADAPTER.checkpoints.values())


def test_conforms() -> None:
    """With shared keys and values, all that authors of adapters check holds, paths and replay and the rest."""
    report = check_adapter("qwen2", GROUPED)
    assert report.problems == []
    assert [check.name for check in report.checks if check.passed is None] == []


def test_has_the_parts_of_llama() -> None:
    """The families differ in biases only: their components have the same names and kinds."""
    assert ADAPTER.parts == load_adapter("llama").parts


def test_every_layer_has_its_blocks_and_sub_components() -> None:
    """A layer is norm, attention, norm, gated MLP, with their projections and the attention core below."""
    assert blocks_of_a_layer(tiny_tree("qwen2", **HEADS), "model.layers.1") == {
        "self_attn": [
            "attention", "attention.core",
            "attention.query", "attention.key", "attention.value", "attention.output",
        ],
        "mlp": ["mlp", "mlp.gate", "mlp.up", "mlp.down", "mlp.activation"],
        "input_layernorm": ["norm"],
        "post_attention_layernorm": ["norm"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "count", "tied"),
    [
        ("qwen2.5-0.5b", 494_032_768, True),
        ("qwen2.5-1.5b", 1_543_714_304, True),
        ("qwen2.5-3b", 3_085_938_688, True),
        ("qwen2.5-7b", 7_615_616_512, False),
    ],
)
def test_checkpoints_have_the_published_sizes(name: str, count: int, tied: bool) -> None:
    """Each shipped configuration has exactly the published number of parameters, and ties as published."""
    model = meta_model(ADAPTER, name)
    assert parameters(model) == count
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    assert model.config.rope_parameters["rope_theta"] == 1_000_000.0
    biased = {name for name, _ in model.model.layers[0].self_attn.named_parameters() if name.endswith("bias")}
    assert biased == {"q_proj.bias", "k_proj.bias", "v_proj.bias"}
