"""Joules of what a server does, from the counter's rise between ticks: a regression on the amounts of each cause.

    joules between two ticks = idle W x seconds + J per prompt token x prompt tokens + J per step x steps + ...

Loads are made so that their amounts differ (mostly prompts, mostly answers, many users, pauses). Which causes are
told apart is chosen by leaving out each load in turn and predicting its energy from the others; time, prompt and
answer are always among them. Loads of mixed requests take no part in any of this: they are held out, and say how
well requests of other shapes are predicted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from energyscope.intervals import Interval
from energyscope.metering.interval import student_t
from energyscope.metering.regression import Places, PowerFit, fit_delayed, rough_delay_s
from energyscope.metering.tick_intervals import TickIntervals, tick_intervals
from energyscope.metering.ticks import Array, Ticks
from energyscope.reasons import Reason
from energyscope.serving.amounts import CAUSES, Amounts, amounts_of
from energyscope.serving.requests import Served

FAILED = 0.01  # of the requests of a load that something is fitted to
LEAST_S = 0.4  # of an interval: where requests lie within it is then known well enough
ALWAYS = (("time", "prompt", "tokens"), ("time", "prompt", "steps"))
SOMETIMES = ("active", "requests", "steps", "tokens", "context")
MOST = tuple(cause for cause in CAUSES if cause != "active")
HELD_OUT, WARM_UP = "mixture", "warm-up"  # kinds of the loads that nothing is fitted to
PAUSE, FEWEST_PAUSES = "pause", 3
BETTER = 0.02  # share by which a further cause must make the error of left-out loads less
BETTER_ACTIVE = 0.5  # likewise for active seconds, which others nearly add up to


@dataclass(frozen=True)
class Predicted:
    """A load that was held out: its energy as measured and as predicted (J), and over which seconds."""

    load: str
    measured_j: float
    predicted_j: float
    seconds: float

    @property
    def error(self) -> float:
        """The relative error of the prediction."""
        return self.predicted_j / self.measured_j - 1


@dataclass(frozen=True)
class ServingFit:
    """What each cause costs, by one fit for each meter to so many ``intervals`` of the first.

    ``left_out`` is the relative error of loads that were left out.
    """

    causes: tuple[str, ...]
    fits: tuple[PowerFit, ...]
    left_out: float
    intervals: int
    held_out: tuple[Predicted, ...] = ()

    @property
    def fault(self) -> Reason | None:
        """Why the costs are not to be trusted, None where they are."""
        return next((fault for fit in self.fits for fault in fit.faults[: len(self.causes)] if fault), None)

    def energy_j(self, **amounts: float) -> Interval:
        """Return the energy of given amounts of causes, with its 95 % interval; what is not fitted adds none."""
        vector = np.array([amounts.get(cause, 0.0) for cause in self.causes])
        parts = [fit.energy_j(vector) for fit in self.fits]
        value, half = sum(part for part, _ in parts), sum(half for _, half in parts)  # boards share noise
        return Interval(value, value - half, value + half)

    def costs(self) -> dict[str, Interval]:
        """Return what one unit of each cause costs, in the units of `CAUSES`."""
        return {cause: self.energy_j(**{cause: 1.0}) for cause in self.causes}


@dataclass(frozen=True)
class _Trace:
    """One meter's intervals, those of them that are used, and which load each of these belongs to."""

    intervals: TickIntervals
    used: Places
    groups: Places


def fit_serving(ticks: Sequence[Ticks], loads: Sequence[Served]) -> ServingFit | None:
    """Fit what each cause costs to the ticks of each meter; None where no set of causes can be told apart."""
    amounts = amounts_of(loads)
    fitted = [load for load in loads if load.load.kind not in {HELD_OUT, WARM_UP} and is_whole(load)]
    if not fitted:
        return None
    traces = [_trace(ticks_of_meter, fitted) for ticks_of_meter in ticks]
    late_s = [
        rough_delay_s(trace.intervals, trace.used, partial(amounts.between, causes=MOST)) for trace in traces
    ]
    best: ServingFit | None = None
    for causes in _candidates():
        fits = [
            fit_delayed(*_parts(trace, amounts, causes), rough_s=delay_s)
            for trace, delay_s in zip(traces, late_s, strict=True)
        ]
        errors = [_left_out(trace, amounts, causes, delay) for trace, delay in zip(traces, late_s, strict=True)]
        error = float(np.sqrt(np.mean(np.square(errors))))
        fit = ServingFit(causes, tuple(fits), error, len(traces[0].used))
        needed = 1 - (BETTER_ACTIVE if "active" in causes else BETTER)
        if fit.fault is None and _is_possible(fit) and (best is None or error < best.left_out * needed):
            best = fit
    if best is None:
        return None
    mixtures = [load for load in loads if load.load.kind == HELD_OUT and is_whole(load)]
    held_out = tuple(_predicted(best, ticks, amounts, load, late_s) for load in mixtures)
    return replace(best, held_out=tuple(filter(None, held_out)))


