"""Functions that do a module's work: an attention's core, a mixer's convolution over positions and its scan.

In transformers they are functions of the file of the model, so that kernels can take their places; the attention
core is PyTorch's where the model's attention is.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

from torch import nn

from energyscope.adapters import SDPA

EAGER = "eager_attention_forward"  # of each file: attention as plain products
# the functions of a pass over many positions; others (update, recurrent) take one step, or fuse the two
_KINDS = {"mixer.convolution": r"conv1d_fn$", "mixer.scan": r"_scan(_fn)?$|chunk\w*_rule$"}


def mixer_functions(module: nn.Module) -> dict[str, str]:
    """Return the functions that a mixer's code names, by kind, each as a dotted path."""
    owner = sys.modules[type(module).__module__]
    found: dict[str, str] = {}
    for name in _names(type(module)):
        function = getattr(owner, name, None)
        if not inspect.isroutine(function):
            continue
        for kind, pattern in _KINDS.items():
            if re.search(pattern, name):
                found.setdefault(kind, f"{owner.__name__}.{name}")
    return found


def attention_core(module: nn.Module, implementation: str | None) -> str | None:
    """Return the function that an attention's core is in an implementation; None where no function is known."""
    owner = type(module).__module__
    if implementation == "eager" and EAGER in set(_names(type(module))):
        return f"{owner}.{EAGER}"
    return SDPA if implementation == "sdpa" else None


def _names(kind: type) -> Iterator[str]:
    """Yield the names that the methods of a class use."""
    for method in vars(kind).values():
        if code := getattr(inspect.unwrap(method) if callable(method) else method, "__code__", None):
            yield from code.co_names
