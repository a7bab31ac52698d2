"""Tiny models and true shapes of families, beside what `energyscope.testing.check_adapter` checks."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import tiny_models
import torch
from torch import Tensor, nn

from energyscope.adapter_registry import load_adapter
from energyscope.adapters import Adapter, Granularity
from energyscope.components import ComponentTree, component_tree
from energyscope.testing.conformance.behaviour import unfaithful
from energyscope.testing.conformance.structure import orphan_weights, overlapping

SIZES: dict[str, Any] = {
    "vocab_size": tiny_models.VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
}


def tiny_model(family: str, **changes: Any) -> Any:
    """Return a seeded model of the class that the family's adapter names, on the CPU."""
    import transformers

    if family in {"distilbert", "gpt2", "llama"}:
        config = tiny_models.config(family, **changes)
    else:
        config = transformers.AutoConfig.for_model(family, **{**SIZES, **changes})
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return getattr(transformers, load_adapter(family).auto_class).from_config(config).eval()


def tiny_tree(family: str, granularity: Granularity = "fine", **changes: Any) -> ComponentTree:
    return component_tree(tiny_model(family, **changes), load_adapter(family), granularity)


def meta_model(adapter: Adapter, checkpoint: str) -> Any:
    """Build a checkpoint's true shape without its weights."""
    import transformers

    shape = copy.deepcopy(dict(adapter.checkpoints[checkpoint].configuration))
    with torch.device("meta"):
        true_config = transformers.AutoConfig.for_model(adapter.model_types[0], **shape)
        return getattr(transformers, adapter.auto_class).from_config(true_config)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def inputs() -> dict[str, Tensor]:
    ids = torch.arange(24).reshape(2, 12) % tiny_models.VOCABULARY
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def blocks_of_a_layer(tree: ComponentTree, layer: str) -> dict[str, list[str]]:
    """Return each block's kind and its sub-components' kinds, by its name below the layer."""
    return {
        block.name.removeprefix(f"{layer}."): [block.kind, *(child.kind for child in tree.children(block.name))]
        for block in tree.children(layer)
    }


def parameters_without_component(tree: ComponentTree) -> set[str]:
    return set(orphan_weights(tree))


def names_used_twice(tree: ComponentTree) -> set[str]:
    return {name for name, count in Counter(component.name for component in tree).items() if count > 1}


def nested_siblings(tree: ComponentTree) -> list[tuple[str, str]]:
    """Return components of which one holds the other's module without being above it."""
    return overlapping(tree)


def unlike_the_model(tree: ComponentTree, padded: int = 0) -> list[str]:
    """Return the components that, run alone on what they were given, do not return what they did in the model."""
    assert not padded
    return unfaithful(tree, inputs())
