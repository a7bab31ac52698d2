"""Which measured scenes laws stand on: alike in all that no law knows, of which models, at which granularity.

A kind is not the same at two granularities: at ``coarse`` the only norm may be the last one of the model, whose
layers hold the others. So components are told by the scenes of one granularity. The whole is the same in all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from energyscope.errors import UsageError
from energyscope.reasons import Reason, join, reason, words
from energyscope.runs.method import changes_between, lacking
from energyscope.scaling.cells import FIELDS, WHOLE, Cell, SceneCells
from energyscope.scaling.held_out import By
from energyscope.scaling.law_choice import way_of

OfModel = TypeVar("OfModel", SceneCells, Cell)

MIXABLE = ("board", "execution", "precision")
CHOSEN = ("execution", "precision")  # of these, a prediction may be told which one to use
SHARED = ("subject", "model", "phase")  # subjects have laws of their own, models may share one, a phase is chosen
ENOUGH = 3  # shapes of the model itself: with fewer, other models' scenes are taken too
FINEST_FIRST = ("fine", "medium", "coarse")


@dataclass(frozen=True)
class Wanted:
    """What the scenes must be: None where it is left to them. ``mixed`` names fields in which they may differ."""

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
        """Return the scenes, or the cells, that are used."""
        return [item for item in candidates if self.pooled or item.model == self.model]


def select(scenes: Sequence[SceneCells], wanted: Wanted) -> tuple[list[SceneCells], list[Reason]]:
    """Return the scenes to fit laws to, and what a reader should know of them.

    Raises:
        UsageError: none is left, they are one cell only, or they differ in what ``mixed`` does not name.

    """
    _check_mixed(wanted)
    scenes = _of_phase(scenes, wanted.phase)
    if wanted.precision and "precision" not in wanted.mixed:
        scenes = _of(scenes, "precision", wanted.precision)
    if wanted.weights:
        scenes = _of(scenes, "weights", wanted.weights)
    notes = [
        reason("run-not-used", runs=[scene.run], why=why_no_cells(scene)) for scene in scenes if not scene.cells
    ]
    scenes = [scene for scene in scenes if scene.cells]
    if not scenes:
        raise UsageError(f"these runs hold no cell of a law: {words(join(notes))}")
    if wanted.execution:
        scenes = _of(scenes, "execution", wanted.execution)
    _check_caches(scenes)
    _check_alike(scenes, wanted.mixed)
    if len({scene.key for scene in scenes}) < 2:
        raise UsageError(reason("one-cell").words)
    weights = sorted({str(scene.weights) for scene in scenes})
    if len(weights) > 1:
        notes.append(reason("several-weights", weights=weights))
    return scenes, [*notes, *_older(scenes)]


def pooling(scenes: Sequence[SceneCells], model: str) -> tuple[Way, list[Reason]]:
    """Return whether the model's own scenes are enough, and what to know of other models' ones.

    Scenes without a cell of the whole count where none has one.
    """
    whole = [scene for scene in scenes if WHOLE in scene.cells] or list(scenes)
    own = [scene.any_cell for scene in whole if scene.model == model]
    others = sorted({scene.model for scene in whole} - {model})
    shapes = {(cell.batch_size, cell.tokens) for cell in own}
    if own and (len(shapes) >= ENOUGH or not others):
        unused = [reason("other-models-not-used", models=others, model=model)] if others else []
        return Way(model, pooled=False, by=way_of(own, new_model=False)), unused
    way = Way(model, pooled=True, by=way_of([scene.any_cell for scene in whole], new_model=not own))
    if own:
        return way, [reason("other-models-used", model=model, models=others)]
    if len(others) == 1:
        return way, [reason("one-other-model", model=model, other=others[0])]
    return way, [reason("laws-of-other-models", model=model, models=others)]


def one_granularity(
    scenes: Sequence[SceneCells], among: Sequence[SceneCells] | None = None
) -> tuple[list[SceneCells], list[Reason]]:
    """Return the scenes with components of one granularity only, and a note of those whose whole alone counts.

    It is the one with the most shapes whose parts add up, of equal ones the finest, chosen ``among`` some of the
    scenes (None: all). Scenes stay in their places; one may be left without cells.
    """
    voters = scenes if among is None else among
    by_granularity = {
        name: [scene for scene in voters if scene.granularity == name] for name in _granularities(voters)
    }
    if not by_granularity or len(_granularities(scenes)) < 2:
        return list(scenes), []
    chosen = max(by_granularity, key=lambda name: _rank(name, by_granularity[name]))
    others = [name for name in by_granularity if name != chosen]
    kept = [scene if scene.granularity in (chosen, None) else _whole_only(scene) for scene in scenes]
    if not others:
        return kept, []
    note = reason(
        "one-granularity",
        cells=len(by_granularity[chosen]),
        granularity=chosen,
        others=sum(len(by_granularity[name]) for name in others),
        unused=others,
    )
    return kept, [note]


def granularity_of(scenes: Sequence[SceneCells]) -> str | None:
    """Return how finely scenes that `one_granularity` left measured their components; None where none says so."""
    return next(iter(_granularities([scene for scene in scenes if set(scene.cells) != {WHOLE}])), None)


def invalid_notes(scenes: Sequence[SceneCells]) -> list[Reason]:
    """Say in how many scenes the whole model's energy is graded invalid; they count all the same."""
    runs = [scene.run for scene in scenes if scene.quality == "invalid"]
    if not runs:
        return []
    return [reason("invalid-cells-used", invalid=len(runs), cells=len(scenes), runs=list(dict.fromkeys(runs)))]


