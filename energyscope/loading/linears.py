"""The linear layers of a model: which there are, and which of them stay unquantized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from energyscope.errors import UsageError, did_you_mean
from energyscope.loading.options import BY_TORCH, NATIVE

GROUPS = (128, 64, 32)  # inputs that share a scale in INT4: the most that divide a layer's

if TYPE_CHECKING:
    from torch import nn


def is_linear(module: nn.Module) -> bool:
    """Tell whether a module can be exchanged for a quantized layer: Linear, and GPT-2's Conv1D."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    return type(module) in {nn.Linear, Conv1D}


def is_kept(path: str, keep: Sequence[str]) -> bool:
    """Tell whether ``keep`` names a module: by its path, the end of that, or the path of one that it lies in."""
    return any(path == name or path.startswith(f"{name}.") or path.endswith(f".{name}") for name in keep)


def is_quantized_in(precision: str, path: str, module: nn.Module, keep: Sequence[str]) -> bool:
    """Tell whether a precision quantizes a module: a linear that ``keep`` does not name, of a size that fits."""
    return precision not in NATIVE and is_linear(module) and not is_kept(path, keep) and fits(module, precision)


def fits(module: Any, precision: str) -> bool:
    """Tell whether a linear's size is one that the kernels of a precision take."""
    from torch import nn

    if precision not in BY_TORCH:
        return True
    outputs, inputs = module.weight.shape if isinstance(module, nn.Linear) else reversed(module.weight.shape)
    return outputs % 16 == 0 and inputs % (GROUPS[-1] if precision == "int4" else 16) == 0


def group_of(inputs: int) -> int:
    """Return how many of a layer's inputs share a scale in INT4."""
    return next(group for group in GROUPS if inputs % group == 0)


def quantized_linears(model: nn.Module, precision: str, keep: Sequence[str]) -> dict[str, nn.Module]:
    """Return the linears that a precision quantizes, by their paths (`is_quantized_in`)."""
    return {
        path: module for path, module in model.named_modules() if is_quantized_in(precision, path, module, keep)
    }


def skipped_linears(model: nn.Module, names: Sequence[str]) -> list[str]:
    """Return the paths of the linears that are, or lie in, a module of one of these names.

    A name is a module's path or the end of one: ``down_proj`` is that of every layer, ``model.layers.0`` all
    linears in the first. The model may be on the meta device.

    Raises:
        UsageError: a name leads to no linear layer.

    """
    names_of = {path: _names(path) for path, module in model.named_modules() if is_linear(module)}
    skipped: dict[str, None] = {}
    for name in names:
        matches = [path for path, known in names_of.items() if name in known]
        if not matches:
            raise UsageError(f"--skip-modules {name!r} names no linear layer{_near(name, model, names_of)}")
        skipped.update(dict.fromkeys(matches))
    return list(skipped)


def _names(path: str) -> set[str]:
    """Return every name of a module and of those that it lies in."""
    words = path.split(".")
    return {".".join(words[start:end]) for end in range(1, len(words) + 1) for start in range(end)}


def _near(name: str, model: nn.Module, names_of: dict[str, set[str]]) -> str:
    known = {word for words in names_of.values() for word in words if not word.isdecimal()}
    is_module = any(name in _names(path) for path, _ in model.named_modules())  # of another kind, and spelt right
    if not is_module and "did you mean" in (near := did_you_mean(name, sorted(known))):
        return near
    return did_you_mean(name, sorted({path.split(".")[-1] for path in names_of}))
