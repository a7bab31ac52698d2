"""Predict: energy and time of a length, a batch or a model that was not measured, from runs of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from energyscope.adapters import GRANULARITIES, Granularity
from energyscope.errors import UsageError
from energyscope.reasons import Reason, reason
from energyscope.runs.store import Run
from energyscope.scaling.boards import OneBoard, subjects_on_one_board
from energyscope.scaling.cell_selection import (
    CellFilter,
    CellPool,
    granularity_of,
    invalid_notes,
    one_granularity,
    pooling,
    select,
)
from energyscope.scaling.cells import (
    RESIDUAL,
    UNEXPLAINED,
    WHOLE,
    Cell,
    Observation,
    Shape,
    common_parts,
    counts_executed,
    executed,
    on_executed_flops,
)
from energyscope.scaling.from_runs import cells_of
from energyscope.scaling.law import NoLaw
from energyscope.scaling.law_choice import ChosenLaw, choose
from energyscope.scaling.prediction_rows import not_predicted, prediction_row, sum_row
from energyscope.scaling.shape_work import PassShape, Skeleton
from energyscope.scaling.time_law import rates_by_pass
from energyscope.workloads.decoding import CONTEXT_LENGTH, default_context
from energyscope.workloads.timed import default_length


@dataclass(frozen=True)
class PredictSettings:
    """What to predict; None is left to the runs, or is the default of a run (128 tokens, a context of 1024).

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
    limit: str | None = None
    mixed: tuple[str, ...] = ()
    adapter: str | None = None

    def wanted(self) -> CellFilter:
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
        return CellFilter(phase, self.precision, self.weights, self.execution, self.limit, self.mixed)


def predict(runs: Sequence[Run], settings: PredictSettings) -> dict[str, Any]:
    """Return what the runs predict of a shape, as plain data: energies in mJ, times in us, intervals of 95 %.

    ``whole`` is by the law of the whole model, ``sum`` adds the ``parts`` (kinds that do not overlap, overhead and
    what is unexplained); ``groups`` are kinds that hold parts. Each has its law, the error of cells that were left
    out of it, whether it lies outside of its data, and why. ``left_out`` says what could not be told.

    Raises:
        UsageError: nothing can be predicted from these runs, or the model does not have such a shape.
        RunError: a run measured no components.

    """
    observations, notes = select([observation for run in runs for observation in cells_of(run)], settings.wanted())
    observations, nominal = on_executed_flops(observations)
    skeleton = Skeleton(settings.model, settings.precision or observations[0].precision, settings.adapter)
    asked = _asked(skeleton, observations[0], settings)
    way, notes_of_models = pooling(observations, skeleton.loaded.name)
    observations, notes_of_kinds = one_granularity(observations, way.used(observations))
    used = [observation for observation in way.used(observations) if observation.cells]
    every, boards = subjects_on_one_board(observations, settings.mixed)  # by what any model measured on both
    cells = {subject: own for subject, measured in every.items() if (own := way.used(measured))}
    notes += [
        *(_board_notes(boards[WHOLE]) if WHOLE in boards else []),
        *nominal,
        *notes_of_models,
        *notes_of_kinds,
    ]
    return {
        "model": skeleton.loaded.name,
        **asdict(asked),
        **_conditions(used, settings),
        "modelled": any(run.modelled for run in runs),
        "from": [_source(observation) for observation in used],
        "left_out_by": way.by,
        **_rows(cells, used, skeleton, asked, way, settings.mixed),
        "notes": [*notes, *invalid_notes(used), *_shortened(asked, settings)],
    }


def _conditions(used: Sequence[Observation], settings: PredictSettings) -> dict[str, Any]:
    """Return what the cells were measured with."""
    first = next(iter(used[0].cells.values()))
    return {
        "execution": first.execution if "execution" not in settings.mixed else _all(used, "execution"),
        "board": _all(used, "board"),
        "meter": first.meter,
        "flops": "executed" if counts_executed(used) else "nominal",
    }


