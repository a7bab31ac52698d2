"""Pauses between calls, for components that alone would drive the board into its power cap.

In the model, a hungry component runs for microseconds between modest ones, at full clocks. Alone, back to back,
it reaches the cap and the board lowers its clocks: other joules than in the model. With a pause after every
call it keeps its clocks; what the pauses take is measured by themselves and subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from energyscope.replay.calls import Call

ABOUT_HZ = 1.7e9  # GPU clocks; the length of a pause need not be exact, since it is measured


def resting(round_: Sequence[Call], seconds: float) -> list[Call]:
    """Return a round with a pause of about some seconds after each call, or of one pause if it has no calls.

    The pause is a kernel of one thread that counts clock cycles, so that it can stand in a CUDA graph.
    """
    rest = partial(torch.cuda._sleep, max(1, round(seconds * ABOUT_HZ)))  # noqa: SLF001 - there is no public one
    return [_both(call, rest) for call in round_] or [rest]


def _both(call: Call, rest: Call) -> Call:
    def step() -> None:
        call()
        rest()

    return step
