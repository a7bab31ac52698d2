"""Which observations laws are fitted to: alike in all that no law knows, of which models, at which granularity.

A kind is not the same at two granularities: at ``coarse`` the only norm may be the last one of the model, whose
layers hold the others. So components are taken from observations of one granularity. The whole is the same in all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from energyscope.errors import UsageError
from energyscope.reasons import Reason, join, reason, words
from energyscope.runs.method import changes_between, lacking
from energyscope.scaling.cells import FIELDS, WHOLE, Cell, Observation
from energyscope.scaling.held_out import By
from energyscope.scaling.law_choice import way_of

OfModel = TypeVar("OfModel", Observation, Cell)

MIXABLE = ("board", "execution", "precision")
CHOSEN = ("execution", "precision")  # of these, a prediction may be told which one to use
SHARED = ("subject", "model", "phase")  # subjects have laws of their own, models may share one, a phase is chosen
ENOUGH = 3  # shapes of the model itself: with fewer, other models' observations are taken too
FINEST_FIRST = ("fine", "medium", "coarse")


@dataclass(frozen=True)
class Wanted:
    """What observations must be, None for any. ``mixed`` names fields in which they may differ."""

    phase: str | None = None
    precision: str | None = None
    weights: str | None = None
    execution: str | None = None
    mixed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Way:
    """Which cells are used (of all models where ``pooled``, else of ``model``), and what is left out of them."""

    model: str
    pooled: bool
    by: By

    def used(self, candidates: Sequence[OfModel]) -> list[OfModel]:
        """Return the observations, or the cells, that are used."""
        return [item for item in candidates if self.pooled or item.model == self.model]


def select(observations: Sequence[Observation], wanted: Wanted) -> tuple[list[Observation], list[Reason]]:
    """Return the observations to fit laws to, and what a reader should know of them.

    Raises:
        UsageError: none is left, they are one cell only, or they differ in what ``mixed`` does not name.

    """
    _check_mixed(wanted)
    observations = _of_phase(observations, wanted.phase)
    if wanted.precision and "precision" not in wanted.mixed:
        observations = _of(observations, "precision", wanted.precision)
    if wanted.weights:
        observations = _of(observations, "weights", wanted.weights)
    notes = [
        reason("run-not-used", runs=[observation.run], why=why_no_cells(observation))
        for observation in observations
        if not observation.cells
    ]
    observations = [observation for observation in observations if observation.cells]
    if not observations:
        raise UsageError(f"these runs hold no cell of a law: {words(join(notes))}")
    if wanted.execution:
        observations = _of(observations, "execution", wanted.execution)
    _check_caches(observations)
    _check_alike(observations, wanted.mixed)
    if len({observation.key for observation in observations}) < 2:
        raise UsageError(reason("one-cell").words)
    weights = sorted({str(observation.weights) for observation in observations})
    if len(weights) > 1:
        notes.append(reason("several-weights", weights=weights))
    return observations, [*notes, *_older(observations)]


def pooling(observations: Sequence[Observation], model: str) -> tuple[Way, list[Reason]]:
    """Return whether the model's own observations are enough, and what to know of other models' ones.

    Observations without a cell of the whole count where none has one.
    """
    whole = [observation for observation in observations if WHOLE in observation.cells] or list(observations)
    own = [observation.any_cell for observation in whole if observation.model == model]
    others = sorted({observation.model for observation in whole} - {model})
    shapes = {(cell.batch_size, cell.tokens) for cell in own}
    if own and (len(shapes) >= ENOUGH or not others):
        unused = [reason("other-models-not-used", models=others, model=model)] if others else []
        return Way(model, pooled=False, by=way_of(own, new_model=False)), unused
    way = Way(model, pooled=True, by=way_of([observation.any_cell for observation in whole], new_model=not own))
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
    voters = observations if among is None else among
    by_granularity = {
        name: [observation for observation in voters if observation.granularity == name]
        for name in _granularities(voters)
    }
    if not by_granularity or len(_granularities(observations)) < 2:
        return list(observations), []
    chosen = max(by_granularity, key=lambda name: _rank(name, by_granularity[name]))
    others = [name for name in by_granularity if name != chosen]
    alike = [
        observation if observation.granularity in (chosen, None) else _whole_only(observation)
        for observation in observations
    ]
    if not others:
        return alike, []
    note = reason(
        "one-granularity",
        cells=len(by_granularity[chosen]),
        granularity=chosen,
        others=sum(len(by_granularity[name]) for name in others),
        unused=others,
    )
    return alike, [note]


def granularity_of(observations: Sequence[Observation]) -> str | None:
    """Return the granularity that `one_granularity` chose; None where no observation has one."""
    return next(
        iter(_granularities([observation for observation in observations if set(observation.cells) != {WHOLE}])),
        None,
    )


def invalid_notes(observations: Sequence[Observation]) -> list[Reason]:
    """Say in how many observations the whole model's energy is graded invalid; they count all the same."""
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
    phase = phase or (
        "prefill" if any(observation.phase == "prefill" for observation in observations) else "decode"
    )
    chosen = [observation for observation in observations if observation.phase == phase]
    if not chosen:
        other = "decode steps" if phase == "decode" else "prefills"
        there = _listed({observation.phase for observation in observations})
        raise UsageError(
            f"no run measured {other}, only {there}: measure some (energyscope sweep --phase {phase})"
        )
    return chosen


