"""What is replayed, a call without arguments whose result nobody needs, and what replays it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from energyscope.metering.ticks import Calls

Call = Callable[[], Any]


class RoundReplay(Protocol):
    """Runs a round of calls again and again for some seconds; None where a graph cannot be captured of them."""

    def run(self, round_: Sequence[Call], seconds: float) -> Calls | None: ...

    def synchronize(self) -> None: ...
