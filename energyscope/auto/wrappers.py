"""Modules that are one other with a norm or a residual around it (BERT, T5): no blocks, but what they hold is."""

from __future__ import annotations

import inspect
import re

from torch import nn

from energyscope.auto.patterns import MLP_CLASSES
from energyscope.auto.shapes import own, shapes, weights


def is_norm(module: nn.Module) -> bool:
    return bool(re.search("Norm", type(module).__name__)) and "leaf" in shapes(module)


def is_wrapper(module: nn.Module) -> bool:
    """Whether a module is one other with a norm or a residual around it: that is no block, what it holds is."""
    held = [child for child in module.children() if weights(child)]
    norms = [child for child in held if is_norm(child)]
    adds = bool(norms) or not {"input_tensor", "residual"}.isdisjoint(inspect.signature(module.forward).parameters)
    return adds and len(held) == len(norms) + 1 and not own(module) and "convolutional" not in shapes(module)


def holds_wrappers(module: nn.Module) -> bool:
    children = list(module.children())
    return any(map(is_wrapper, children)) and not any("linear" in shapes(child) for child in children)


def is_layer(module: nn.Module) -> bool:
    return bool(re.search(r"(Decoder|Encoder|Transformer)Layer$", type(module).__name__))


def has_its_own(layer: nn.Module, activation: nn.Module) -> bool:
    """Whether a layer's activation is left over: its MLP, a module beside it, has one of the same class."""
    mlps = (child for child in layer.children() if re.search(MLP_CLASSES, type(child).__name__))
    return "weightless" in shapes(activation) and any(
        type(module) is type(activation) for mlp in mlps if mlp is not activation for module in mlp.modules()
    )
