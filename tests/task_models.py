"""Tiny real models of each task, with adapters as a user would write them."""

from __future__ import annotations

from typing import Any

import tiny_models
import torch

from energyscope.adapters import Adapter, Part, Task
from energyscope.loading import LoadedModel

SEES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
READS: dict[str, Any] = {**SEES, "vocab_size": tiny_models.VOCABULARY, "max_position_embeddings": 32}
_T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}


def _encoder(prefix: str) -> tuple[Part, ...]:
    layer = f"{prefix}encoder.layer.{{layer}}"
    return (
        Part("embedding", f"{prefix}embeddings", "coarse"),
        Part("layer", layer, "coarse"),
        Part("attention", f"{layer}.attention", "medium"),
        Part("mlp.up", f"{layer}.intermediate", "medium"),
        Part("mlp.down", f"{layer}.output", "medium"),
    )


def _vit() -> tuple[Part, ...]:
    layer = "vit.layers.{layer}"
    return (
        Part("patch_embedding", "vit.embeddings", "coarse"),
        Part("layer", layer, "coarse"),
        Part("attention", f"{layer}.attention", "medium"),
        Part("mlp", f"{layer}.mlp", "medium"),
        Part("norm", "vit.layernorm", "coarse"),
        Part("classifier", "classifier", "coarse"),
    )


def _t5() -> tuple[Part, ...]:
    return (
        Part("embedding", "shared", "coarse"),
        *(Part("layer", f"{stack}.block.{{layer}}", "coarse") for stack in ("encoder", "decoder")),
        *(Part("attention", f"{stack}.block.{{layer}}.layer.0", "medium") for stack in ("encoder", "decoder")),
        Part("cross_attention", "decoder.block.{layer}.layer.1", "medium"),
        Part("mlp", "encoder.block.{layer}.layer.1", "medium"),
        Part("mlp", "decoder.block.{layer}.layer.2", "medium"),
        *(Part("norm", f"{stack}.final_layer_norm", "coarse") for stack in ("encoder", "decoder")),
        Part("lm_head", "lm_head", "coarse"),
    )


_FAMILIES: dict[Task, tuple[str, str, dict[str, Any], str | tuple[str, ...], tuple[Part, ...]]] = {
    "masked-token": (
        "bert",
        "AutoModelForMaskedLM",
        READS,
        "bert.encoder.layer",
        (*_encoder("bert."), Part("lm_head", "cls", "coarse")),
    ),
    "embedding": (
        "bert",
        "AutoModel",
        READS,
        "encoder.layer",
        (*_encoder(""), Part("pooler", "pooler", "coarse")),
    ),
    "image-classification": (
        "vit",
        "AutoModelForImageClassification",
        {**SEES, "image_size": 16, "patch_size": 8, "num_labels": 3},
        "vit.layers",
        _vit(),
    ),
    "sequence-to-sequence": (
        "t5",
        "AutoModelForSeq2SeqLM",
        {**_T5, "vocab_size": tiny_models.VOCABULARY},
        ("encoder.block", "decoder.block"),
        _t5(),
    ),
}
TASKS: tuple[Task, ...] = tuple(_FAMILIES)


def task_model(task: Task, tokenizer: Any = None, **changes: Any) -> LoadedModel:
    """Return a seeded tiny model of a task on the CPU; ``changes`` are of its adapter."""
    import transformers

    model_type, auto_class, sizes, layers, parts = _FAMILIES[task]
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = getattr(transformers, auto_class).from_config(config, dtype=torch.float32).eval()
        for parameter in model.parameters():  # else all outputs of so small a model are nearly alike
            torch.nn.init.normal_(parameter, std=0.3)
    adapter = Adapter(model_type, (model_type,), task, layers, parts, auto_class=auto_class, **changes)
    return LoadedModel(
        name=f"tiny-{task}",
        model=model.requires_grad_(False),
        adapter=adapter,
        tokenizer=tokenizer,
        tokenizer_reason=None,
        precision="fp32",
        device=torch.device("cpu"),
        weights="random",
        source="made here",
        seconds=0.0,
    )
