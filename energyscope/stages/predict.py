"""Predict: energy and time of a length, a batch or a model that was not measured, from runs of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from energyscope.adapters import GRANULARITIES, Granularity
from energyscope.errors import UsageError
from energyscope.runs.intervals import Interval
from energyscope.runs.store import Run
from energyscope.scaling.architecture import PerCall, terms_of
from energyscope.scaling.ceilings import rates_by_pass
from energyscope.scaling.cell import Cell, Shape
from energyscope.scaling.choosing import Chosen, choose, errors_beside, fitter_by_subject, way_of
from energyscope.scaling.from_runs import RESIDUAL, WHOLE, SceneCells, cells_of
from energyscope.scaling.heldout import By, HeldOut, leave_out_of_sum
from energyscope.scaling.prediction import NoLaw, Prediction
from energyscope.scaling.selection import ONE_CELL, Wanted, by_subject, common_parts, select
from energyscope.scaling.whole import summed
from energyscope.stages.foreseen_work import Asked, Skeleton
from energyscope.workloads.decoding import CONTEXT_LENGTH, default_context
from energyscope.workloads.timed import default_length

ENOUGH = 3  # shapes of the model itself: with fewer, other models' cells are taken too
COEFFICIENTS = ("fixed_mj", "marginal_pj_per_flop", "call_mj", "pj_per_flop", "pj_per_byte")


@dataclass(frozen=True)
class PredictSettings:
    """What to foretell; None is left to the runs, or is the default of a run (128 tokens, a context of 1024).

    ``mixed`` names fields (board, execution, precision) in which the runs may differ.
    """

    model: str
    sequence_length: int | None = None
    batch_size: int = 1
    context_length: int | None = None
    phase: str | None = None
    precision: str | None = None
    weights: str | None = None
    mixed: tuple[str, ...] = ()

    def wanted(self) -> Wanted:
        """Return what runs must be of.

        Raises:
            UsageError: the options contradict each other.

        """
        phase = self.phase or ("decode" if self.context_length is not None else None)
        phase = phase or ("prefill" if self.sequence_length is not None else None)
        if phase not in (None, "prefill", "decode"):
            raise UsageError(f"--phase {phase} is not possible: use prefill or decode")
        if phase == "prefill" and self.context_length is not None:
            raise UsageError("--context-length is of a decode step: use --sequence-length, or --phase decode")
        if phase == "decode" and self.sequence_length is not None:
            raise UsageError("--sequence-length is of a prefill: a decode step has a --context-length")
        return Wanted(phase, self.precision, self.weights, self.mixed)


def predict(runs: Sequence[Run], settings: PredictSettings) -> dict[str, Any]:
    """Return what the runs foretell of a shape, as plain data: energies in mJ, times in us, intervals of 95 %.

    ``whole`` is by the law of the whole model, ``sum`` adds the ``parts`` (kinds that do not overlap, glue and
    what is unexplained); ``groups`` are kinds that hold parts. Each has its law, the error of cells that were left
    out of it, whether it lies outside of its data, and why. ``left_out`` says what could not be told.

    Raises:
        UsageError: nothing can be foretold from these runs, or the model does not have such a shape.
        RunError: a run measured no components.

    """
    scenes, notes = select([scene for run in runs for scene in cells_of(run)], settings.wanted())
    skeleton = Skeleton(settings.model, settings.precision or scenes[0].precision)
    asked = _asked(skeleton, scenes[0], settings)
    granularity = _granularity(runs)
    works = _with_residual(skeleton.work(asked, granularity))
    cells, boards = by_subject(scenes, settings.mixed)
    notes += [_board_note(boards[WHOLE].reference, boards[WHOLE].factors)] if WHOLE in boards else []
    name = skeleton.loaded.name
    way, notes_of_models = _pooling(cells.get(WHOLE) or max(cells.values(), key=len), name)
    chosen, left_out = _choose(cells, works, way, settings.mixed)
    if not chosen:
        raise UsageError(next(iter(left_out.values()), ONE_CELL))
    half = _shorter(skeleton, asked, granularity) if way.pooled else None
    rows = {
        subject: _row(one, works[subject], None if half is None else half.get(subject))
        for subject, one in chosen.items()
    }
    parts, reason = common_parts(scenes)
    total = None if reason else _sum(parts, chosen, works, way.used(cells), way.by)
    if total is None:
        untold = [part for part in parts if part not in chosen]
        left_out["sum over parts"] = reason or f"no law of {', '.join(untold)}"
    first = next(iter(scenes[0].cells.values()))
    return {
        "model": name,
        **asdict(asked),
        "execution": first.execution if "execution" not in settings.mixed else _all(scenes, "execution"),
        "board": _all(scenes, "board"),
        "meter": first.meter,
        "modelled": any(run.modelled for run in runs),
        "from": [_source(scene) for scene in scenes],
        "left_out_by": way.by,
        "whole": rows.pop(WHOLE, None),
        "sum": total,
        "parts": _largest_first([row for subject, row in rows.items() if subject in _parts_of(scenes)]),
        "groups": _largest_first([row for subject, row in rows.items() if subject not in _parts_of(scenes)]),
        "left_out": left_out,
        "notes": [*notes, *notes_of_models, *_invalid(scenes), *_shortened(asked, settings)],
    }


def _invalid(scenes: Sequence[SceneCells]) -> list[str]:
    """Say how many of the moments have a whole whose energy is graded invalid."""
    bad = sum(scene.quality == "invalid" for scene in scenes)
    return [f"the whole model is graded invalid in {bad} of {len(scenes)} cells: laws are rough"] if bad else []


def _shortened(asked: Asked, settings: PredictSettings) -> list[str]:
    """Say that a step was asked for without a context, and is told at the model's largest below the default."""
    if asked.phase != "decode" or settings.context_length is not None or asked.tokens == CONTEXT_LENGTH:
        return []
    return [f"no --context-length was given: {asked.tokens} tokens, the most that this model has room for"]


