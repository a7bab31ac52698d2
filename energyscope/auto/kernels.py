"""Functions that do a mixer's work: its convolution over positions and its scan are no modules.

In transformers they are functions of the file of the model, so that kernels can take their places.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

from torch import nn

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


def _names(kind: type) -> Iterator[str]:
    """Yield the names that the methods of a class use."""
    for method in vars(kind).values():
        if code := getattr(inspect.unwrap(method) if callable(method) else method, "__code__", None):
            yield from code.co_names
