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
    measured on this very component came about. ``invalid``: a value did not reach grade C, so there is no verdict.
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
    invalid: bool = False

    @property
    def missing(self) -> bool:
        """Whether neither run has a value."""
        return self.baseline is None and self.other is None

    @property
    def together(self) -> Interval | None:
        """The change of all components that the difference stands for; measured together, they err together."""
        return self.change.scaled(self.count) if self.change else None


def compared(
    name: str,
    unit: str,
    baseline: Interval | None,
    other: Interval | None,
    obstacles: tuple[str, ...],
    invalid: str | None = None,
) -> Difference:
    """Return the difference of a quantity.

    ``obstacles`` are why its values are not comparable; ``invalid`` says which of them did not reach grade C.
    """
    if baseline is None or other is None:
        missing = "neither run has it" if baseline is other else "only one of the runs has it"
        return Difference(
            name, unit, baseline, other, None, None, "not comparable", missing, invalid=bool(invalid)
        )
    change, relative = difference(other, baseline), ratio(other, baseline)
    verdict, reason = _verdict(change, (*obstacles, invalid) if invalid else obstacles)
    return Difference(name, unit, baseline, other, change, relative, verdict, reason, invalid=bool(invalid))


def _verdict(change: Interval, obstacles: tuple[str, ...]) -> tuple[Verdict, str | None]:
    if obstacles:
        return "not comparable", "; ".join(obstacles)
    if not change.known:
        return "not comparable", NO_INTERVAL
    if not change.excludes(0.0):
        return "no difference shown", "the interval of the difference includes zero"
    return ("more" if change.value > 0 else "less"), None


def said_invalid(baseline: bool, other: bool) -> str | None:
    """Say which of two values was graded invalid; None where neither was."""
    whose = {(True, True): "both runs", (True, False): "the baseline", (False, True): "the other run"}
    found = whose.get((baseline, other))
    return f"graded invalid in {found}" if found else None
