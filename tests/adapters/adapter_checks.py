"""What holds for every adapter: checked on models without weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from tiny_models import config, model_class
from torch import nn

from energyscope.adapters import Adapter, load_adapter
from energyscope.components import component_tree


def meta_model(adapter: Adapter, checkpoint: str) -> nn.Module:
    """Build a checkpoint's true shape without its weights."""
    import transformers

    shape = copy.deepcopy(dict(adapter.checkpoints[checkpoint].configuration))
    with torch.device("meta"):
        true_config = transformers.AutoConfig.for_model(adapter.model_types[0], **shape)
        model: nn.Module = getattr(transformers, adapter.auto_class).from_config(true_config)
    return model


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def tiny_model(family: str, **changes: Any) -> nn.Module:
    with torch.device("meta"):
        model: nn.Module = model_class(family)(config(family, **changes))
    return model


def kinds_of_a_layer(family: str) -> dict[str, list[str]]:
    """Return, for the second layer, each block's kind with its sub-components' kinds."""
    adapter = load_adapter(family)
    tree = component_tree(tiny_model(family), adapter, "fine")
    layer = tree[f"{adapter.layers}.1"]
    return {
        block.name.rpartition(".")[2]: [block.kind, *(child.kind for child in tree.children(block.name))]
        for block in tree.children(layer.name)
    }


def parameters_without_component(family: str) -> set[str]:
    """Return the parameters that belong to no component of the fine tree: energy that nobody would own."""
    model = tiny_model(family)
    tree = component_tree(model, load_adapter(family), "fine")
    owned = {id(p) for component in list(tree)[1:] for p in component.module.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) not in owned}
