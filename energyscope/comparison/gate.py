"""Whether a run takes more energy than is allowed, as a yes or no for scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.comparison.difference import LEADS, MORE, NOT_COMPARABLE, Difference
from energyscope.errors import RunError, UsageError
from energyscope.reasons import words

if TYPE_CHECKING:
    from energyscope.comparison.compare import Comparison
    from energyscope.comparison.conditions import RunComparison


@dataclass(frozen=True)
class Excess:
    """An energy of a whole model that is more than allowed: of which run, ``at`` which phase or shape."""

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


def exceeding(comparison: Comparison, limit: float) -> list[Excess]:
    """Return every energy of a whole model that is more than the baseline's by over a share, ``limit``, of it.

    Of eager runs, that is their work.

    Only a verdict of more counts, so a difference that is not shown never does.

    Raises:
        RunError: a run has no energy with a verdict, so that nothing can be said of it.

    """
    excesses: list[Excess] = []
    for name in dict.fromkeys(pair.other for pair in comparison.pairs):
        energies = [(at, item) for other, at, item in _energies(comparison) if other == name]
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


def _energies(comparison: Comparison) -> Iterator[tuple[str, str, Difference]]:
    """Yield the energies by which whole models are compared: the other run, the phase or shape, the difference."""
    tables: list[tuple[RunComparison, str, Sequence[Difference]]]
    tables = [(pair, pair.scene or pair.other_scene or "", pair.whole) for pair in comparison.pairs]
    tables += [(generation, "", generation.rows) for generation in comparison.generations]
    for benchmark in comparison.benchmarks:
        for cell in benchmark.cells:
            at = f"{cell.precision}, batch {cell.batch_size} x {cell.sequence_length} tokens"
            tables.append((benchmark, at, cell.rows))
    for of, at, rows in tables:
        yield from ((of.other, at, item) for item in rows if item.name in LEADS[of.basis])
