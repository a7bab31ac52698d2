"""The linear layers of a model: which there are, and which of them stay unquantized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from energyscope.errors import UsageError, did_you_mean
from energyscope.loading.options import NATIVE

if TYPE_CHECKING:
    from torch import nn


def is_linear(module: nn.Module) -> bool:
    """Tell whether a module is one that bitsandbytes can stand in for: Linear, or GPT-2's Conv1D."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    return type(module) in {nn.Linear, Conv1D}


def is_kept(path: str, keep: Sequence[str]) -> bool:
    """Tell whether ``keep`` names a module: by its path, or by the end of it."""
    return any(path == name or path.endswith(f".{name}") for name in keep)


def quantized_linears(model: nn.Module, precision: str, keep: Sequence[str]) -> list[str]:
    """Return the paths of the linears that a precision quantizes: all but those that ``keep`` names."""
    if precision in NATIVE:
        return []
    return [path for path, module in model.named_modules() if is_linear(module) and not is_kept(path, keep)]


def skipped_linears(model: nn.Module, names: Sequence[str]) -> list[str]:
    """Return the paths of the linears that are, or lie in, a module of one of these names.

    A name is a module's path or the end of one: ``down_proj`` is that of every layer, ``model.layers.0`` all
    linears in the first. The model may be on the meta device.

    Raises:
        UsageError: a name leads to no linear layer.

    """
    linears = [path for path, module in model.named_modules() if is_linear(module)]
    above = {path: _ends(path) for path in linears}
    skipped: dict[str, None] = {}
    for name in names:
        own = [path for path in linears if name in above[path]]
        if not own:
            raise UsageError(f"--skip-modules {name!r} names no linear layer{_near(name, model, above)}")
        skipped.update(dict.fromkeys(own))
    return list(skipped)


def _ends(path: str) -> set[str]:
    """Return every name that a module or one that it lies in goes by."""
    words = path.split(".")
    return {".".join(words[start:end]) for end in range(1, len(words) + 1) for start in range(end)}


def _near(name: str, model: nn.Module, above: dict[str, set[str]]) -> str:
    known = sorted({word for words in above.values() for word in words if not word.isdecimal()})
    if name in {end for path, _ in model.named_modules() for end in _ends(path)}:
        known = []  # it is a module, of another kind: no name that looks like it is what was meant
    near = did_you_mean(name, known)
    return near if "did you mean" in near else did_you_mean(name, sorted({path.split(".")[-1] for path in above}))
