"""Whether a run takes more energy than is allowed, as a yes or no for scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from energyscope.comparison.difference import MORE, NOT_COMPARABLE, Difference
from energyscope.errors import RunError, UsageError
from energyscope.reasons import words

Energy = tuple[str, str, Difference]  # the other run, at which phase, shape or load, and how its energy differs


class Compared(Protocol):
    """Runs against a baseline, and the energies by which they are judged."""

    @property
    def baseline(self) -> str: ...
    @property
    def pairs(self) -> Sequence[Any]: ...
    def energies(self) -> Iterable[Energy]: ...


@dataclass(frozen=True)
class Excess:
    """An energy of a whole model, or of a request, that is more than allowed: of which run, ``at`` which phase,
    shape or load.
    """

    run: str
    at: str
    item: Difference
    share: float


def allowed(written: str) -> float:
    """Read how much more is allowed, such as ``5%`` or ``5``, as a share of one.

    Raises:
        UsageError: it is no percentage of 0 or more, or may be meant as a share.

    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", written)
    if match is None:
        raise UsageError(f"{written!r} is no percentage: write for instance --fail-if-more-than 5%")
    percent = float(match[1])
    if 0 < percent < 1 and not match[2]:
        raise UsageError(f"{written} may mean {percent:.0%} or {percent:g}%: write it with %")
    return percent / 100


def exceeding(comparison: Compared, limit: float) -> list[Excess]:
    """Return every energy of a whole model, or of a request, that exceeds the baseline's by a share, ``limit``.

    Of eager runs, that is their work. Only a verdict of more counts, so a difference that is not shown never does.

    Raises:
        RunError: a run has no energy with a verdict, so that nothing can be said of it.

    """
    excesses: list[Excess] = []
    for name in dict.fromkeys(pair.other for pair in comparison.pairs):
        energies = [(at, item) for other, at, item in comparison.energies() if other == name]
        judged = [(at, item) for at, item in energies if item.verdict != NOT_COMPARABLE]
        if not judged:
            why = next((words(item.reason) for _, item in energies if item.reason), "no energy is in both runs")
            raise RunError(f"{name} cannot be judged against {comparison.baseline}: {why}")
        excesses += [
            Excess(name, at, item, item.relative.value - 1)
            for at, item in judged
            if item.verdict == MORE and item.relative and item.relative.value - 1 > limit
        ]
    return excesses
