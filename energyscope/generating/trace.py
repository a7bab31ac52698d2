"""From a trace of generations to the energy of their phases, over all meters. Pure functions.

Along the decode, power is a line through a few nodes: with one power for all steps, whatever the first ones draw
otherwise than the last would be put into the prefill. Nodes are dropped where a trace cannot tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from energyscope.generating.intervals import intervals, without
from energyscope.generating.marks import FIRST_NODE, PREFILL, Bin, Mark, decode_bins, node_weights
from energyscope.generating.regression import PowerFit, fit_delayed, rough_delay_s
from energyscope.metering.ticks import Array, Ticks
from energyscope.reasons import Reason, reason

MOST_BINS = 16
NODES = ((0.0, 0.125, 0.25, 0.5, 0.75, 1.0), (0.0, 0.5, 1.0), (0.0, 1.0), (0.5,))  # denser near the prefill
WIDEST_BIN = 0.2  # relative half-width of a bin's power, with which fewer nodes are tried
WIDEST = 0.5  # relative half-width beyond which an energy is not reported


@dataclass(frozen=True)
class Value:
    """A number with its 95 % half-width, and each device's share of it; None throughout with a ``reason``."""

    value: float | None
    half: float | None
    devices: tuple[float, ...] | None
    reason: Reason | None = None


@dataclass(frozen=True)
class Traced:
    """The generations, a fit for each meter, and the weights of the decode steps on the nodes that were fitted."""

    marks: tuple[Mark, ...]
    nodes: Array
    fits: tuple[PowerFit, ...]
    bins: tuple[Bin, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Cut the decode into the bins that are shown."""
        object.__setattr__(self, "bins", tuple(decode_bins(len(self.nodes), MOST_BINS)))

    def prefill_j(self) -> Value:
        """Return the energy of a mean prefill (J)."""
        return self._energy(prefill=True)

    def decode_j(self) -> Value:
        """Return the energy of a mean generation after its first token (J)."""
        return self._energy(prefill=False, steps=(1, len(self.nodes)))

    def bin_j(self, steps: Bin) -> Value:
        """Return the energy of a bin of decode steps in a mean generation (J)."""
        return self._energy(prefill=False, steps=steps)

    def whole_j(self) -> Value:
        """Return the energy of a mean generation, prefill and decode (J)."""
        return self._energy(prefill=True, steps=(1, len(self.nodes)))

    def _energy(self, *, prefill: bool, steps: Bin = (1, 0)) -> Value:
        weights = np.zeros(FIRST_NODE + self.nodes.shape[1])
        weights[PREFILL] = np.mean([mark.prefill_s for mark in self.marks]) if prefill else 0.0
        part = slice(steps[0] - 1, steps[1])
        seconds = np.mean([mark.steps_s for mark in self.marks], axis=0)[part]
        weights[FIRST_NODE : FIRST_NODE + self.nodes.shape[1]] = seconds @ self.nodes[part]
        return summed(self.fits, weights)


def summed(fits: Sequence[PowerFit], seconds: Array) -> Value:
    """Return the energy of some seconds of each column over all devices; None where the fit cannot give it."""
    faults = [fit.faults[column] for fit in fits for column in np.flatnonzero(seconds) if fit.faults[column]]
    if faults:
        return Value(None, None, None, faults[0])
    parts = [fit.energy_j(seconds) for fit in fits]
    total, half = sum(value for value, _ in parts), math.hypot(*(width for _, width in parts))
    if not total > 0 or half > WIDEST * total:
        return Value(None, None, None, reason("phase-too-uncertain", energy_j=total, half_j=half))
    return Value(total, half, tuple(value for value, _ in parts))


def trace(ticks: Sequence[Ticks], marks: Sequence[Mark], aside: Sequence[tuple[float, float]] = ()) -> Traced:
    """Fit the powers of all phases to each meter's ticks (those of one meter each).

    ``marks`` are all generations of the trace, in order, at least one; ``aside`` are spans (s) between them in
    which something else ran, of which nothing is to be read.
    """
    traces = [without(intervals(ticks_of_meter), aside) for ticks_of_meter in ticks]
    steps = len(marks[0].tokens_s) - 1
    simple = node_weights(steps, NODES[-1])
    late_s = [rough_delay_s(trace, marks, simple) for trace in traces]
    tried = []
    for shares in [shares for shares in NODES if len(shares) <= steps] or [NODES[-1]]:
        nodes = node_weights(steps, shares)
        fits = [fit_delayed(trace, marks, nodes, by_s) for trace, by_s in zip(traces, late_s, strict=True)]
        traced = Traced(tuple(marks), nodes, tuple(fits))
        if _clear(traced) and traced.prefill_j().value is not None:
            return traced
        tried.append(traced)
    return next((traced for traced in tried if _clear(traced)), tried[-1])  # the prefill alone may be too short


def _clear(traced: Traced) -> bool:
    """Tell whether the power of each bin is known well enough."""
    energies = [traced.bin_j(steps) for steps in traced.bins]
    return all(
        energy.value and energy.half is not None and energy.half <= WIDEST_BIN * energy.value
        for energy in energies
    )
