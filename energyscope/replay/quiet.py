"""Keeping Python's garbage collector out of what is measured."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep Python's collector out of a window: where launching is the bottleneck, its pauses show as joules.

    In a capture, it could free a tensor on the device, which would spoil the graph.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
