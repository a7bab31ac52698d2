"""The Qwen2 adapter, on a tiny model and on its true shapes without weights."""

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

ADAPTER = load_adapter("qwen2")
HEADS = {"num_key_value_heads": 1}


def test_serves_its_family_as_a_language_model() -> None:
    """Qwen2 is served by this adapter, judged by perplexity on WikiText-2, and its weights are not gated."""
    assert adapter_for("qwen2") is ADAPTER
    assert (ADAPTER.task, ADAPTER.metric, ADAPTER.dataset) == ("next-token", "perplexity", "wikitext2")
    assert not any(checkpoint.gated for checkpoint in ADAPTER.checkpoints.values())


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


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_components_are_disjoint(granularity: Granularity) -> None:
    """Each has its own name, none of two siblings holds the other, and together they own every weight."""
    tree = tiny_tree("qwen2", granularity, **HEADS)
    assert names_used_twice(tree) == set()
    assert nested_siblings(tree) == []
    assert parameters_without_component(tree) == set()


def test_blocks_hold_all_matrix_work() -> None:
    """No parent does matrix work beside its children, down to the finest granularity."""
    assert work_beyond_children(tiny_tree("qwen2", **HEADS)) == {}


@pytest.mark.parametrize("padded", [0, 4])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_components_replay_to_what_they_returned(granularity: Granularity, padded: int) -> None:
    """GIVEN captured inputs THEN each component alone, also without its children, returns what it did."""
    assert unlike_the_model(tiny_tree("qwen2", granularity, **HEADS), padded) == []


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
