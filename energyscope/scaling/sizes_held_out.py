"""Sizes left out: each model foretold from the cells of the others, with the laws for a new model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.scaling.ceilings import rates_by_pass
from energyscope.scaling.choosing import Chosen, choose, way_of
from energyscope.scaling.efficiency import fields_of, with_whole
from energyscope.scaling.from_runs import RESIDUAL, WHOLE, SceneCells
from energyscope.scaling.heldout import Foretold, errors_of
from energyscope.scaling.selection import by_subject, common_parts
from energyscope.scaling.usable import one_granularity
from energyscope.scaling.whole import summed

FIELDS = ("phase", "precision", "execution", "kv_cache", "board", "meter", "method")


def sizes_held_out(scenes: Sequence[SceneCells]) -> list[dict[str, Any]]:
    """Return how far off each model is when it is foretold from all others measured alike in `FIELDS`.

    The laws are those that a prediction of another model takes: chosen among the others' cells alone, by leaving
    out models, or lengths where there is one other model only. Entries are by left-out model, subject and law:
    the whole by its own law, by the sum over parts, and each component. ``median`` and ``worst`` are of absolute
    relative errors; ``errors`` are (predicted - measured) / measured by cell. Two models at least.
    """
    groups: dict[tuple[Any, ...], list[SceneCells]] = {}
    for scene in with_whole(scenes):
        groups.setdefault(fields_of(scene, FIELDS), []).append(scene)
    found = []
    for key, found_alike in groups.items():
        alike, _ = one_granularity(found_alike)
        models = sorted({scene.model for scene in alike})
        for model in models if len(models) > 1 else ():
            head = {**dict(zip(FIELDS, key, strict=True)), "left_out": model}
            found += [head | entry for entry in _left_out(alike, model)]
    return found


def _left_out(scenes: Sequence[SceneCells], model: str) -> list[dict[str, Any]]:
    """Return the entries of one model: whole, sum over parts, then its components."""
    ours = [scene for scene in scenes if scene.model == model]
    others = [scene for scene in scenes if scene.model != model]
    cells, _ = by_subject(others, ())
    by = way_of(cells[WHOLE], new_model=True)
    rates = rates_by_pass(cell for found in cells.values() for cell in found if cell.subject not in RESIDUAL)
    laws = {subject: choose(found, by, pooled=True, rates=rates) for subject, found in cells.items()}
    chosen = {subject: law for subject, law in laws.items() if isinstance(law, Chosen)}
    told = {
        subject: [
            Foretold(one.cells[subject], law.predict(one.cells[subject])) for one in ours if subject in one.cells
        ]
        for subject, law in chosen.items()
    }
    parts, _ = common_parts([*others, *ours])
    found = [(WHOLE, told.pop(WHOLE, [])), (WHOLE, _sums(ours, parts, chosen)), *told.items()]
    return [_entry(subject, cells) for subject, cells in found if cells]


def _sums(scenes: Sequence[SceneCells], parts: Sequence[str], chosen: Mapping[str, Chosen]) -> list[Foretold]:
    """Foretell the whole as the sum over its parts, where each of them has a law."""
    if not parts or any(part not in chosen for part in parts):
        return []
    found = []
    for scene in scenes:
        if scene.parts:
            each = [chosen[part].predict(scene.cells[part]) for part in parts]
            found.append(Foretold(scene.cells[WHOLE], summed(each, WHOLE)))
    return found


def _entry(subject: str, cells: Sequence[Foretold]) -> dict[str, Any]:
    errors = errors_of(cells)
    return {
        "subject": subject,
        "law": cells[0].prediction.law,
        "median": errors.median,
        "worst": errors.largest,
        "cells": errors.cells,
        "extrapolated": any(one.prediction.extrapolated for one in cells),
        "errors": [
            {"batch_size": one.cell.batch_size, "tokens": one.cell.tokens, "relative": one.error} for one in cells
        ],
    }
