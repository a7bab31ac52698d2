"""What was repeated beside the trace: the Python loop of `generate`, and the step in the middle of a generation.

The loop is told from windows of generations whose forward passes were bypassed. Two lengths tell what each step
costs from what each call costs:

    short call = call + steps of the short one x step,    long call = call + steps of the long one x step

The step is replayed in turn with the generations: a host's pace drifts by tens of percent within minutes. Pure
functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.generating.figures import Figure, mean_of, scaled, value_of
from energyscope.generating.phases import joined
from energyscope.metering.estimate import Window
from energyscope.unknown import mean, minus, quotient, times

Entry = Mapping[str, Any]

SHORT, LONG = 8, 64  # new tokens
LATE_S = 0.28  # by which a counter may show what was drawn, as far as the fit of the trace looks


def middle_context(prompt: int, new_tokens: int) -> int:
    """Return the tokens in the cache halfway through a generation."""
    return prompt + new_tokens // 2


def aside(entries: Sequence[Entry]) -> list[tuple[float, float]]:
    """Return when (s) something else than generations ran, until the counter has certainly shown it."""
    return [(float(entry["begin_s"]), float(entry["end_s"])) for entry in entries if "step_context" in entry]


def step_figures(entries: Sequence[Entry], idle_w: float | None, why_not: str) -> dict[str, Any]:
    """Return seconds and mJ of the step; what is not known is None, with the reason.

    ``dynamic_mj`` is what goes beyond idle power x time, of each window by its own time.
    """
    taken = [entry for entry in entries if "step_context" in entry]
    refused = next((entry["step_reason"] for entry in entries if "step_reason" in entry), None)
    windows = [joined(entry) for entry in taken]
    floor = mean([window.timing_share for window in windows]) or 0.0
    energy = mean_of([window.energy_mj for window in windows], floor=floor)
    seconds = scaled(mean_of([window.time_us for window in windows]), 1e-6)
    mj_per_us = idle_w * 1e-3 if idle_w else None
    beyond = [minus(window.energy_mj, times(window.time_us, mj_per_us)) for window in windows if mj_per_us]
    lost = next((window.reason for window in windows if window.reason), None)
    return {
        "context_length": taken[0]["step_context"] if taken else None,
        "seconds": seconds,
        "energy_mj": energy,
        "dynamic_mj": mean_of(beyond),
        "static_mj": None if idle_w is None else times(value_of(seconds), idle_w * 1e3),
        "windows": len(windows),
        "reason": None if energy else refused or lost or why_not,
    }


def loop_lengths(room: int) -> tuple[int, int] | None:
    """Return the two lengths (new tokens) that fit into so many positions; None where no two do."""
    longest = min(LONG, room)
    return (max(1, min(SHORT, longest // 4)), longest) if longest >= 2 else None


def loop_figures(entries: Sequence[Entry], why_not: str) -> dict[str, Any]:
    """Return the loop per step of the batch and per call of ``generate``, from pairs of windows of one pass."""
    refused = next((entry["loop_reason"] for entry in entries if "loop_reason" in entry), None)
    by_pass: dict[int, dict[int, Window]] = defaultdict(dict)
    for entry in entries:
        if "loop_tokens" in entry:
            by_pass[entry["pass"]][entry["loop_tokens"]] = joined(entry)
    pairs = [sorted(by_length.items()) for by_length in by_pass.values() if len(by_length) == 2]
    costs = {
        "per_token": _both([_step(pair) for pair in pairs]),
        "per_call": _both([_call(pair) for pair in pairs]),
    }
    known = any(costs.values())
    reasons = [window.reason for pair in pairs for _, window in pair if window.reason]
    return {
        **costs,
        "windows": sum(len(by_length) for by_length in by_pass.values()),
        "reason": None if known else refused or next(iter(reasons), why_not),
    }


Costs = tuple[float | None, float | None]  # seconds, mJ


def _step(pair: Sequence[tuple[int, Window]]) -> Costs:
    (few, short), (many, long) = pair
    steps = many - few
    seconds = quotient(minus(long.time_us, short.time_us), steps)
    return times(seconds, 1e-6), quotient(minus(long.energy_mj, short.energy_mj), steps)


def _call(pair: Sequence[tuple[int, Window]]) -> Costs:
    few, short = pair[0]
    seconds, energy = _step(pair)
    return minus(times(short.time_us, 1e-6), times(seconds, few)), minus(short.energy_mj, times(energy, few))


def _both(costs: Sequence[Costs]) -> dict[str, Figure | None] | None:
    """Return the means; None where nothing is known of either, and an energy of None where it is not positive."""
    seconds, energy = mean_of([cost[0] for cost in costs]), mean_of([cost[1] for cost in costs])
    if energy is not None and not (energy["value"] or 0.0) > 0:
        energy = None
    return None if seconds is None else {"seconds": seconds, "energy_mj": scaled(energy, 1.0)}
