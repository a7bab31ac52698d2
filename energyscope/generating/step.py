"""The model's own step in the middle of a generation, replayed in turn with the generations. Pure functions.

A host's pace drifts by tens of percent within minutes: what is to be compared with the trace is taken beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.generating.figures import mean_of, scaled, value_of
from energyscope.generating.phases import joined
from energyscope.unknown import mean, minus, times

Entry = Mapping[str, Any]
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
    energy = mean_of([one.energy_mj for one in windows], floor=mean([one.timing_share for one in windows]) or 0.0)
    seconds = scaled(mean_of([one.time_us for one in windows]), 1e-6)
    beyond = [minus(one.energy_mj, times(one.time_us, idle_w * 1e-3)) for one in windows] if idle_w else []
    lost = next((one.reason for one in windows if one.reason), None)
    return {
        "context_length": taken[0]["step_context"] if taken else None,
        "seconds": seconds,
        "energy_mj": energy,
        "dynamic_mj": mean_of(beyond),
        "static_mj": None if idle_w is None else times(value_of(seconds), idle_w * 1e3),
        "windows": len(windows),
        "reason": None if energy else refused or lost or why_not,
    }
