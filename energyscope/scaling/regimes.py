"""The search for a time law: which regime each cell is in, and with which coefficients. See `time_law`.

Given the regimes, a law is linear; then the regimes follow from the law, and so on (as S. P. Lloyd's k-means,
IEEE Transactions on Information Theory 28 (1982), 129-137), from many starts, of which the best ends count.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from energyscope.metering.ticks import Array
from energyscope.scaling.least_squares import solve_non_negative

Form = Literal["sum", "floor"]
LAUNCH, COMPUTE, MEMORY = range(3)
STARTS = 6  # borders tried along an axis
ROUNDS = 8
STRONG = 6.0  # difference of the criterion that is strong evidence
EXACT = 0.01  # times of cells are hardly known better: smaller residuals tell little between laws

Regimes = npt.NDArray[np.intp]
Found = tuple[float, Regimes, Array]  # loss, regimes (n,), coefficients (3,)


def explain(columns: Array, times: Array, form: Form, *, eager: bool) -> tuple[Found, bool]:
    """Return the law of the terms that explain the times best, and whether launch and memory are told apart.

    All sets of terms are tried that leave two cells over, and judged by G. Schwarz's criterion (Annals of
    Statistics 6 (1978), 461-464): a term that one cell alone follows, and that by its noise, would otherwise be
    told with a narrow interval though nothing shows it. Small shapes of one model take the same time whether it
    is due to their weights or to launches. Where either explains the times about as well, a reader must know, and
    launches are taken if the run was ``eager``: there the host sets the pace more often.
    """
    most = max(1, len(times) - 2)
    sets = [np.array(kept) for kept in itertools.product((0, 1), repeat=3) if 0 < sum(kept) <= most]
    found = _search(columns, np.array(sets), times, form)
    best = min(found, key=lambda one: _criterion(one, len(times)))
    used = best[2] > 0
    swapped = [one for one in found if np.array_equal(one[2] > 0, used[[MEMORY, COMPUTE, LAUNCH]])]
    if used[LAUNCH] == used[MEMORY] or not swapped:
        return best, True
    other = min(swapped, key=lambda one: _criterion(one, len(times)))
    if _criterion(other, len(times)) - _criterion(best, len(times)) > STRONG:
        return best, True
    return (other if eager and used[MEMORY] else best), False


def _criterion(found: Found, count: int) -> float:
    return count * math.log(found[0] / count + EXACT**2) + np.count_nonzero(found[2]) * math.log(count)


def _search(columns: Array, sets: Array, times: Array, form: Form) -> list[Found]:
    """Return for each set of terms (sets, 3) the least sum of squared relative residuals with its law.

    All starts of all sets go their rounds together: one is too small to be worth a call.
    """
    starts = _starts(columns, sets, times, form)
    owners = np.repeat(np.arange(len(sets)), [len(one) for one in starts])
    regimes = np.concatenate(starts)
    used = columns[None] * sets[:, None]
    best: list[Found] = [(math.inf, one[0], np.zeros(3)) for one in starts]
    for _ in range(ROUNDS):
        own = used[owners]
        design = design_of(own, regimes, form)
        found = _coefficients(design / times[:, None], form)
        follows = regimes_of(own, found, form)
        said: Array = np.sum(design_of(own, follows, form) * found[:, None], axis=-1)
        losses: Array = np.sum((said / times - 1) ** 2, axis=1)
        for owner, first in _least(losses, owners):
            if losses[first] < best[owner][0]:
                best[owner] = (float(losses[first]), follows[first], found[first])
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


def _coefficients(rows: Array, form: Form) -> Array:
    """Return the coefficients, shape (starts, 3), from designs over times, shape (starts, n, 3)."""
    moments: Array = rows.sum(axis=1)
    if form == "floor":  # each cell counts in one column only: the columns do not mix
        squares = np.sum(rows**2, axis=1)
        apart: Array = np.divide(moments, squares, out=np.zeros_like(moments), where=squares > 0)
        return apart
    used = np.flatnonzero(np.any(moments > 0, axis=0))
    kept = rows[..., used]
    found = np.zeros_like(moments)
    found[:, used] = solve_non_negative(kept.transpose(0, 2, 1) @ kept, moments[:, used])
    return found


def _starts(columns: Array, sets: Array, times: Array, form: Form) -> list[Regimes]:
    """Return for each set of terms the regimes to start from, shape (starts, n).

    They are borders of intensity and, for a floor, of time per call.
    """
    calls, flops, moved = columns.T
    intensity = np.divide(flops, moved, out=np.full(len(flops), np.inf), where=moved > 0)
    intensity[flops == 0] = 0.0
    both = np.where(intensity > _borders(intensity)[:, None], COMPUTE, MEMORY)
    launched = None
    if form == "floor" and calls.any():
        pace = times / calls
        launched = (pace <= _borders(pace)[:, None])[:, None]
    found: list[Regimes] = []
    for launch, compute, memory in sets:
        computing, moving = bool(compute) and bool(flops.any()), bool(memory) and bool(moved.any())
        limited = both if computing and moving else np.full((1, len(times)), MEMORY if moving else COMPUTE)
        if launch and launched is not None:
            limited = np.where(launched, LAUNCH, limited[None]).reshape(-1, len(times))
            limited = _distinct(np.zeros(len(limited), dtype=np.intp), limited)[1]
        found.append(limited)
    return found


def _distinct(owners: Regimes, regimes: Regimes) -> tuple[Regimes, Regimes]:
    """Return the different rows of each owner (rows,), in the order in which they come first."""
    unique: dict[tuple[int, bytes], int] = {}
    for index, (owner, row) in enumerate(zip(owners.tolist(), regimes, strict=True)):
        unique.setdefault((owner, row.tobytes()), index)
    kept = list(unique.values())
    return owners[kept], regimes[kept]


def _borders(values: Array) -> Array:
    """Return borders below, above and between values, at most `STARTS` between."""
    known = np.unique(values)
    inner = known[np.unique(np.linspace(0, len(known) - 1, STARTS + 1).astype(int))]
    result: Array = np.concatenate([[-1.0], inner])  # all lie above the first, none above the last
    return result


def regimes_of(columns: Array, coefficients: Array, form: Form) -> Regimes:
    """Return which term is the largest, shape (starts, n), for coefficients of shape (starts, 3)."""
    terms = columns * coefficients[:, None, :]
    if form == "sum":
        terms = np.where(np.arange(3) == LAUNCH, -1.0, terms)
    result: Regimes = np.argmax(terms, axis=-1)
    return result


def design_of(columns: Array, regimes: Regimes, form: Form) -> Array:
    """Return the columns that count in the regimes, others 0: shape (starts, n, 3)."""
    counts = regimes[..., None] == np.arange(3)
    if form == "sum":
        counts[..., LAUNCH] = True
    result: Array = columns * counts
    return result
