"""Simulated generations on a simulated sensor: their true joules are known."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from energyscope.generation.loop import LATE_S
from energyscope.generation.timeline import GenerationTimes
from energyscope.metering.ticks import Ticks
from energyscope.testing import PowerTrace, SimulatedSensor, Watch

BEGIN_S = 1000.0


@dataclass(frozen=True)
class Load:
    """What a board draws (W) in each phase, and for how long (s); relative deviations of what differs.

    The decode's power rises by ``slope`` from its first to its last step. ``spread`` is that of each step's power,
    ``between`` that of whole generations', ``pace`` that of lengths. Pauses are random, or all alike. Between
    generations something else draws ``other_w`` for ``other_s``, after which the board rests.
    """

    prefill_w: float = 600.0
    decode_w: float = 300.0
    rest_w: float = 120.0
    prefill_s: float = 0.02
    step_s: float = 0.008
    steps: int = 127
    slope: float = 0.0
    spread: float = 0.02
    between: float = 0.003
    pace: float = 0.01
    pause_s: float = 0.1
    even_pauses: bool = False
    seconds: float = 12.0
    other_s: float = 0.0
    other_w: float = 450.0


@dataclass(frozen=True)
class Simulated:
    """Generations, the ticks beside them, the mean true joules of both phases, and when something else ran (s)."""

    marks: list[GenerationTimes]
    ticks: Ticks
    prefill_j: float
    decode_j: float
    excluded: list[tuple[float, float]]


def generations(load: Load, seed: int = 0, **sensor: Any) -> Simulated:
    """Generate for ``load.seconds``, five times at least, after three seconds of idling."""
    draw = random.Random(seed)
    trace = PowerTrace(BEGIN_S)
    trace.extend(3.0, load.rest_w)
    marks: list[GenerationTimes] = []
    excluded: list[tuple[float, float]] = []
    spent = 0.0
    while trace.end_s < BEGIN_S + 3.0 + load.seconds + spent or len(marks) < 5:
        trace.extend(load.pause_s if load.even_pauses else draw.uniform(1e-4, load.pause_s + 1e-4), load.rest_w)
        marks.append(_generation(trace, load, draw))
        if load.other_s:
            ended_s = trace.end_s
            trace.extend(LATE_S + 0.1, load.rest_w)
            begin_s = trace.end_s
            trace.extend(load.other_s, load.other_w * (1 + draw.gauss(0, 0.1)))
            excluded.append((begin_s, trace.end_s + LATE_S))
            trace.extend(LATE_S + 0.1, load.rest_w)
            spent += trace.end_s - ended_s
    trace.extend(0.3, load.rest_w)
    ticks = Watch(SimulatedSensor(seed=seed, **sensor), BEGIN_S, trace.energy_j).until(trace.end_s, trace.energy_j)
    prefill = np.mean([_joules(trace, mark.begin_s, mark.tokens_s[0]) for mark in marks])
    decode = np.mean([_joules(trace, mark.tokens_s[0], mark.end_s) for mark in marks])
    return Simulated(marks, ticks, float(prefill), float(decode), excluded)


def _generation(trace: PowerTrace, load: Load, draw: random.Random) -> GenerationTimes:
    begin, scale = trace.end_s, 1 + draw.gauss(0, load.between)
    trace.extend(
        load.prefill_s * (1 + draw.gauss(0, load.pace)), load.prefill_w * scale * (1 + draw.gauss(0, load.spread))
    )
    tokens = [trace.end_s]
    for step in range(load.steps):
        watts = load.decode_w * scale * (1 + load.slope * step / load.steps) * (1 + draw.gauss(0, load.spread))
        trace.extend(load.step_s * (1 + draw.gauss(0, load.pace)), watts)
        tokens.append(trace.end_s)
    return GenerationTimes(begin, tuple(tokens), trace.end_s)


def _joules(trace: PowerTrace, begin_s: float, end_s: float) -> float:
    return float(np.diff(trace.energy_j(np.array([begin_s, end_s])))[0])
