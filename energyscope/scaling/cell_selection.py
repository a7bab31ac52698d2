"""Which observations laws are fitted to: alike in all that no law knows, of which models, at which granularity.

A kind is not the same at two granularities: at ``coarse`` the only norm may be the last one of the model, whose
layers hold the others. So components are taken from observations of one granularity. The whole is the same in all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeVar

from energyscope.errors import UsageError
from energyscope.grouping import group_by
from energyscope.reasons import Reason, join, reason, words
from energyscope.runs.method import changes_between
from energyscope.scaling.cells import FIELDS, WHOLE, Cell, Observation
from energyscope.scaling.held_out import By
from energyscope.scaling.law_choice import leave_out_by

OfModel = TypeVar("OfModel", Observation, Cell)

MIXABLE = ("board", "execution", "precision")
OPTIONS = ("execution", "precision", "limit")  # of which a prediction may be asked for one
SHARED = ("subject", "model", "phase")  # subjects have laws of their own, models may share one, a phase is chosen
DEFAULT = "default"
ENOUGH = 3  # shapes of the model itself: with fewer, other models' observations are taken too
FINEST_FIRST = ("fine", "medium", "coarse")


@dataclass(frozen=True)
class CellFilter:
    """What observations must be, None for any. ``mixed`` names fields in which they may differ.

    ``limit`` is what the GPU was held to ("400 W", "1200 MHz"), or ``default``.
    """

    phase: str | None = None
    precision: str | None = None
    weights: str | None = None
    execution: str | None = None
    limit: str | None = None
    mixed: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellPool:
    """Which cells are used (of all models where ``pooled``, else of ``model``), and what is left out of them."""

    model: str
    pooled: bool
    by: By

    def used(self, candidates: Sequence[OfModel]) -> list[OfModel]:
        """Return the observations, or the cells, that are used."""
        return [item for item in candidates if self.pooled or item.model == self.model]


def select(observations: Sequence[Observation], wanted: CellFilter) -> tuple[list[Observation], list[Reason]]:
    """Return the observations to fit laws to, and notes on them.

    Raises:
        UsageError: none is left, they are one cell only, or they differ in what ``mixed`` does not name.

    """
    _check_mixed(wanted)
    observations = _of_phase(observations, wanted.phase)
    observations = _of(observations, "precision", None if "precision" in wanted.mixed else wanted.precision)
    observations = _of(observations, "weights", wanted.weights)
    notes = [
        reason("run-not-used", runs=[observation.run], why=why_no_cells(observation))
        for observation in observations
        if not observation.cells
    ]
    observations = [observation for observation in observations if observation.cells]
    if not observations:
        raise UsageError(f"these runs hold no cell of a law: {words(join(notes))}")
    observations = _of(observations, "execution", wanted.execution)
    observations = _of(observations, "limit", wanted.limit)
    _check_caches(observations)
    _check_alike(observations, wanted.mixed)
    if len({observation.key for observation in observations}) < 2:
        raise UsageError(reason("one-cell").words)
    weights = sorted({str(observation.weights) for observation in observations})
    if len(weights) > 1:
        notes.append(reason("several-weights", weights=weights))
    return observations, [*notes, *_older(observations)]


def pooling(observations: Sequence[Observation], model: str) -> tuple[CellPool, list[Reason]]:
    """Return whether the model's own observations are enough, and a note on those of other models.

    Observations without a cell of the whole count where none has one.
    """
    whole = [observation for observation in observations if WHOLE in observation.cells] or list(observations)
    own = [observation.any_cell for observation in whole if observation.model == model]
    others = sorted({observation.model for observation in whole} - {model})
    shapes = {(cell.batch_size, cell.tokens) for cell in own}
    if own and (len(shapes) >= ENOUGH or not others):
        unused = [reason("other-models-not-used", models=others, model=model)] if others else []
        return CellPool(model, pooled=False, by=leave_out_by(own, new_model=False)), unused
    way = CellPool(
        model, pooled=True, by=leave_out_by([observation.any_cell for observation in whole], new_model=not own)
    )
    if own:
        return way, [reason("other-models-used", model=model, models=others)]
    if len(others) == 1:
        return way, [reason("one-other-model", model=model, other=others[0])]
    return way, [reason("laws-of-other-models", model=model, models=others)]


def one_granularity(
    observations: Sequence[Observation], among: Sequence[Observation] | None = None
) -> tuple[list[Observation], list[Reason]]:
    """Return the observations with components of one granularity, and a note if of others only the whole counts.

    It is the one with the most shapes whose parts add up, of equal ones the finest, chosen ``among`` some of the
    observations (None: all). Observations stay in their places; one may be left without cells.
    """
    stated = (item for item in (observations if among is None else among) if item.granularity is not None)
    groups = group_by(stated, lambda observation: str(observation.granularity))
    if not groups or len({observation.granularity for observation in observations} - {None}) < 2:
        return list(observations), []
    chosen = max(groups, key=lambda name: (*_shapes(groups[name]), -_coarseness(name)))
    unused = sorted(groups.keys() - {chosen}, key=_coarseness)
    alike = [
        observation if observation.granularity in (chosen, None) else _whole_only(observation)
        for observation in observations
    ]
    if not unused:
        return alike, []
    cells, others = len(groups[chosen]), sum(len(groups[name]) for name in unused)
    return alike, [reason("one-granularity", cells=cells, granularity=chosen, others=others, unused=unused)]


def granularity_of(observations: Sequence[Observation]) -> str | None:
    """Return the granularity that `one_granularity` chose; None where no observation has one."""
    names = [item.granularity for item in observations if item.granularity and set(item.cells) != {WHOLE}]
    return min(names, key=_coarseness, default=None)


def invalid_notes(observations: Sequence[Observation]) -> list[Reason]:
    """Note in how many observations the whole model's energy is graded invalid; they count all the same."""
    runs = [observation.run for observation in observations if observation.quality == "invalid"]
    if not runs:
        return []
    return [
        reason("invalid-cells-used", invalid=len(runs), cells=len(observations), runs=list(dict.fromkeys(runs)))
    ]


