"""Beats: periodic work that a counter samples always in the same phase. Pure functions.

Between its ticks, a board adds up samples of its power that it takes at a fixed interval (about 819 us on an
H200). Work of period T whose power changes inside of T is a sum of harmonics at h / T; one that lies near a
multiple of the sampling frequency is not averaged away but folded to a slow beat (aliasing), and the joules of a
window are off by as much as the samples meet more of the work's high power, or less, than there is.

    power    |##..|##..|##..|##..|##..|##..|        ## burst, .. rest
    samples   x    x    x    x    x    x            period = sampling interval: only bursts are seen

The mean over N samples lets through |sin(pi N f) / (N sin(pi f))| of a harmonic that is f from a multiple, in
sampling frequencies: at most 1 / (2 N f), and 1 where f is 0.
"""

from __future__ import annotations

import math

import numpy as np

from energyscope.metering.ticks import Array

HARMONICS = 8  # of the work, or of the sampling where that is faster: those beyond are weak
ALIASING = 0.05  # a window that lets through more of a harmonic is replayed with another period
SPREAD = 0.03  # of power from tick to tick; under a steady load, sensors scatter by about 1 %
FASTEST = 20.0  # periods in an interval: power that changes faster does not reach the sensor
PAUSES = 400  # lengths of a pause that are compared
NEAR_BEST = 1.25  # the shortest pause is taken of those that let through this much more than the best


def aliasing(period_s: float, interval_s: float, seconds: float) -> float:
    """Return which share of a unit step's harmonics a window lets through as a beat: 0 (none) to 1 (locked).

    ``period_s`` is that of the work, ``interval_s`` that of the samples and ``seconds`` the window's length. The
    h-th harmonic of a step of power has 1/h of the first one's amplitude.
    """
    if period_s < interval_s / FASTEST:
        return 0.0
    share, harmonic = _let_through(period_s, interval_s, seconds)
    return float((share / harmonic).max())


def detuned_pause(period_s: float, interval_s: float, seconds: float, *, least_s: float = 0.0) -> float:
    """Return a pause (s) after each period, no shorter than ``least_s``, with which the work does not beat.

    It is the shortest of those that bring the harmonics about as far from multiples of the sampling frequency
    as possible. All harmonics up to the sampling frequency count alike: a model's pass consists of like layers.
    """
    begin_s = period_s + least_s
    span_s = min(interval_s, begin_s**2 / interval_s)  # by so much more, the ratio has passed all fractions
    pauses = least_s + np.linspace(0.0, span_s, PAUSES)
    worst = np.array([_worst(period_s + pause, interval_s, seconds) for pause in pauses])
    return float(pauses[np.flatnonzero(worst <= NEAR_BEST * worst.min())[0]])


def _worst(period_s: float, interval_s: float, seconds: float) -> float:
    share, harmonic = _let_through(period_s, interval_s, seconds)
    weights = np.minimum(1.0, max(period_s / interval_s, 1.0) / harmonic)
    return float((share * weights).max())


def _let_through(period_s: float, interval_s: float, seconds: float) -> tuple[Array, Array]:
    """Return which share of each harmonic becomes a beat, and the harmonics' numbers; shape (harmonics,) each."""
    samples = max(seconds / interval_s, 1.0)
    harmonic = np.arange(1.0, math.ceil(HARMONICS * max(1.0, period_s / interval_s)) + 1)
    frequency = harmonic * interval_s / period_s  # in sampling frequencies
    distance = np.abs(frequency - np.maximum(np.round(frequency), 1.0))
    return 1 / np.maximum(2 * samples * distance, 1.0), harmonic
