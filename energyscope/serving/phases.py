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
from energyscope.metering.tick_intervals import TickIntervals
from energyscope.metering.ticks import Array, Ticks
from energyscope.reasons import Reason, join
from energyscope.serving.amounts import CAUSES, Amounts, amounts_of
from energyscope.serving.curve import ratio, slots_of
from energyscope.serving.design import ANSWER, PROMPT
from energyscope.serving.energy import ServingFit, is_whole
from energyscope.serving.requests import Served

OF_PROMPTS = ("requests", "prompt")  # causes


def phases_of(
    fit: ServingFit, parts: Sequence[tuple[Served, Sequence[Reason]]], ticks: Sequence[Ticks], idle_w: Interval
) -> list[dict[str, Any]]:
    """Return the energy of a token beyond the idle engine: of prompts by length, of answers by users.

    ``parts`` are all loads, each with what disturbed it. Loads in which requests failed tell nothing: what was
    done for these is not known.
    """
    amounts = amounts_of([load for load, _ in parts])
    found = [
        _phase(fit, amounts, load, guards, ticks, idle_w)
        for load, guards in parts
        if load.load.kind in {PROMPT, ANSWER} and is_whole(load)
    ]
    known = [phase for phase in found if phase is not None]
    return sorted(known, key=lambda phase: (phase["phase"] != PROMPT, phase["prompt_tokens"] or 0, phase["users"]))


def _phase(
    fit: ServingFit,
    amounts: Amounts,
    load: Served,
    guards: Sequence[Reason],
    ticks: Sequence[Ticks],
    idle_w: Interval,
) -> dict[str, Any] | None:
    """Return the energy of a token of a load; None where it is too short, or made none."""
    of_prompt = load.load.kind == PROMPT
    begin_s, end_s = load.begin_s + load.load.ramp_s, load.begin_s + load.load.seconds
    made = dict(zip(CAUSES, amounts.between(np.array([begin_s, end_s]))[0].tolist(), strict=True))
    count = made["prompt"] if of_prompt else made["tokens"]
    slots = [known for each in ticks if (known := slots_of(each, begin_s, end_s)) is not None]
    if count <= 0 or len(slots) < len(ticks):
        return None
    parts = [_token(fit, amounts, of_board, idle_w, of_prompt, len(slots)) for of_board in slots]
    value = sum(part.value for part in parts)
    half = sum(part.above for part in parts)  # boards share the noise of how tokens fall into slots
    half = math.hypot(half, max(idle_w.above, idle_w.below) * (end_s - begin_s) / count)
    quality, reasons = grade(half / value if value > 0 else None, len(slots[0].energy_j), guards)
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


def _token(
    fit: ServingFit, amounts: Amounts, slots: TickIntervals, idle_w: Interval, of_prompt: bool, boards: int
) -> Interval:
    """Return what a token takes of one board of several, beyond its share of idle power."""
    table = dict(zip(CAUSES, amounts.between(slots.times_s).T, strict=True))
    beyond_j = slots.energy_j - idle_w.value / boards * np.diff(slots.times_s)
    if of_prompt:
        return ratio(beyond_j, table["prompt"])
    return ratio(beyond_j - _prompts_j(fit, table) / boards, table["tokens"])


def _prompts_j(fit: ServingFit, table: dict[str, Array]) -> Array:
    """Return what the prompts of slots cost (J), by the fit."""
    costs = fit.costs()
    spent: Array = sum((costs[cause].value * table[cause] for cause in OF_PROMPTS if cause in costs), np.zeros(1))
    return spent
