"""Models of several sizes at one shape: joules per token, per parameter and per FLOP, and what the parts take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from energyscope.intervals import Interval, difference, ratio, total
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.scaling.cell import FLOOR, own_deviation
from energyscope.scaling.efficiency import MJ_PER_J, fields_of, mean_of, plain, tokens_of, with_whole
from energyscope.scaling.from_runs import UNEXPLAINED, WHOLE, SceneCells
from energyscope.scaling.least_squares import weighted
from energyscope.scaling.sizes_held_out import sizes_held_out
from energyscope.scaling.two_term import PJ_PER_MJ

FIELDS = ("phase", "precision", "execution", "kv_cache", "board", "meter", "method", "batch_size", "tokens")
__all__ = ["sizes", "sizes_held_out"]

LEAST = 3  # models of which an exponent can be told with an interval
ONE = Interval(1.0, 1.0, 1.0)

Parameters = Mapping[str, Mapping[str, Any]]


def sizes(scenes: Sequence[SceneCells], parameters: Parameters) -> list[dict[str, Any]]:
    """Return the models measured alike in all `FIELDS`, two at least, ordered by parameters, as plain data.

    ``parameters`` gives each model's ``parameters`` and ``layers``; one without stays in the rows, with None.
    Energies per token are of the tokens that a pass works on. ``exponent`` is the slope of log(J per token) over
    log(parameters), of three models at least, with Student's 95 % interval; else None with a ``reason``.
    ``shares`` are of the measured whole and add up to 1 with glue and what is unexplained: nothing is
    renormalised; a moment without all of its parts has none.
    """
    found: dict[tuple[Any, ...], dict[str, list[SceneCells]]] = {}
    for scene in with_whole(scenes):
        found.setdefault(fields_of(scene, FIELDS), {}).setdefault(scene.model, []).append(scene)
    return [_entry(key, models, parameters) for key, models in found.items() if len(models) > 1]


def _entry(
    key: tuple[Any, ...], models: Mapping[str, Sequence[SceneCells]], parameters: Parameters
) -> dict[str, Any]:
    rows = [_row(scenes, parameters.get(model) or {}) for model, scenes in models.items()]
    rows.sort(key=lambda row: (row["parameters"] is None, row["parameters"] or 0, row["model"]))
    exponent, why = _exponent(rows, models)
    return {**dict(zip(FIELDS, key, strict=True)), "rows": rows, "exponent": plain(exponent), "reason": why}


def _row(scenes: Sequence[SceneCells], facts: Mapping[str, Any]) -> dict[str, Any]:
    cells = [scene.cells[WHOLE] for scene in scenes]
    energy, time_us = mean_of(cells)
    tokens, flops, count = tokens_of(cells[0]), cells[0].flops, facts.get("parameters")
    return {
        "model": scenes[0].model,
        "parameters": count,
        "layers": facts.get("layers"),
        "weights": scenes[0].weights,
        "energy_mj": plain(energy),
        "energy_per_token_mj": plain(energy.scaled(1 / tokens)),
        "pj_per_parameter_token": plain(energy.scaled(PJ_PER_MJ / tokens / count)) if count else None,
        "pj_per_flop": plain(energy.scaled(PJ_PER_MJ / flops)) if flops else None,
        "time_us": time_us,
        "power_w": energy.value / time_us * MJ_PER_J,
        "shares": _shares(scenes),
    }


def _shares(scenes: Sequence[SceneCells]) -> dict[str, Any]:
    """Return each part's share of the whole, means over the moments that tell them.

    What is unexplained is the whole less the rest, so that its share is 1 less theirs: its errors are the
    whole's own, not those of a further measurement.
    """
    told = [scene for scene in scenes if scene.parts]
    if not told or any(set(scene.parts) != set(told[0].parts) for scene in told):
        return {}
    whole, _ = mean_of([scene.cells[WHOLE] for scene in told])
    parts = {
        part: mean_of([scene.cells[part] for scene in told])[0] for part in told[0].parts if part != UNEXPLAINED
    }
    shares = {part: ratio(energy, whole) or Interval(energy.value / whole.value) for part, energy in parts.items()}
    explained = ratio(total(parts.values()), whole)
    if explained is not None:
        shares[UNEXPLAINED] = difference(ONE, explained)
    return {part: plain(share) for part, share in shares.items()}


def _exponent(
    rows: Sequence[Mapping[str, Any]], models: Mapping[str, Sequence[SceneCells]]
) -> tuple[Interval | None, Reason | None]:
    known = [row for row in rows if row["parameters"]]
    if (count := len({row["parameters"] for row in known})) < LEAST:
        return None, reason("few-sizes", sizes=count, needed=LEAST)
    size = np.log([row["parameters"] for row in known])
    energy: Array = np.log([row["energy_per_token_mj"]["value"] for row in known])
    own = [_deviation(models[row["model"]]) for row in known]
    worst = max((one for one in own if one is not None), default=0.0)
    spread = np.hypot([worst if one is None else one for one in own], FLOOR)
    fit = weighted(np.column_stack([np.ones(len(size)), size]), energy, spread)
    return (None, reason("sizes-too-alike")) if fit is None else (fit.coefficient(1), None)


def _deviation(scenes: Sequence[SceneCells]) -> float | None:
    """Return the relative deviation of a model's mean energy that intervals tell, None where they do not."""
    known = [own_deviation(scene.cells[WHOLE]) for scene in scenes]
    if any(one is None for one in known):
        return None
    return float(np.linalg.norm([one or 0.0 for one in known])) / len(known)