@dataclass(frozen=True)
class _Way:
    """Which cells are used (of all models where ``pooled``, else of ``model``), and what is left out of them."""

    model: str
    pooled: bool
    by: By

    def used(self, cells: Mapping[str, Sequence[Cell]]) -> dict[str, list[Cell]]:
        return {
            subject: [cell for cell in found if self.pooled or cell.model == self.model]
            for subject, found in cells.items()
        }


def _pooling(whole: Sequence[Cell], model: str) -> tuple[_Way, list[str]]:
    """Return whether the model's own cells are enough, and what to know of other models' cells."""
    own = [cell for cell in whole if cell.model == model]
    others = sorted({cell.model for cell in whole} - {model})
    shapes = {(cell.batch_size, cell.tokens) for cell in own}
    if own and (len(shapes) >= ENOUGH or not others):
        unused = [f"cells of {', '.join(others)} are not used: there are enough of {model}"] if others else []
        return _Way(model, pooled=False, by=way_of(own, new_model=False)), unused
    way = _Way(model, pooled=True, by=way_of(whole, new_model=not own))
    if own:
        return way, [f"few cells of {model}: those of {', '.join(others)} are used too"]
    if len(others) == 1:
        unknown = "how far off laws are for another model is not known (two measured models would tell)"
        return way, [f"{model} was not measured, and all cells are of {others[0]}: {unknown}"]
    return way, [f"{model} was not measured: its laws are of {', '.join(others)}"]


def _asked(skeleton: Skeleton, scene: SceneCells, settings: PredictSettings) -> Asked:
    tokens = settings.context_length if scene.phase == "decode" else settings.sequence_length
    if tokens is None:
        loaded = skeleton.loaded
        tokens = default_context(loaded) if scene.phase == "decode" else default_length(loaded)
    return Asked(scene.phase, settings.batch_size, tokens, skeleton.precision, scene.kv_cache is not None)


def _with_residual(works: Mapping[str, Shape]) -> dict[str, Shape]:
    return {**works, **dict.fromkeys(RESIDUAL, works[WHOLE])}


def _granularity(runs: Sequence[Run]) -> Granularity:
    """Return how finely the runs measured: a kind that holds others at fine is whole at medium."""
    found = {(run.document.get("settings") or {}).get("granularity") for run in runs}
    return next((one for one in GRANULARITIES if found == {one}), "fine")


