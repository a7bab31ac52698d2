"""Whether a run takes more energy than is allowed, for a machine that has to say yes or no."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from energyscope.errors import RunError, UsageError
from energyscope.runs.compare_benchmark import ENERGY, said_of_shape
from energyscope.runs.compare_difference import Difference

if TYPE_CHECKING:
    from energyscope.runs.compare import Comparison

_ENERGIES = {"energy per forward pass", "energy per decode step", "energy per generated token", ENERGY}


def allowed(written: str) -> float:
    """Read how much more is allowed, such as ``5%`` or ``5``, as a share of one.

    Raises:
        UsageError: it is no percentage of 0 or more.

    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*", written)
    if found is None:
        raise UsageError(f"{written!r} is no percentage: write for instance --fail-if-more-than 5%")
    return float(found[1]) / 100


def exceeding(comparison: Comparison, limit: float) -> list[str]:
    """Return a sentence for every energy of a whole model that is more than the baseline's by over ``limit``.

    Only a verdict of more counts, so a difference that is not shown never does.

    Raises:
        RunError: a run has no energy with a verdict, so that nothing can be said of it.

    """
    found = []
    others = [pair.other for pair in comparison.pairs]
    for name in dict.fromkeys(others):
        ours = [(at, item) for other, at, item in _energies(comparison) if other == name]
        judged = [(at, item) for at, item in ours if item.verdict != "not comparable"]
        if not judged:
            why = next((item.reason for _, item in ours if item.reason), "no energy was measured in both runs")
            raise RunError(f"{name} cannot be judged against {comparison.baseline}: {why}")
        found += [
            f"{name}: {item.name}{f' ({at})' if at else ''} is {(item.relative.value - 1) * 100:.1f} % more "
            f"than {comparison.baseline}'s"
            for at, item in judged
            if item.verdict == "more" and item.relative and item.relative.value - 1 > limit
        ]
    return found


def _energies(comparison: Comparison) -> Iterator[tuple[str, str, Difference]]:
    """Yield the energies of whole models: whose, at which moment or shape, and the difference."""
    for whose, at, rows in _tables(comparison):
        for item in rows:
            if item.name in _ENERGIES:
                yield whose, at, item


def _tables(comparison: Comparison) -> Iterator[tuple[str, str, Sequence[Difference]]]:
    for pair in comparison.pairs:
        yield pair.other, pair.scene or "", pair.whole
    for generation in comparison.generations:
        yield generation.other, "", generation.rows
    for benchmark in comparison.benchmarks:
        for cell in benchmark.cells:
            at = said_of_shape((cell.precision, cell.batch_size, cell.sequence_length))
            yield benchmark.other, at, cell.rows
