"""What is replayed: calls without arguments, whose results are not used."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from energyscope.metering.ticks import Calls

Call = Callable[[], Any]


class RoundReplay(Protocol):
    """Runs a round of calls again and again for some seconds; None where a graph cannot be captured of them."""

    def run(self, round_: Sequence[Call], seconds: float) -> Calls | None: ...

    def synchronize(self) -> None: ...


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep Python's collector out of a window: where launching is the bottleneck, its pauses cost energy.

    In a capture, it could free a tensor on the device, which would invalidate the graph.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
