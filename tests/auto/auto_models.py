"""Tiny models of families that no adapter serves, and what is found in them."""

from __future__ import annotations

import functools
from typing import Any

import tiny_models
import torch

from energyscope.auto.mapping import StructureMap, structure_map
from energyscope.components import ComponentTree, component_tree

SIZES: dict[str, Any] = {
    "vocab_size": tiny_models.VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
GROUPED: dict[str, Any] = {"num_key_value_heads": 1, "pad_token_id": 0}
FAMILIES: dict[str, dict[str, Any]] = {
    "mistral": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 8},
    "phi3": GROUPED,
    "opt": {"ffn_dim": 32, "word_embed_proj_dim": 16},
    "gpt_neox": {},
    # in parallel it adds to the MLP's output in place, and so to the record that a bypassed MLP returns
    "falcon": {"parallel_attn": False},
    "mixtral": {**GROUPED, "num_local_experts": 4},
    "gemma3_text": {**GROUPED, "head_dim": 8, "sliding_window": 8},
    "mamba": {"state_size": 4},
}


def config(family: str, **changes: Any) -> Any:
    import transformers

    return transformers.AutoConfig.for_model(family, **{**SIZES, **FAMILIES.get(family, {}), **changes})


@functools.cache
def structure(family: str) -> StructureMap:
    """Return what is found in a tiny model without weights."""
    return structure_map(config(family))


@functools.cache
def tree(family: str) -> ComponentTree:
    """Return the components of a tiny model with weights, as auto's adapter has them."""
    import transformers

    adapter = structure(family).adapter
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = getattr(transformers, adapter.auto_class).from_config(config(family)).eval()
    return component_tree(model, adapter, "fine")


def relative(family: str) -> dict[str, str]:
    """Return the kinds of a layer's parts, by the rest of their names."""
    found = structure(family)
    start = f"{found.layers}.{{layer}}."
    return {
        part.name.removeprefix(start): part.kind for part in found.adapter.parts if part.name.startswith(start)
    }
