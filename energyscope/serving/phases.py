"""Joules of a token by phase: what loads of prompts, and of answers, draw beyond the idle engine.

A load of prompts does nothing else, so its energy beyond idle power, by its tokens, is what one costs; likewise a
load of answers, but for its short prompts, whose fitted cost is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from energyscope.intervals import Interval
from energyscope.metering.grades import grade
from energyscope.metering.ticks import Array, Ticks
from energyscope.reasons import Reason, join
from energyscope.serving.amounts import CAUSES, Amounts, amounts_of
from energyscope.serving.curve import ratio, slots_of
from energyscope.serving.design import ANSWER, PROMPT
from energyscope.serving.energy import ServingFit
from energyscope.serving.requests import Served

OF_PROMPTS = ("requests", "prompt")  # causes


def phases_of(
    fit: ServingFit, loads: Sequence[Served], ticks: Sequence[Ticks], idle_w: Interval
) -> list[dict[str, Any]]:
    """Return the energy of a token beyond the idle engine: of prompts by length, of answers by users."""
    amounts = amounts_of(loads)
    found = [_phase(fit, amounts, load, ticks, idle_w) for load in loads if load.load.kind in {PROMPT, ANSWER}]
    known = [phase for phase in found if phase is not None]
    return sorted(known, key=lambda phase: (phase["phase"] != PROMPT, phase["prompt_tokens"] or 0, phase["users"]))


def _phase(
    fit: ServingFit, amounts: Amounts, load: Served, ticks: Sequence[Ticks], idle_w: Interval
) -> dict[str, Any] | None:
    """Return the energy of a token of a load; None where it is too short, or made none."""
    of_prompt = load.load.kind == PROMPT
    begin_s, end_s = load.begin_s + load.load.ramp_s, load.begin_s + load.load.seconds
    spent = [slots_of(ticks_of_meter, begin_s, end_s) for ticks_of_meter in ticks]
    known = [slots for slots in spent if slots is not None]
    made = dict(zip(CAUSES, amounts.between(np.array([begin_s, end_s]))[0].tolist(), strict=True))
    count = made["prompt"] if of_prompt else made["tokens"]
    if len(known) < len(spent) or count <= 0:
        return None
    ratios = []
    for slots in known:
        table = dict(zip(CAUSES, amounts.between(slots.times_s).T, strict=True))
        beyond_j = slots.energy_j - idle_w.value / len(known) * np.diff(slots.times_s)
        if not of_prompt:
            beyond_j -= _prompts_j(fit, table) / len(known)
        ratios.append(ratio(beyond_j, table["prompt" if of_prompt else "tokens"]))
    value = sum(part.value for part in ratios)
    half = math.hypot(  # boards share the noise of how tokens fall into slots
        sum(part.above for part in ratios), max(idle_w.above, idle_w.below) * (end_s - begin_s) / count
    )
    quality, reasons = grade(half / value if value > 0 else None, len(known[0].energy_j))
    prompts = [answer.prompt_tokens for answer in load.answers if answer.prompt_tokens is not None]
    return {
        "phase": load.load.kind,
        "load": load.load.name,
        "users": load.load.users,
        "prompt_tokens": float(np.mean(prompts)) if prompts else None,
        "context": None if of_prompt else 1e3 * made["context"] / count,
        "together": None if of_prompt or not made["steps"] else count / made["steps"],
        "tokens": count,
        "value": value,
        "low": value - half,
        "high": value + half,
        "quality": quality,
        "reasons": join(map(Reason, reasons)),
    }


def _prompts_j(fit: ServingFit, table: dict[str, Array]) -> Array:
    """Return what the prompts of slots cost (J), by the fit."""
    costs = fit.costs()
    spent: Array = sum((costs[cause].value * table[cause] for cause in OF_PROMPTS if cause in costs), np.zeros(1))
    return spent