def why_no_cells(scene: SceneCells) -> Reason:
    """Return why a scene has no cells: the reason of its first subject."""
    return next(iter(scene.left_out.values()), reason("no-rows"))


def _of_phase(scenes: Sequence[SceneCells], phase: str | None) -> list[SceneCells]:
    """Return the scenes of one phase: prefills, where none was asked for and there are some."""
    phase = phase or ("prefill" if any(scene.phase == "prefill" for scene in scenes) else "decode")
    kept = [scene for scene in scenes if scene.phase == phase]
    if not kept:
        other = "decode steps" if phase == "decode" else "prefills"
        there = _listed({scene.phase for scene in scenes})
        raise UsageError(
            f"no run measured {other}, only {there}: measure some (energyscope sweep --phase {phase})"
        )
    return kept


def _of(scenes: Sequence[SceneCells], field: str, value: str) -> list[SceneCells]:
    kept = [scene for scene in scenes if scene.text(field) == value]
    if not kept:
        there = _listed({str(scene.value(field)) for scene in scenes})
        raise UsageError(f"no run measured --{field} {value}: they have {there}, and no law carries over")
    return kept


def _check_mixed(wanted: Wanted) -> None:
    for field in wanted.mixed:
        if field not in MIXABLE:
            raise UsageError(f"--mixed {field} is not possible: use {' or '.join(MIXABLE)}")
    if wanted.execution and "execution" in wanted.mixed:
        chosen = wanted.execution
        raise UsageError(f"--execution {chosen} chooses one, and --mixed execution all: give one of them")


def _check_caches(scenes: Sequence[SceneCells]) -> None:
    kinds = {scene.kv_cache: scene.run for scene in scenes}
    if "static" in kinds:
        raise UsageError(f"{kinds['static']} has a static KV cache, whose size no law knows: use dynamic ones")
    if len(kinds) > 1:
        named = f"{kinds[None]} has no KV cache and {kinds['dynamic']} has one"
        raise UsageError(f"{named}, so their heads see other numbers of tokens: leave one of them out")


def _check_alike(scenes: Sequence[SceneCells], mixed: Collection[str]) -> None:
    """Refuse scenes that differ in a field that laws do not know, with the runs of each value."""
    for field, plural in FIELDS.items():
        if field in SHARED or field in mixed:
            continue
        runs: dict[str, dict[str, None]] = {}
        for scene in scenes:
            runs.setdefault(str(getattr(scene.any_cell, field)), {})[scene.run] = None
        if len(runs) > 1:
            named = "; ".join(f"{value}: {_listed(names)}" for value, names in sorted(runs.items()))
            chosen = f", choose one with --{field}" if field in CHOSEN else ""
            instead = f"{chosen}, or add --mixed {field}" if field in MIXABLE else ""
            why = f"; method {_methods(scenes)}" if field == "method" else ""
            raise UsageError(f"the runs are of several {plural} ({named}{why}): leave some out{instead}")


def _methods(scenes: Sequence[SceneCells]) -> str:
    """Say in what the methods of some scenes differ."""
    cells = sorted((scene.any_cell for scene in scenes), key=lambda cell: cell.method)
    return words(changes_between(cells[0].method, cells[-1].method, cells[0].phase, cells[0].execution))


def _older(scenes: Sequence[SceneCells]) -> list[Reason]:
    """Say what was mended since the scenes were measured."""
    runs: dict[str, dict[str, None]] = {}
    for scene in scenes:
        cell = scene.any_cell
        if why := lacking(cell.method, cell.phase, cell.execution):
            runs.setdefault(why, {})[scene.run] = None
    return [reason("older-method", why=why, groups=list(named)) for why, named in runs.items()]


def _granularities(scenes: Sequence[SceneCells]) -> list[str]:
    known = {scene.granularity for scene in scenes if scene.granularity is not None}
    return sorted(known, key=lambda name: FINEST_FIRST.index(name) if name in FINEST_FIRST else -1)


def _rank(name: str, scenes: Sequence[SceneCells]) -> tuple[int, int, int]:
    """Count the shapes whose parts add up, then all shapes; then the finer granularity is more."""
    adding_up = {scene.key for scene in scenes if scene.parts}
    every = {scene.key for scene in scenes}
    return len(adding_up), len(every), -FINEST_FIRST.index(name) if name in FINEST_FIRST else 1


def _whole_only(scene: SceneCells) -> SceneCells:
    return replace(scene, cells={name: cell for name, cell in scene.cells.items() if name == WHOLE}, parts=())


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
