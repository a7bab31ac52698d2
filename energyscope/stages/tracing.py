"""The power trace of a run: what the boards said at every tick, and what the run was doing then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.generating.marks import Mark

STEP = "step"  # of the model by itself, between generations
KEPT = ("device", "energy_mj", "power_w", "sm_clock_mhz", "temperature_c")


def generated(entries: Sequence[Mapping[str, Any]]) -> list[Mark]:
    """Return the time stamps of a journal's traced generations, oldest first."""
    return [Mark.from_entry(entry["generation"]) for entry in entries if "generation" in entry]


def trace_row(
    stage: str,
    state: Mapping[str, Any],
    origin_s: float,
    marks: Sequence[tuple[float, str]],
    generations: Sequence[Mark],
    steps: Sequence[tuple[float, float]] = (),
) -> dict[str, Any]:
    """Return the trace's row of a meter's state at a tick.

    Args:
        stage: the stage whose meter saw it; the phase of those that are no phase of an inference.
        state: one of `MeterGroup.states`.
        origin_s: the trace's time 0, on the clock of the meter.
        marks: when (s) the profile began which phase.
        generations: the traced generations.
        steps: when (s) the step in their middle was replayed by itself.

    """
    now = state["after_s"]
    phase, token = _in_generation(now, generations) if stage == "generate" else (_begun(now, marks), None)
    if stage == "generate" and phase is None and any(begin_s <= now <= end_s for begin_s, end_s in steps):
        phase = STEP
    named = phase if stage in {"generate", "profile"} and phase else stage
    return {"time_s": now - origin_s, "phase": named, "token": token} | {key: state[key] for key in KEPT}


def _begun(now: float, marks: Sequence[tuple[float, str]]) -> str | None:
    begun = [phase for begin_s, phase in marks if begin_s <= now]
    return begun[-1] if begun else None


def _in_generation(now: float, generations: Sequence[Mark]) -> tuple[str | None, int | None]:
    """Return the phase of a generation at a time, and the index of the token that was in the making."""
    place = bisect_right(generations, now, key=lambda mark: mark.begin_s) - 1
    if place < 0 or now > generations[place].end_s:
        return None, None
    done = bisect_right(generations[place].tokens_s, now)
    return ("prefill" if done == 0 else "decode"), done + 1
