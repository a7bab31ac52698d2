"""Lag and averaging of a power field, and whether it agrees with the counter, from traces. Pure functions.

A power field does not show power as it is now. Some show its mean over the last second, some a low-pass of it;
all are renewed only every so often. A step of power shows which:

    power            _________________
    load  __________|
    mean over W     .    ______________     rises in a straight line, for W
    low-pass        .  .-'                  rises fast at first, then ever slower
                    |lag|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from energyscope.metering.ticks import Array, Ticks
from energyscope.reasons import reason

NINE = float(np.log(9.0))  # a low-pass of time constant T takes T ln 9 from 10 % to 90 %
BETWEEN_SHAPES = 0.38  # of that rise is over at 50 %: a half of a moving average's, 0.27 of a low-pass's
VISIBLE_STEP = 0.1  # of the power before: noise hides when a smaller step happens
LEVELS = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class StepResponse:
    """How a power field follows a step of power.

    ``averaging_s`` is the window of a ``moving average``, or the time constant of a ``first-order`` low-pass; None
    for a ``jump``: faster than the field is renewed (``refresh_s``), which bounds it. ``lag_s`` is when the rise
    begins after the step, known to about half of ``refresh_s``. All None with a ``reason`` where nothing was seen.
    """

    lag_s: float | None
    averaging_s: float | None
    shape: Literal["moving average", "first-order", "jump"] | None
    refresh_s: float | None
    reason: str | None = None


def step_response(
    times_s: Sequence[float] | Array,
    power_w: Sequence[float] | Array,
    step_s: float,
    before_w: float,
    after_w: float,
) -> StepResponse:
    """Return how a sampled power field follows a step from one steady power to another.

    ``times_s`` and ``power_w`` have shape (samples,), on one clock with ``step_s``; ``before_w`` and ``after_w``
    are what the field shows well before and well after the step.
    """
    if abs(after_w - before_w) < VISIBLE_STEP * abs(before_w):
        return StepResponse(None, None, None, None, reason("small-power-step", before_w=before_w, after_w=after_w))
    times, power, refresh = renewals(np.asarray(times_s, dtype=float), np.asarray(power_w, dtype=float))
    level = (power - before_w) / (after_w - before_w)
    late = np.flatnonzero((times >= step_s) & (level >= LEVELS[-1]))
    if len(late) == 0:
        return StepResponse(None, None, None, refresh, reason("load-power-not-reached"))
    end = int(late[0])
    low_before = np.flatnonzero(level[:end] <= LEVELS[0])
    if len(low_before) == 0:
        return StepResponse(None, None, None, refresh, reason("step-not-watched"))
    begin = int(low_before[-1])
    rise_s, rise = np.maximum(times[begin : end + 1], step_s), level[begin : end + 1]  # not before the step
    if len(rise) == 2:
        return StepResponse(float(rise_s.mean()) - step_s, None, "jump", refresh)
    low, middle, high = (_crossing(rise_s, rise, threshold) for threshold in LEVELS)
    if (middle - low) / (high - low) >= BETWEEN_SHAPES:
        window = (high - low) / (LEVELS[2] - LEVELS[0])
        return StepResponse(max(0.0, low - LEVELS[0] * window - step_s), window, "moving average", refresh)
    constant = (high - low) / NINE
    start = low + constant * float(np.log(1 - LEVELS[0]))
    return StepResponse(max(0.0, start - step_s), constant, "first-order", refresh)


def renewals(times_s: Array, power_w: Array) -> tuple[Array, Array, float | None]:
    """Return when a field was renewed and what it then showed, shape (renewals,) each, and the time between (s).

    A field is read more often than it is renewed. A renewal that shows the same value again is not seen; the
    last of these before a change is put one refresh before it.
    """
    changed = np.flatnonzero(np.diff(power_w) != 0) + 1
    refresh = float(np.median(np.diff(times_s[changed]))) if len(changed) > 2 else None
    points: list[tuple[float, float]] = [(float(times_s[0]), float(power_w[0]))]
    for index in changed:
        now, held_s = float(times_s[index]), float(times_s[index - 1])
        unseen_s = held_s if refresh is None else now - refresh
        if unseen_s - points[-1][0] > (refresh or 0.0) / 2:
            points.append((unseen_s, points[-1][1]))
        points.append((now, float(power_w[index])))
    times, power = np.array(points).T
    return times, power, refresh


def _crossing(times_s: Array, level: Array, threshold: float) -> float:
    """Return when a rise first crosses a threshold, on straight lines between the renewals."""
    after = int(np.flatnonzero(level >= threshold)[0])
    if after == 0:
        return float(times_s[0])
    share = (threshold - level[after - 1]) / (level[after] - level[after - 1])
    return float(times_s[after - 1] + share * (times_s[after] - times_s[after - 1]))


@dataclass(frozen=True)
class Agreement:
    """The counter's energy over the integral of a power field (1: they agree); None with a ``reason``."""

    ratio: float | None
    counter_w: float | None
    power_w: float | None
    seconds: float
    reason: str | None = None


def counter_against_power(
    ticks: Ticks, times_s: Sequence[float] | Array, power_w: Sequence[float] | Array, begin_s: float, end_s: float
) -> Agreement:
    """Compare the counter with integrated power between the first and last tick of an interval.

    ``times_s`` and ``power_w``, shape (samples,), are samples of a power field. The load should be steady, and the
    field settled at ``begin_s``: an averaging field lags behind every change.
    """
    inside = ticks.between(begin_s, end_s)
    if len(inside) < 2 or inside.reset[1:].any():
        return Agreement(None, None, None, end_s - begin_s, reason("no-two-ticks"))
    first, last = float(inside.time_s[0]), float(inside.time_s[-1])
    times, power = np.asarray(times_s, dtype=float), np.asarray(power_w, dtype=float)
    seconds = last - first
    if len(times) < 2 or times[0] > first or times[-1] < last:
        return Agreement(None, None, None, seconds, reason("power-not-sampled"))
    grid = np.concatenate([[first], times[(times > first) & (times < last)], [last]])
    values = np.interp(grid, times, power)
    joules = float(np.sum(np.diff(grid) * (values[1:] + values[:-1]) / 2))
    counted = float(inside.energy_mj[-1] - inside.energy_mj[0]) / 1e3
    if joules <= 0:
        return Agreement(None, counted / seconds, joules / seconds, seconds, reason("field-shows-no-power"))
    return Agreement(counted / joules, counted / seconds, joules / seconds, seconds)
