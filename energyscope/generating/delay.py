"""The fit of one meter's trace, with the time by which its counter is behind our clock. Pure functions.

Where the ticks lie on our clock is known to a fraction of a millisecond at best, and a counter may show energy
somewhat late: a shift that all ticks share would put joules of one phase into the next. So the shift is fitted
with the powers: near the best of many by steps of Gauss and Newton, whose uncertainty is in the powers' intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from energyscope.generating.intervals import Intervals
from energyscope.generating.marks import Mark, overlaps
from energyscope.generating.regression import PowerFit, fit_powers
from energyscope.metering.ticks import Array

STEP_S = 0.0005  # over which power around a tick is taken for the derivative
ROUNDS = 6
LONGEST_S = 0.03  # a shift from where it began beyond it is no answer
TRIED_S = np.arange(-0.02, 0.25, 0.004)
CONVINCING = 15.0  # times the variance of a residual, by which a delay must make their squares less
DELAY = "counter delay"


def rough_delay_s(found: Intervals, marks: Sequence[Mark], nodes: Array) -> float:
    """Return about how late (s) the counter shows energy: 0, unless another delay explains it clearly better."""
    used = _used(found, marks)
    if len(used) <= nodes.shape[1] + 2:
        return 0.0
    energy = found.energy_j[used]
    left = [_unexplained(overlaps(found.times_s - one, marks, nodes)[used], energy) for one in (0.0, *TRIED_S)]
    best = int(np.argmin(left))
    noise = left[best] / (len(used) - nodes.shape[1] - 2)
    return float(TRIED_S[best - 1]) if best and left[0] - left[best] > CONVINCING * noise else 0.0


def _unexplained(seconds: Array, energy_j: Array) -> float:
    """Return the sum of squares (J^2) that the best powers leave."""
    power, *_ = np.linalg.lstsq(seconds, energy_j, rcond=None)
    residual = energy_j - seconds @ power
    return float(residual @ residual)


def fit_delayed(found: Intervals, marks: Sequence[Mark], nodes: Array, rough_s: float = 0.0) -> PowerFit:
    """Fit the powers of one meter to the intervals from the first generation's second tick to the last one's end.

    The first full interval under load is left out: boards show a transient in it. ``nodes`` are the weights of the
    decode steps, ``rough_s`` is about how late the counter is. The last column is the delay's, where it could be
    fitted.
    """
    used = _used(found, marks)
    energy = found.energy_j[used]
    middle = (found.times_s[:-1] + found.times_s[1:])[used] / 2
    groups = np.searchsorted([mark.begin_s for mark in marks], middle)
    names = ["pauses", "prefill", *_node_names(nodes)]
    plain = fit = fit_powers(overlaps(found.times_s - rough_s, marks, nodes)[used], energy, groups, names)
    delay_s = rough_s
    for _ in range(ROUNDS):
        seconds, slope = _shifted(found.times_s - delay_s, marks, nodes, fit.power_w[: len(names)])
        fit = fit_powers(np.column_stack([seconds, slope])[used], energy, groups, [*names, DELAY])
        delay_s -= float(fit.power_w[-1])
        if any(fit.faults) or abs(delay_s - rough_s) > LONGEST_S:
            return plain
    return fit


def _shifted(times_s: Array, marks: Sequence[Mark], nodes: Array, power_w: Array) -> tuple[Array, Array]:
    """Return the overlaps at some times, and how the joules in each interval change with these times (W)."""
    around = [overlaps(times_s + step, marks, nodes) @ power_w for step in (-STEP_S, STEP_S)]
    return overlaps(times_s, marks, nodes), (around[1] - around[0]) / (2 * STEP_S)


def _used(found: Intervals, marks: Sequence[Mark]) -> npt.NDArray[np.intp]:
    begins, ends = found.times_s[:-1], found.times_s[1:]
    under_load = np.flatnonzero(begins > marks[0].begin_s)[1:]
    used: npt.NDArray[np.intp] = under_load[(ends[under_load] <= marks[-1].end_s) & found.good[under_load]]
    return used


def _node_names(nodes: Array) -> list[str]:
    if nodes.shape[1] == 1:
        return ["decode"]
    return [f"decode near step {1 + int(np.argmax(one))}" for one in nodes.T]
