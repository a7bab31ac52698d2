"""One quantity of two runs, and what may be said of its difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from energyscope.runs.intervals import Interval, difference, ratio

Verdict = Literal["less", "more", "no difference shown", "not comparable"]
NO_INTERVAL = "no interval is known for it"


@dataclass(frozen=True)
class Difference:
    """One quantity of the baseline and of another run.

    ``change`` is other - baseline in the quantity's unit, ``relative`` the ratio other / baseline; both
    None where a value is missing. ``reason`` says why there is no verdict of less or more. One difference stands
    for ``count`` components where both runs measured them together; ``origin`` says how a value that was not
    measured on this very component came about.
    """

    name: str
    unit: str
    baseline: Interval | None
    other: Interval | None
    change: Interval | None
    relative: Interval | None
    verdict: Verdict
    reason: str | None = None
    kind: str | None = None
    count: int = 1
    origin: str | None = None

    @property
    def missing(self) -> bool:
        """Whether neither run has a value."""
        return self.baseline is None and self.other is None


def compared(
    name: str, unit: str, baseline: Interval | None, other: Interval | None, obstacles: tuple[str, ...]
) -> Difference:
    """Return the difference of a quantity; ``obstacles`` are why its values are not comparable."""
    if baseline is None or other is None:
        missing = "neither run has it" if baseline is other else "only one of the runs has it"
        return Difference(name, unit, baseline, other, None, None, "not comparable", missing)
    change, relative = difference(other, baseline), ratio(other, baseline)
    verdict, reason = _verdict(change, obstacles)
    return Difference(name, unit, baseline, other, change, relative, verdict, reason)


def _verdict(change: Interval, obstacles: tuple[str, ...]) -> tuple[Verdict, str | None]:
    if obstacles:
        return "not comparable", "; ".join(obstacles)
    if not change.known:
        return "not comparable", NO_INTERVAL
    if not change.excludes(0.0):
        return "no difference shown", "the interval of the difference includes zero"
    return ("more" if change.value > 0 else "less"), None
