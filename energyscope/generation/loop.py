"""What is repeated in windows: the Python loop of `generate`, and the step in the middle of a generation.

The loop is measured in windows of generations whose forward passes are stubbed. Two lengths separate what each
step costs from what each call costs:

    short call = call + steps of the short one x step,    long call = call + steps of the long one x step

The step is replayed in turn with the generations: a host's pace drifts by tens of percent within minutes. Pure
functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.grouping import group_by
from energyscope.intervals import Interval, interval
from energyscope.metering.group import sum_windows
from energyscope.metering.interval import combine
from energyscope.metering.window import Window
from energyscope.unknown import mean, minus, quotient, times

Entry = Mapping[str, Any]

SHORT, LONG = 8, 64  # new tokens
LATE_S = 0.28  # by which a counter may show what was drawn, as far as the fit of the trace looks


def middle_context(prompt: int, new_tokens: int) -> int:
    """Return the tokens in the cache halfway through a generation."""
    return prompt + new_tokens // 2


def step_spans(entries: Sequence[Entry]) -> list[tuple[float, float]]:
    """Return when (s) something else than generations ran, until the counter has certainly shown it."""
    return [(float(entry["begin_s"]), float(entry["end_s"])) for entry in entries if "step_context" in entry]


def mean_of(values: Sequence[float | None], *, floor: float = 0.0) -> Interval | None:
    """Return the mean of independent values with Student's interval (see `combine`)."""
    estimate = combine(values, floor=floor)
    return interval(estimate.mean, estimate.low, estimate.high)


def joined(entry: Entry) -> Window:
    """Return the window of a journal entry, over all devices."""
    return sum_windows([Window.from_record(record) for record in entry["windows"]])


def mean_window(windows: Sequence[Window]) -> dict[str, Any]:
    """Return mean seconds, mJ and W of a call over windows, and the first reason for a missing energy."""
    floor = mean([window.timing_share for window in windows]) or 0.0
    seconds = mean_of([window.time_us for window in windows])
    return {
        "seconds": seconds and seconds.scaled(1e-6),
        "energy_mj": mean_of([window.energy_mj for window in windows], floor=floor),
        "power_w": mean_of([window.power_w for window in windows], floor=floor),
        "reason": next((window.reason for window in windows if window.reason), None),
    }


def step_figures(entries: Sequence[Entry], idle_w: float | None, why_not: str) -> dict[str, Any]:
    """Return seconds and mJ of the step; what is not known is None, with the reason.

    ``dynamic_mj`` is the energy beyond idle power x time, of each window by its own time.
    """
    steps = [entry for entry in entries if "step_context" in entry]
    refused = next((entry["step_reason"] for entry in entries if "step_reason" in entry), None)
    windows = [joined(entry) for entry in steps]
    figures = mean_window(windows)
    seconds, energy = figures["seconds"], figures["energy_mj"]
    dynamic = [minus(window.energy_mj, times(window.time_us, idle_w * 1e-3)) for window in windows if idle_w]
    return {
        "context_length": steps[0]["step_context"] if steps else None,
        "seconds": seconds,
        "energy_mj": energy,
        "dynamic_mj": mean_of(dynamic),
        "static_mj": seconds.value * (idle_w * 1e3) if seconds and idle_w is not None else None,
        "windows": len(windows),
        "reason": None if energy else refused or figures["reason"] or why_not,
    }


def loop_lengths(room: int) -> tuple[int, int] | None:
    """Return the two lengths (new tokens) that fit into so many positions; None where no two do."""
    longest = min(LONG, room)
    return (max(1, min(SHORT, longest // 4)), longest) if longest >= 2 else None


def loop_pairs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the windows of both lengths, for each pass of the loop that has them both."""
    by_pass = group_by((entry for entry in entries if "loop_tokens" in entry), lambda entry: entry["pass"])
    return [pair for pair in by_pass.values() if len(pair) == 2]


def loop_figures(entries: Sequence[Entry], why_not: str) -> dict[str, Any]:
    """Return the loop per step of the batch and per call of ``generate``, from pairs of windows of one pass."""
    refused = next((entry["loop_reason"] for entry in entries if "loop_reason" in entry), None)
    pairs = [sorted((entry["loop_tokens"], joined(entry)) for entry in pair) for pair in loop_pairs(entries)]
    per_token: dict[str, Interval | None] = {}
    per_call: dict[str, Interval | None] = {}
    for figure, column, unit in (("seconds", "time_us", 1e-6), ("energy_mj", "energy_mj", 1.0)):
        steps, calls = list[float | None](), list[float | None]()
        for (few, short), (many, long) in pairs:
            step = quotient(minus(getattr(long, column), getattr(short, column)), (many - few) / unit)
            steps.append(step)
            calls.append(minus(times(getattr(short, column), unit), times(step, few)))
        per_token[figure], per_call[figure] = mean_of(steps), mean_of(calls)
    costs = {"per_token": _cost(**per_token), "per_call": _cost(**per_call)}
    reasons = [window.reason for pair in pairs for _, window in pair if window.reason]
    return {
        **costs,
        "windows": 2 * len(pairs),
        "reason": None if any(costs.values()) else refused or next(iter(reasons), why_not),
    }


def _cost(seconds: Interval | None, energy_mj: Interval | None) -> dict[str, Interval | None] | None:
    """Return what a step or call takes; None without seconds, and an energy of None where it is not positive."""
    positive = energy_mj if energy_mj and energy_mj.value > 0 else None
    return None if seconds is None else {"seconds": seconds, "energy_mj": positive}