def is_whole(load: Served) -> bool:
    """Tell whether nearly all requests of a load were answered: what was done for others is not known."""
    return sum(answer.error is not None for answer in load.answers) <= FAILED * len(load.answers)


def measured_j(ticks: Sequence[Ticks], begin_s: float, end_s: float) -> tuple[float, list[tuple[float, float]]]:
    """Return the energy (J) of all meters between their first and last tick of a time, and these ticks' times (s).

    It is NaN where a meter has fewer than two ticks then, or its counter was reset.
    """
    energy, spans = 0.0, []
    for ticks_of_meter in ticks:
        inside = tick_intervals(ticks_of_meter.between(begin_s, end_s))
        if len(inside.times_s) < 2 or not inside.good.all():
            return math.nan, []
        energy += float(inside.energy_j.sum())
        spans.append((float(inside.times_s[0]), float(inside.times_s[-1])))
    return energy, spans


def idle_power(ticks: Sequence[Ticks], loads: Sequence[Served]) -> Interval | None:
    """Return the power (W) of the loaded engine in the pauses, with the 95 % interval of their mean.

    None where too few of them were measured. The fit's cost of time is less exact: noise of all loads is in it.
    """
    powers = []
    for load in loads:
        if load.load.kind == PAUSE:
            parts = [measured_j([ticks_of_meter], load.begin_s, load.end_s) for ticks_of_meter in ticks]
            if all(spans for _, spans in parts):
                powers.append(sum(joules / (spans[0][1] - spans[0][0]) for joules, spans in parts))
    if len(powers) < FEWEST_PAUSES:
        return None
    value = float(np.mean(powers))
    half = student_t(len(powers) - 1) * float(np.std(powers, ddof=1)) / math.sqrt(len(powers))
    return Interval(value, value - half, value + half)


def _candidates() -> Iterator[tuple[str, ...]]:
    """Yield the sets of causes that are tried, the smallest first, each in the order of `CAUSES`.

    Those with active seconds come last: where the engine never waits, they are the sum of what its prompts and
    steps take, and their energy is that of these.
    """
    sets = {
        frozenset(always) | frozenset(more)
        for always in ALWAYS
        for count in range(len(SOMETIMES) + 1)
        for more in itertools.combinations(SOMETIMES, count)
    }
    ordered = [tuple(cause for cause in CAUSES if cause in chosen) for chosen in sets]
    yield from sorted(ordered, key=lambda causes: ("active" in causes, len(causes), causes))


def _trace(ticks: Ticks, loads: Sequence[Served]) -> _Trace:
    intervals = tick_intervals(ticks).merged(LEAST_S)
    begins = np.array([load.begin_s for load in loads])
    ends = np.array([load.end_s for load in loads])
    order = np.argsort(begins)
    middle = (intervals.times_s[:-1] + intervals.times_s[1:]) / 2
    place = np.searchsorted(begins[order], middle, side="right") - 1
    inside = (place >= 0) & (middle <= ends[order][np.maximum(place, 0)])
    used = np.flatnonzero(inside & intervals.good)
    return _Trace(intervals, used, place[used])


def _parts(
    trace: _Trace, amounts: Amounts, causes: tuple[str, ...]
) -> tuple[TickIntervals, Places, partial[Array], Places, tuple[str, ...]]:
    return trace.intervals, trace.used, partial(amounts.between, causes=causes), trace.groups, causes


def _left_out(trace: _Trace, amounts: Amounts, causes: tuple[str, ...], delay_s: float) -> float:
    """Return the relative error (root mean square) of each load's energy, predicted from all others."""
    table = amounts.between(trace.intervals.times_s - delay_s, causes)[trace.used]
    energy = trace.intervals.energy_j[trace.used]
    errors = []
    for group in np.unique(trace.groups):
        out = trace.groups == group
        costs = np.linalg.lstsq(table[~out], energy[~out], rcond=None)[0]
        errors.append((table[out] @ costs).sum() / energy[out].sum() - 1)
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else math.inf


def _is_possible(fit: ServingFit) -> bool:
    """Tell whether no cost is below zero beyond its interval: nothing that a server does gives energy back."""
    return all(cost.high is None or cost.high >= 0 for cost in fit.costs().values())


def _predicted(
    fit: ServingFit, ticks: Sequence[Ticks], amounts: Amounts, load: Served, late_s: Sequence[float]
) -> Predicted | None:
    measured, spans = measured_j(ticks, load.begin_s, load.end_s)
    if not spans:
        return None
    predicted = 0.0
    for meter_fit, (begin_s, end_s), delay_s in zip(fit.fits, spans, late_s, strict=True):
        amount = amounts.between(np.array([begin_s, end_s]) - delay_s, fit.causes)[0]
        predicted += meter_fit.energy_j(amount)[0]
    return Predicted(load.load.name, measured, predicted, spans[0][1] - spans[0][0])