def _rows(
    cells: Mapping[str, Sequence[Cell]],
    used: Sequence[Observation],
    skeleton: Skeleton,
    asked: PassShape,
    way: CellPool,
    mixed: Sequence[str],
) -> dict[str, Any]:
    """Return the whole, the sum, its parts and the groups as their laws predict them, and what has no law.

    Raises:
        UsageError: nothing has one.

    """
    granularity = _granularity(used)
    works = _with_residual(_work(skeleton, asked, granularity, used))
    chosen, left_out = _choose(cells, works, way, mixed)
    if not set(chosen) - {UNEXPLAINED}:
        raise UsageError(f"nothing can be predicted: {_main_reason(left_out).words}")
    half = _shorter(skeleton, asked, granularity, used) if way.pooled else None
    rows = {
        subject: prediction_row(law, works[subject], None if half is None else half.get(subject))
        for subject, law in chosen.items()
    }
    parts, why_no_sum = common_parts(used)
    if without := [part for part in parts if part not in chosen]:
        why_no_sum = reason("parts-without-law", parts=without)
    if why_no_sum:
        left_out["sum-over-parts"] = why_no_sum
    return {
        "whole": rows.pop(WHOLE, None),
        "sum": None if why_no_sum else sum_row(parts, chosen, works, cells, way.by),
        "parts": _largest_first([row for subject, row in rows.items() if subject in _parts_of(used)]),
        "groups": _largest_first([row for subject, row in rows.items() if subject not in _parts_of(used)]),
        "left_out": left_out,
    }


def _main_reason(left_out: Mapping[str, Reason]) -> Reason:
    """Return why no subject has a law: the reason of the whole, or else of the most subjects."""
    every = list(left_out.values())
    return left_out.get(WHOLE) or max(every, key=every.count, default=reason("one-cell"))


def _shortened(asked: PassShape, settings: PredictSettings) -> list[Reason]:
    """Note that a decode step without a context is predicted at the model's largest, below the default."""
    if asked.phase != "decode" or settings.context_length is not None or asked.tokens == CONTEXT_LENGTH:
        return []
    return [reason("default-context-shortened", tokens=asked.tokens)]


def _asked(skeleton: Skeleton, observation: Observation, settings: PredictSettings) -> PassShape:
    tokens = settings.context_length if observation.phase == "decode" else settings.sequence_length
    if tokens is None:
        loaded = skeleton.loaded
        tokens = default_context(loaded) if observation.phase == "decode" else default_length(loaded)
    return PassShape(
        observation.phase, settings.batch_size, tokens, skeleton.precision, observation.kv_cache is not None
    )


def _with_residual(works: Mapping[str, Shape]) -> dict[str, Shape]:
    return {**works, **dict.fromkeys(RESIDUAL, works[WHOLE])}


def _granularity(observations: Sequence[Observation]) -> Granularity:
    """Return how finely the phases measured: a kind that holds others at fine is whole at medium."""
    measured = granularity_of(observations)
    return next((name for name in GRANULARITIES if measured == name), "fine")


def _work(
    skeleton: Skeleton, asked: PassShape, granularity: Granularity, used: Sequence[Observation]
) -> dict[str, Shape]:
    """Return the work that is asked for, its FLOPs counted as in the cells."""
    works = skeleton.work(asked, granularity)
    return {kind: executed(work) for kind, work in works.items()} if counts_executed(used) else works


def _shorter(
    skeleton: Skeleton, asked: PassShape, granularity: Granularity, used: Sequence[Observation]
) -> dict[str, Shape]:
    """Return the work at half of the tokens: two lengths give E0 and k of the architecture."""
    return _with_residual(_work(skeleton, replace(asked, tokens=max(1, asked.tokens // 2)), granularity, used))


def _choose(
    cells: Mapping[str, Sequence[Cell]], works: Mapping[str, Shape], way: CellPool, mixed: Sequence[str]
) -> tuple[dict[str, ChosenLaw], dict[str, Reason]]:
    chosen: dict[str, ChosenLaw] = {}
    left_out: dict[str, Reason] = {}
    rates = rates_by_pass(cell for subject, used in cells.items() if subject not in RESIDUAL for cell in used)
    for subject, used in cells.items():
        if subject not in works:
            left_out[subject] = reason("no-such-component", model=way.model)
            continue
        law = choose(used, way.by, works[subject], mixed=mixed, pooled=way.pooled, rates=rates)
        if isinstance(law, NoLaw):
            left_out[subject] = law.reason
        elif why := not_predicted(law.predict(works[subject])):
            left_out[subject] = why
        else:
            chosen[subject] = law
    return chosen, left_out


def _parts_of(observations: Sequence[Observation]) -> set[str]:
    return {part for observation in observations for part in observation.parts}


def _largest_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -row["energy_mj"]["value"])


def _all(observations: Sequence[Observation], field: str) -> str:
    return ", ".join(
        sorted({str(getattr(cell, field)) for observation in observations for cell in observation.cells.values()})
    )


def _board_notes(scaled: OneBoard) -> list[Reason]:
    return [
        reason("scaled-to-board", board=board, factor=factor.value, reference=scaled.reference)
        for board, factor in scaled.factors.items()
        if board != scaled.reference
    ]


def _source(observation: Observation) -> dict[str, Any]:
    names = ("run", "model", "phase", "precision", "batch_size", "tokens", "weights")
    return {name: getattr(observation, name) for name in names}