def _shorter(skeleton: Skeleton, asked: Asked, granularity: Granularity) -> dict[str, Shape]:
    """Return the work at half of the tokens: with two lengths, E0 and k of the architecture can be told."""
    return _with_residual(skeleton.work(replace(asked, tokens=max(1, asked.tokens // 2)), granularity))


def _choose(
    cells: Mapping[str, Sequence[Cell]], works: Mapping[str, Shape], way: _Way, mixed: Sequence[str]
) -> tuple[dict[str, Chosen], dict[str, str]]:
    chosen, left_out = {}, {}
    every = way.used(cells)
    rates = rates_by_pass(cell for subject, used in every.items() if subject not in RESIDUAL for cell in used)
    for subject, used in every.items():
        if subject not in works:
            left_out[subject] = f"{way.model} has no component of this kind, or its work cannot be counted"
            continue
        found = choose(used, way.by, works[subject], mixed=mixed, pooled=way.pooled, rates=rates)
        if isinstance(found, NoLaw):
            left_out[subject] = found.reason
        else:
            chosen[subject] = found
    return chosen, left_out


def _row(chosen: Chosen, work: Shape, shorter: Shape | None) -> dict[str, Any]:
    prediction = chosen.predict(work)
    law: Any = chosen.law
    terms = {name: getattr(law, name) for name in COEFFICIENTS if getattr(law, name, None) is not None}
    if (
        isinstance(law, PerCall)
        and shorter is not None
        and not isinstance(both := terms_of(law, [shorter, work]), NoLaw)
    ):
        terms |= {"fixed_mj": both.fixed_mj, "marginal_pj_per_flop": both.marginal_pj_per_flop}
    return _told(prediction, chosen.held_out) | {
        "cells": chosen.cells,
        "flops": work.flops,
        "bytes": work.bytes,
        "calls": work.calls,
        "terms": {name: _plain(value) for name, value in terms.items()},
        "flags": [*law.flags, *_negative(prediction)],
    }


def _sum(
    parts: Sequence[str],
    chosen: Mapping[str, Chosen],
    works: Mapping[str, Shape],
    cells: Mapping[str, Sequence[Cell]],
    by: By,
) -> dict[str, Any] | None:
    """Return the sum over parts, None unless each of them is told: a part is not the sum."""
    if any(part not in chosen for part in parts):
        return None
    predictions = [chosen[part].predict(works[part]) for part in parts]
    total = summed(predictions, WHOLE)
    of_parts = {part: cells[part] for part in parts}
    held_out = leave_out_of_sum(of_parts, cells.get(WHOLE, ()), fitter_by_subject(chosen), by)
    why = (
        f"{sum(one.extrapolated for one in predictions)} of {len(predictions)} parts"
        if total.extrapolated
        else None
    )
    return _told(replace(total, why=why), held_out) | {"flags": [], "terms": {}}


def _told(prediction: Prediction, held_out: HeldOut) -> dict[str, Any]:
    errors, where = errors_beside(held_out, prediction)
    return {
        "subject": prediction.subject,
        "energy_mj": _plain(prediction.energy_mj),
        "time_us": _plain(prediction.time_us),
        "law": prediction.law,
        "held_out": {
            "by": held_out.by,
            "where": where,
            **asdict(errors),
            "reason": held_out.reason or next(iter(held_out.failed), None),
        },
        "extrapolated": prediction.extrapolated,
        "why": prediction.why,
    }


def _negative(prediction: Prediction) -> list[str]:
    values = (("energy", prediction.energy_mj), ("time", prediction.time_us))
    return [f"the law says a negative {name} here" for name, one in values if one is not None and one.value < 0]


def _plain(value: Interval | None) -> dict[str, float | None] | None:
    return None if value is None else {"value": value.value, "low": value.low, "high": value.high}


def _parts_of(scenes: Sequence[SceneCells]) -> set[str]:
    return {part for scene in scenes for part in scene.parts}


def _largest_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -row["energy_mj"]["value"])


def _all(scenes: Sequence[SceneCells], field: str) -> str:
    return ", ".join(sorted({str(getattr(cell, field)) for scene in scenes for cell in scene.cells.values()}))


def _board_note(reference: str, factors: Mapping[str, Interval]) -> str:
    said = ", ".join(f"{board} x {one.value:.3f}" for board, one in factors.items() if board != reference)
    return f"joules are those of board {reference}: energies of {said} (of the whole; each subject has its own)"


def _source(scene: SceneCells) -> dict[str, Any]:
    names = ("run", "model", "phase", "precision", "batch_size", "tokens", "weights")
    return {name: getattr(scene, name) for name in names}
