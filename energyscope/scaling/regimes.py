"""The search for a time law: which regime each cell is in, and with which coefficients. See `time_law`.

Given the regimes, a law is linear; then the regimes follow from the law, and so on (as S. P. Lloyd's k-means,
IEEE Transactions on Information Theory 28 (1982), 129-137), from many starts, of which the best ends count.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from energyscope.metering.ticks import Array

LAUNCH, COMPUTE, MEMORY = range(3)
STARTS = 6  # borders tried along an axis
ROUNDS = 8
STRONG = 6.0  # difference of the criterion that is strong evidence
EXACT = 0.01  # times of cells are hardly known better: smaller residuals do not distinguish laws

Regimes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class RegimeSplit:
    """The regime of each cell (n,) with the ``coefficients`` (3,), and the sum of squared relative residuals."""

    loss: float
    regimes: Regimes
    coefficients: Array

    @property
    def used(self) -> tuple[bool, ...]:
        """Which of launch, compute and memory have a coefficient."""
        return tuple((self.coefficients > 0).tolist())

    @property
    def criterion(self) -> float:
        """G. Schwarz's criterion (Annals of Statistics 6 (1978), 461-464): less is better."""
        count = len(self.regimes)
        return count * math.log(self.loss / count + EXACT**2) + sum(self.used) * math.log(count)


def explain(columns: Array, times: Array, *, eager: bool) -> tuple[RegimeSplit, bool]:
    """Return the terms that explain the times (n,) best, and whether they separate launch from memory.

    ``columns`` (n, 3) are calls, FLOPs and bytes. All sets of terms are tried that leave two cells over: a term
    that one cell alone follows, and that by its noise, would otherwise get a narrow interval though nothing shows
    it. Small shapes of one model take the same time whether it is due to their weights or to launches. Where
    either explains the times about as well, launches are taken if the run was ``eager``: there the host sets the
    pace more often.
    """
    most = max(1, len(times) - 2)
    sets = [np.array(kept) for kept in itertools.product((0, 1), repeat=3) if 0 < sum(kept) <= most]
    splits = _search(columns, np.array(sets), times)
    best = min(splits, key=lambda split: split.criterion)
    launch, compute, memory = best.used
    swapped = [split for split in splits if split.used == (memory, compute, launch)]
    if launch == memory or not swapped:
        return best, True
    other = min(swapped, key=lambda split: split.criterion)
    if other.criterion - best.criterion > STRONG:
        return best, True
    return (other if eager and memory else best), False


def design_of(columns: Array, regimes: Regimes) -> Array:
    """Return the columns (..., n, 3) where they count in the regimes (..., n), 0 elsewhere."""
    result: Array = columns * (regimes[..., None] == np.arange(3))
    return result


def _search(columns: Array, sets: Array, times: Array) -> list[RegimeSplit]:
    """Return for each set of terms (sets, 3) the split with the least loss.

    All starts of all sets go their rounds together: one is too small to be worth a call.
    """
    starts = _starts(columns, sets, times)
    owners = np.repeat(np.arange(len(sets)), [len(regimes) for regimes in starts])
    regimes = np.concatenate(starts)
    best = [RegimeSplit(math.inf, start[0], np.zeros(3)) for start in starts]
    for _ in range(ROUNDS):
        own = columns * sets[owners][:, None]
        coefficients = _coefficients(design_of(own, regimes) / times[:, None])
        terms = own * coefficients[:, None, :]
        follows: Regimes = np.argmax(terms, axis=-1)
        losses: Array = np.sum((terms.max(axis=-1) / times - 1) ** 2, axis=1)
        for owner, place in _least(losses, owners):
            if losses[place] < best[owner].loss:
                best[owner] = RegimeSplit(float(losses[place]), follows[place], coefficients[place])
        moved = np.isin(owners, owners[np.any(follows != regimes, axis=1)])
        if not moved.any():
            break
        owners, regimes = _distinct(owners[moved], follows[moved])
    return best


def _least(losses: Array, owners: Regimes) -> list[tuple[int, int]]:
    """Return each owner with the place of its least loss; of equal ones the first."""
    order = np.lexsort((losses, owners))
    first = np.flatnonzero(np.diff(owners[order], prepend=-1))
    return [(int(owners[place]), int(place)) for place in order[first]]


def _coefficients(rows: Array) -> Array:
    """Return the coefficients, shape (starts, 3), from designs over times, shape (starts, n, 3).

    Each cell counts in one column only, so that the columns do not mix.
    """
    moments, squares = rows.sum(axis=1), np.sum(rows**2, axis=1)
    result: Array = np.divide(moments, squares, out=np.zeros_like(moments), where=squares > 0)
    return result


def _starts(columns: Array, sets: Array, times: Array) -> list[Regimes]:
    """Return for each set of terms the regimes to start from, shape (starts, n): borders of intensity and pace."""
    calls, flops, moved = columns.T
    intensity = np.divide(flops, moved, out=np.full(len(flops), np.inf), where=moved > 0)
    intensity[flops == 0] = 0.0
    both = np.where(intensity > _borders(intensity)[:, None], COMPUTE, MEMORY)
    pace = times / calls
    launched = (pace <= _borders(pace)[:, None])[:, None]
    starts: list[Regimes] = []
    for launch, compute, memory in sets:
        computing, moving = bool(compute) and bool(flops.any()), bool(memory) and bool(moved.any())
        limited = both if computing and moving else np.full((1, len(times)), MEMORY if moving else COMPUTE)
        if launch:
            limited = np.where(launched, LAUNCH, limited[None]).reshape(-1, len(times))
            limited = _distinct(np.zeros(len(limited), dtype=np.intp), limited)[1]
        starts.append(limited)
    return starts


def _distinct(owners: Regimes, regimes: Regimes) -> tuple[Regimes, Regimes]:
    """Return the different rows of each owner (rows,), in the order in which they come first."""
    _, first = np.unique(np.column_stack([owners, regimes]), axis=0, return_index=True)
    kept = np.sort(first)
    return owners[kept], regimes[kept]


def _borders(values: Array) -> Array:
    """Return borders below, above and between values, at most `STARTS` between."""
    known = np.unique(values)
    inner = known[np.unique(np.linspace(0, len(known) - 1, STARTS + 1).astype(int))]
    result: Array = np.concatenate([[-1.0], inner])  # all lie above the first, none above the last
    return result
