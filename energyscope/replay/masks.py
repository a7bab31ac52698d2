"""Attention masks in a CUDA graph as in eager execution.

Before a model builds a causal mask, it finds out whether attention needs one: a single token on a cache, or a
prompt without padding, does not. Some versions of transformers do not ask while a graph is captured, also where
there is nothing to look at on the device. Then the model in the graph would expand and read a mask, copy the heads
of its keys, and run other attention kernels than it does outside.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

ASKING = ("_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa")


@contextmanager
def masks_as_in_eager() -> Iterator[None]:
    """Let models decide about masks as they do outside of a capture, where that needs no value from the device."""
    library = sys.modules.get("transformers.masking_utils")  # not loaded: no model of its asks anything
    with ExitStack() as stack:
        for name in ASKING if library is not None else ():
            original = getattr(library, name, None)
            if original is not None:
                stack.callback(setattr, library, name, original)
                setattr(library, name, _untraced(library, original))
        yield


def _untraced(library: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(one, torch.Tensor) for one in (*args, *kwargs.values())):
            return original(*args, **kwargs)  # to look at it would wait for the device
        before = library.is_tracing
        library.is_tracing = _never
        try:
            return original(*args, **kwargs)
        finally:
            library.is_tracing = before

    return asked


def _never(*_: Any) -> bool:
    return False
