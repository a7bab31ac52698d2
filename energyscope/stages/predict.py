"""Predict: energy and time of a length, a batch or a model that was not measured, from runs of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from energyscope.adapters import GRANULARITIES, Granularity
from energyscope.errors import UsageError
from energyscope.runs.intervals import Interval
from energyscope.runs.store import Run
from energyscope.scaling.ceilings import rates_by_pass
from energyscope.scaling.cell import Cell, Shape
from energyscope.scaling.choosing import Chosen, choose
from energyscope.scaling.foretelling import row_of, sum_of, untold
from energyscope.scaling.from_runs import RESIDUAL, UNEXPLAINED, WHOLE, SceneCells, cells_of
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.selection import ONE_CELL, Wanted, by_subject, common_parts, select
from energyscope.scaling.usable import Way, granularity_of, one_granularity, pooling
from energyscope.stages.foreseen_work import Asked, Skeleton
from energyscope.workloads.decoding import CONTEXT_LENGTH, default_context
from energyscope.workloads.timed import default_length


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
    execution: str | None = None
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
        return Wanted(phase, self.precision, self.weights, self.execution, self.mixed)


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
    name = skeleton.loaded.name
    way, notes_of_models = pooling(scenes, name)
    scenes, notes_of_kinds = one_granularity(scenes, way.used(scenes))
    used = [one for one in way.used(scenes) if one.cells]
    granularity = _granularity(used)
    works = _with_residual(skeleton.work(asked, granularity))
    every, boards = by_subject(scenes, settings.mixed)  # boards are made one by what any model measured on both
    cells = {subject: own for subject, found in every.items() if (own := way.used(found))}
    notes += [_board_note(boards[WHOLE].reference, boards[WHOLE].factors)] if WHOLE in boards else []
    chosen, left_out = _choose(cells, works, way, settings.mixed)
    if not set(chosen) - {UNEXPLAINED}:
        raise UsageError(f"nothing can be foretold: {_reasons(left_out)}")
    half = _shorter(skeleton, asked, granularity) if way.pooled else None
    rows = {
        subject: row_of(one, works[subject], None if half is None else half.get(subject))
        for subject, one in chosen.items()
    }
    parts, reason = common_parts(used)
    untold_parts = [part for part in parts if part not in chosen]
    reason = reason or (f"no law of {', '.join(untold_parts)}" if untold_parts else None)
    if reason:
        left_out["sum over parts"] = reason
    first = next(iter(used[0].cells.values()))
    return {
        "model": name,
        **asdict(asked),
        "execution": first.execution if "execution" not in settings.mixed else _all(used, "execution"),
        "board": _all(used, "board"),
        "meter": first.meter,
        "modelled": any(run.modelled for run in runs),
        "from": [_source(scene) for scene in used],
        "left_out_by": way.by,
        "whole": rows.pop(WHOLE, None),
        "sum": None if reason else sum_of(parts, chosen, works, cells, way.by),
        "parts": _largest_first([row for subject, row in rows.items() if subject in _parts_of(used)]),
        "groups": _largest_first([row for subject, row in rows.items() if subject not in _parts_of(used)]),
        "left_out": left_out,
        "notes": [*notes, *notes_of_models, *notes_of_kinds, *_invalid(used), *_shortened(asked, settings)],
    }


def _reasons(left_out: Mapping[str, str]) -> str:
    """Say why no subject has a law: what is said of the whole, or else of the most subjects."""
    said = list(left_out.values())
    return left_out.get(WHOLE) or max(said, key=said.count, default=ONE_CELL)


def _invalid(scenes: Sequence[SceneCells]) -> list[str]:
    """Say how many of the moments have a whole whose energy is graded invalid."""
    bad = sum(scene.quality == "invalid" for scene in scenes)
    return [f"the whole model is graded invalid in {bad} of {len(scenes)} cells: laws are rough"] if bad else []


def _shortened(asked: Asked, settings: PredictSettings) -> list[str]:
    """Say that a step was asked for without a context, and is told at the model's largest below the default."""
    if asked.phase != "decode" or settings.context_length is not None or asked.tokens == CONTEXT_LENGTH:
        return []
    return [f"no --context-length was given: {asked.tokens} tokens, the most that this model has room for"]


def _asked(skeleton: Skeleton, scene: SceneCells, settings: PredictSettings) -> Asked:
    tokens = settings.context_length if scene.phase == "decode" else settings.sequence_length
    if tokens is None:
        loaded = skeleton.loaded
        tokens = default_context(loaded) if scene.phase == "decode" else default_length(loaded)
    return Asked(scene.phase, settings.batch_size, tokens, skeleton.precision, scene.kv_cache is not None)


def _with_residual(works: Mapping[str, Shape]) -> dict[str, Shape]:
    return {**works, **dict.fromkeys(RESIDUAL, works[WHOLE])}


def _granularity(scenes: Sequence[SceneCells]) -> Granularity:
    """Return how finely the moments measured: a kind that holds others at fine is whole at medium."""
    found = granularity_of(scenes)
    return next((one for one in GRANULARITIES if found == one), "fine")


def _shorter(skeleton: Skeleton, asked: Asked, granularity: Granularity) -> dict[str, Shape]:
    """Return the work at half of the tokens: with two lengths, E0 and k of the architecture can be told."""
    return _with_residual(skeleton.work(replace(asked, tokens=max(1, asked.tokens // 2)), granularity))


def _choose(
    cells: Mapping[str, Sequence[Cell]], works: Mapping[str, Shape], way: Way, mixed: Sequence[str]
) -> tuple[dict[str, Chosen], dict[str, str]]:
    chosen, left_out = {}, {}
    rates = rates_by_pass(cell for subject, used in cells.items() if subject not in RESIDUAL for cell in used)
    for subject, used in cells.items():
        if subject not in works:
            left_out[subject] = f"{way.model} has no component of this kind, or its work cannot be counted"
            continue
        found = choose(used, way.by, works[subject], mixed=mixed, pooled=way.pooled, rates=rates)
        if isinstance(found, NoLaw):
            left_out[subject] = found.reason
        elif reason := untold(found.predict(works[subject])):
            left_out[subject] = reason
        else:
            chosen[subject] = found
    return chosen, left_out


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