def _of(observations: Sequence[Observation], field: str, value: str) -> list[Observation]:
    chosen = [observation for observation in observations if observation.text(field) == value]
    if not chosen:
        there = _listed({str(observation.value(field)) for observation in observations})
        raise UsageError(f"no run measured --{field} {value}: they have {there}, and no law carries over")
    return chosen


def _check_mixed(wanted: Wanted) -> None:
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
    for field, plural in FIELDS.items():
        if field in SHARED or field in mixed:
            continue
        runs: dict[str, dict[str, None]] = {}
        for observation in observations:
            runs.setdefault(str(getattr(observation.any_cell, field)), {})[observation.run] = None
        if len(runs) > 1:
            named = "; ".join(f"{value}: {_listed(names)}" for value, names in sorted(runs.items()))
            chosen = f", choose one with --{field}" if field in CHOSEN else ""
            instead = f"{chosen}, or add --mixed {field}" if field in MIXABLE else ""
            why = f"; method {_methods(observations)}" if field == "method" else ""
            raise UsageError(f"the runs are of several {plural} ({named}{why}): leave some out{instead}")


def _methods(observations: Sequence[Observation]) -> str:
    """Say in what the methods of some observations differ."""
    cells = sorted((observation.any_cell for observation in observations), key=lambda cell: cell.method)
    return words(changes_between(cells[0].method, cells[-1].method, cells[0].phase, cells[0].execution))


def _older(observations: Sequence[Observation]) -> list[Reason]:
    """Say what was mended since the observations were measured."""
    runs: dict[str, dict[str, None]] = {}
    for observation in observations:
        cell = observation.any_cell
        if why := lacking(cell.method, cell.phase, cell.execution):
            runs.setdefault(why, {})[observation.run] = None
    return [reason("older-method", why=why, groups=list(named)) for why, named in runs.items()]


def _granularities(observations: Sequence[Observation]) -> list[str]:
    known = {observation.granularity for observation in observations if observation.granularity is not None}
    return sorted(known, key=lambda name: FINEST_FIRST.index(name) if name in FINEST_FIRST else -1)


def _rank(name: str, observations: Sequence[Observation]) -> tuple[int, int, int]:
    """Count the shapes whose parts add up, then all shapes; then the finer granularity is more."""
    adding_up = {observation.key for observation in observations if observation.parts}
    every = {observation.key for observation in observations}
    return len(adding_up), len(every), -FINEST_FIRST.index(name) if name in FINEST_FIRST else 1


def _whole_only(observation: Observation) -> Observation:
    return replace(
        observation, cells={name: cell for name, cell in observation.cells.items() if name == WHOLE}, parts=()
    )


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
