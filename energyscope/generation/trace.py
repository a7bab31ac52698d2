"""From a trace of generations to the energy of their phases, over all meters. Pure functions.

Along the decode, power is a line through a few nodes: with one power for all steps, whatever the first ones draw
otherwise than the last would be put into the prefill. Nodes are dropped where a trace cannot separate them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from energyscope.generation.timeline import (
    FIRST_NODE,
    PREFILL,
    Bin,
    GenerationTimes,
    decode_bins,
    node_weights,
    overlaps,
)
from energyscope.intervals import Interval
from energyscope.metering.regression import Places, PowerFit, fit_delayed, rough_delay_s
from energyscope.metering.tick_intervals import TickIntervals, tick_intervals
from energyscope.metering.ticks import Array, Ticks
from energyscope.reasons import Reason, reason

MOST_BINS = 16
NODES = ((0.0, 0.125, 0.25, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0), (0.0, 1.0), (0.5,))  # denser near the prefill
WIDEST_BIN = 0.2  # relative half-width of a bin's power, with which fewer nodes are tried
WIDEST = 0.5  # relative half-width beyond which an energy is not reported


@dataclass(frozen=True)
class FittedEnergy:
    """Energy (J) with its 95 % half-width, and each device's share; None throughout with a ``reason``."""

    value: float | None = None
    half: float | None = None
    devices: tuple[float, ...] | None = None
    reason: Reason | str | None = None

    def interval(self, seconds: Interval | None = None) -> Interval | None:
        """Return the energy with its interval; wider by that of its mean ``seconds``, where these are given."""
        if self.value is None or self.half is None:
            return None
        half = self.half
        if seconds is not None and seconds.low is not None and seconds.high is not None and seconds.value:
            half = math.hypot(half, self.value * ((seconds.high - seconds.low) / 2) / seconds.value)
        return Interval(self.value, self.value - half, self.value + half)


@dataclass(frozen=True)
class TraceFit:
    """The generations, a fit for each meter, and the weights of the decode steps on the nodes that were fitted."""

    marks: tuple[GenerationTimes, ...]
    nodes: Array
    fits: tuple[PowerFit, ...]

    @property
    def bins(self) -> list[Bin]:
        """The bins of decode steps that are shown."""
        return decode_bins(len(self.nodes), MOST_BINS)

    def prefill_j(self) -> FittedEnergy:
        """Return the energy of a mean prefill (J)."""
        return self._energy(prefill=True, steps=(1, 0))

    def decode_j(self, steps: Bin | None = None) -> FittedEnergy:
        """Return the energy of decode steps in a mean generation (J): of a bin, or of all."""
        return self._energy(prefill=False, steps=steps or (1, len(self.nodes)))

    def whole_j(self) -> FittedEnergy:
        """Return the energy of a mean generation, prefill and decode (J)."""
        return self._energy(prefill=True, steps=(1, len(self.nodes)))

    def _energy(self, *, prefill: bool, steps: Bin) -> FittedEnergy:
        seconds = np.zeros(FIRST_NODE + self.nodes.shape[1])  # of each column of the fits
        if prefill:
            seconds[PREFILL] = np.mean([mark.prefill_s for mark in self.marks])
        part = slice(steps[0] - 1, steps[1])
        seconds[FIRST_NODE:] = np.mean([mark.steps_s for mark in self.marks], axis=0)[part] @ self.nodes[part]
        faults = [fit.faults[column] for fit in self.fits for column in np.flatnonzero(seconds)]
        if any(faults):
            return FittedEnergy(reason=next(filter(None, faults)))
        parts = [fit.energy_j(seconds) for fit in self.fits]
        total, half = sum(value for value, _ in parts), math.hypot(*(width for _, width in parts))
        if not total > 0 or half > WIDEST * total:
            return FittedEnergy(reason=reason("phase-too-uncertain", energy_j=total, half_j=half))
        return FittedEnergy(total, half, tuple(value for value, _ in parts))


