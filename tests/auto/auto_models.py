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
ENCODER_DECODER: dict[str, Any] = {
    "d_model": 16,
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")},
    "pad_token_id": 0,
}
SEES: dict[str, Any] = {"image_size": 16, "patch_size": 8}
OTHER_TASKS: dict[str, dict[str, Any]] = {
    "t5": {
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 2,
        "num_heads": 2,
    },
    "bart": {"architectures": ["BartForConditionalGeneration"], **ENCODER_DECODER},
    "whisper": {
        "architectures": ["WhisperForConditionalGeneration"],
        **ENCODER_DECODER,
        "max_source_positions": 20,
        "num_mel_bins": 8,
    },
    "bert": {"architectures": ["BertForMaskedLM"]},
    "albert": {"architectures": ["AlbertForMaskedLM"], "embedding_size": 8},
    "vit": {"architectures": ["ViTForImageClassification"], **SEES},
    "swin": {
        "architectures": ["SwinForImageClassification"],
        "image_size": 32,
        "depths": [2, 1],
        "num_attention_heads": [1, 2],
        "window_size": 4,
    },
    "resnet": {"architectures": ["ResNetForImageClassification"], "depths": [2, 1, 1, 1]},
}


def config(family: str, **changes: Any) -> Any:
    import transformers

    return transformers.AutoConfig.for_model(
        family, **{**SIZES, **FAMILIES.get(family, OTHER_TASKS.get(family, {})), **changes}
    )


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


def relative(family: str, stack: int = 0) -> dict[str, str]:
    """Return the kinds of the parts of a stack's layer, by the rest of their names."""
    found = structure(family)
    start = f"{found.adapter.stacks[stack]}.{{layer}}."
    return {
        part.name.removeprefix(start): part.kind for part in found.adapter.parts if part.name.startswith(start)
    }
