"""The contract of an energy counter that is read by a call, and what all of them share."""

from __future__ import annotations

import itertools
import math
import time
from abc import ABC, abstractmethod

from energyscope.errors import MeterError

FEWEST_CHANGES = 3  # that tell a period


class DeniedError(MeterError):
    """There is a counter, and this user may not read it."""


class Counter(ABC):
    """A cumulative energy of some ``domains``, such as a package and its DRAM.

    ``place`` names the counter to another process: its class, made of that text, reads the same one.
    After reads further apart than ``most_gap_s``, it may have begun again at 0 unseen.
    """

    place: str
    domains: list[str]
    most_gap_s: float = math.inf

    @abstractmethod
    def energy_mj(self) -> float:
        """Return the energy (mJ) of all domains since some moment; less than before where it was reset.

        Raises:
            MeterError: it does not answer.

        """

    def shown(self) -> float:
        """Return what one domain shows, in units of its own: it changes when that domain does."""
        return self.energy_mj()


def update_period_s(counter: Counter, *, changes: int, most_s: float) -> float:
    """Return the median time (s) between two changes of a counter's first domain; looks until it saw that many.

    Raises:
        MeterError: it stands still, or changes less than three times in ``most_s``.

    """
    begin_s = now_s = time.monotonic()
    times_s, last = list[float](), counter.shown()
    while len(times_s) <= changes and now_s - begin_s <= most_s:
        shown, now_s = counter.shown(), time.monotonic()
        if shown != last:
            times_s.append(now_s)
            last = shown
    if len(times_s) < FEWEST_CHANGES:
        raise MeterError(
            f"the energy counter of {counter.domains[0]} stands still: {len(times_s)} changes in {most_s:.1f} s"
        )
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(times_s))
    return gaps[len(gaps) // 2]