def joined_intervals(parts: Sequence[tuple[Ticks, Sequence[GenerationTimes]]]) -> TickIntervals:
    """Return one meter's intervals over a trace in one part or more: a resumed run takes it up again.

    Each part has a grid of ticks of its own. What lies between two parts is not used, nor the first full interval
    under load of a later one: that of the first part is not used either.
    """
    whole = tick_intervals(parts[0][0])
    for ticks, marks in parts[1:]:
        since_s = float(whole.times_s[-1]) if len(whole.times_s) else -math.inf
        own = tick_intervals(ticks.between(float(np.nextafter(since_s, math.inf)), math.inf))
        if not len(whole.times_s) or not len(own.times_s):
            whole = own if len(own.times_s) else whole
            continue
        begun = int(np.searchsorted(own.times_s, marks[0].begin_s, side="right"))
        good = own.good.copy()
        good[: begun + 1] = False
        whole = TickIntervals(
            np.concatenate([whole.times_s, own.times_s]),
            np.concatenate([whole.energy_j, [0.0], own.energy_j]),
            np.concatenate([whole.good, [False], good]),
        )
    return whole


def fit_trace(
    intervals: Sequence[TickIntervals],
    marks: Sequence[GenerationTimes],
    excluded: Sequence[tuple[float, float]] = (),
) -> TraceFit:
    """Fit the powers of all phases to the intervals of each meter's ticks.

    ``marks`` are all generations of the trace, in order, at least one; ``excluded`` are spans (s) between them in
    which something else ran, of which nothing is used.
    """
    traces = [trace.excluding(excluded) for trace in intervals]
    steps = len(marks[0].tokens_s) - 1
    simple = node_weights(steps, NODES[-1])
    late_s = [
        rough_delay_s(trace, _used_intervals(trace, marks), partial(overlaps, marks=marks, nodes=simple))
        for trace in traces
    ]
    tried = []
    for shares in [shares for shares in NODES if len(shares) <= steps] or [NODES[-1]]:
        nodes = node_weights(steps, shares)
        fits = [fit_meter(trace, marks, nodes, delay_s) for trace, delay_s in zip(traces, late_s, strict=True)]
        fit = TraceFit(tuple(marks), nodes, tuple(fits))
        if _is_precise(fit) and fit.prefill_j().value is not None:
            return fit
        tried.append(fit)
    return next((fit for fit in tried if _is_precise(fit)), tried[-1])  # the prefill alone may be too short


def fit_meter(
    trace: TickIntervals, marks: Sequence[GenerationTimes], nodes: Array, rough_s: float = 0.0
) -> PowerFit:
    """Fit the powers of one meter to the intervals from the first generation's second tick to the last one's end.

    ``nodes`` are the weights of the decode steps, ``rough_s`` is about how late the counter is.
    """
    used = _used_intervals(trace, marks)
    middle = (trace.times_s[:-1] + trace.times_s[1:])[used] / 2
    groups = np.searchsorted([mark.begin_s for mark in marks], middle)
    design = partial(overlaps, marks=marks, nodes=nodes)
    return fit_delayed(trace, used, design, groups, ["pauses", "prefill", *_node_names(nodes)], rough_s)


def _used_intervals(trace: TickIntervals, marks: Sequence[GenerationTimes]) -> Places:
    """Return the intervals under load, without the first full one: boards show a transient in it."""
    begins, ends = trace.times_s[:-1], trace.times_s[1:]
    under_load = np.flatnonzero(begins > marks[0].begin_s)[1:]
    used: Places = under_load[(ends[under_load] <= marks[-1].end_s) & trace.good[under_load]]
    return used


def _node_names(nodes: Array) -> list[str]:
    if nodes.shape[1] == 1:
        return ["decode"]
    return [f"decode near step {1 + int(np.argmax(weights))}" for weights in nodes.T]


def _is_precise(fit: TraceFit) -> bool:
    """Return whether the power of each bin is known well enough."""
    energies = [fit.decode_j(steps) for steps in fit.bins]
    return all(
        energy.value and energy.half is not None and energy.half <= WIDEST_BIN * energy.value
        for energy in energies
    )