def why_no_cells(observation: Observation) -> Reason:
    """Return why an observation has no cells: the reason of its first subject."""
    return next(iter(observation.left_out.values()), reason("no-rows"))


def _of_phase(observations: Sequence[Observation], phase: str | None) -> list[Observation]:
    """Return the observations of one phase: prefills, where none was asked for and there are some."""
    measured = {observation.phase for observation in observations}
    phase = phase or ("prefill" if "prefill" in measured else "decode")
    if phase not in measured:
        name = "decode steps" if phase == "decode" else "prefills"
        raise UsageError(
            f"no run measured {name}, only {_listed(measured)}: measure some (energyscope sweep --phase {phase})"
        )
    return [observation for observation in observations if observation.phase == phase]


def _of(observations: list[Observation], field: str, value: str | None) -> list[Observation]:
    """Return the observations with this value of a field; all where none was asked for."""
    if not value:
        return observations
    chosen = [observation for observation in observations if _named(observation.text(field)) == value]
    if not chosen:
        measured = _listed(str(_named(observation.text(field))) for observation in observations)
        raise UsageError(f"no run measured --{field} {value}: they have {measured}, and no law carries over")
    return chosen


def _named(value: str | None) -> str | None:
    """Return the value of a field as users see and type it: without a limit, a GPU is as by default."""
    return DEFAULT if value == "" else value


def _check_mixed(wanted: CellFilter) -> None:
    for field in wanted.mixed:
        if field not in MIXABLE:
            raise UsageError(f"--mixed {field} is not possible: use {' or '.join(MIXABLE)}")
    if wanted.execution and "execution" in wanted.mixed:
        chosen = wanted.execution
        raise UsageError(f"--execution {chosen} chooses one, and --mixed execution all: give one of them")


def _check_caches(observations: Sequence[Observation]) -> None:
    kinds = {observation.kv_cache: observation.run for observation in observations}
    if "static" in kinds:
        raise UsageError(f"{kinds['static']} has a static KV cache, whose size no law knows: use dynamic ones")
    if len(kinds) > 1:
        named = f"{kinds[None]} has no KV cache and {kinds['dynamic']} has one"
        raise UsageError(f"{named}, so their heads see other numbers of tokens: leave one of them out")


def _check_alike(observations: Sequence[Observation], mixed: Collection[str]) -> None:
    """Refuse observations that differ in a field that laws do not know, with the runs of each value."""
    for field in FIELDS:
        groups = group_by(observations, attrgetter(f"any_cell.{field}"))
        if len(groups) < 2 or field in SHARED or field in mixed:
            continue
        runs = {value: _listed(item.run for item in groups[value]) for value in sorted(groups)}
        named = "; ".join(f"{_named(value)}: {names}" for value, names in runs.items())
        option = f", choose one with --{field}" if field in OPTIONS else ""
        remedy = option + (f", or add --mixed {field}" if field in MIXABLE else "")
        why = f"; method {_methods(observations)}" if field == "method" else ""
        raise UsageError(f"the runs are of several {field}s ({named}{why}): leave some out{remedy}")


def _methods(observations: Sequence[Observation]) -> str:
    """Say in what the methods of some observations differ."""
    cells = sorted((observation.any_cell for observation in observations), key=lambda cell: cell.method)
    return words(changes_between(cells[0].method, cells[-1].method, cells[0].phase, cells[0].execution))


def _older(observations: Sequence[Observation]) -> list[Reason]:
    """Note what was mended since the observations were measured."""
    groups = group_by(observations, attrgetter("changes_since"))
    return [
        reason("older-method", why=why, groups=list(dict.fromkeys(item.run for item in group)))
        for why, group in groups.items()
        if why
    ]


def _shapes(observations: Sequence[Observation]) -> tuple[int, int]:
    """Count the shapes whose parts add up, and all shapes."""
    adding_up = {observation.key for observation in observations if observation.parts}
    return len(adding_up), len({observation.key for observation in observations})


def _coarseness(name: str) -> int:
    return FINEST_FIRST.index(name) if name in FINEST_FIRST else -1


def _whole_only(observation: Observation) -> Observation:
    cells = {name: cell for name, cell in observation.cells.items() if name == WHOLE}
    return replace(observation, cells=cells, parts=())


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
