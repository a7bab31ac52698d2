"""Which measured moments laws stand on, chosen before anything is fitted: of which models, at which granularity.

A kind is not the same at two granularities: at ``coarse`` the only norm may be the last one of the model, whose
layers hold the others. So components are told by the moments of one granularity. The whole is the same in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from energyscope.reasons import Reason, reason
from energyscope.scaling.cell import Cell
from energyscope.scaling.choosing import way_of
from energyscope.scaling.from_runs import WHOLE, SceneCells
from energyscope.scaling.heldout import By

One = TypeVar("One", SceneCells, Cell)

ENOUGH = 3  # shapes of the model itself: with fewer, other models' moments are taken too
FINEST_FIRST = ("fine", "medium", "coarse")


@dataclass(frozen=True)
class Way:
    """Which cells are used (of all models where ``pooled``, else of ``model``), and what is left out of them."""

    model: str
    pooled: bool
    by: By

    def used(self, found: Sequence[One]) -> list[One]:
        """Return the moments, or the cells, that are used."""
        return [one for one in found if self.pooled or one.model == self.model]


def pooling(scenes: Sequence[SceneCells], model: str) -> tuple[Way, list[Reason]]:
    """Return whether the model's own moments are enough, and what to know of other models' ones.

    Moments without a cell of the whole count where none has one.
    """
    whole = [one for one in scenes if WHOLE in one.cells] or list(scenes)
    own = [_any_cell(one) for one in whole if one.model == model]
    others = sorted({one.model for one in whole} - {model})
    shapes = {(cell.batch_size, cell.tokens) for cell in own}
    if own and (len(shapes) >= ENOUGH or not others):
        unused = [reason("other-models-not-used", models=others, model=model)] if others else []
        return Way(model, pooled=False, by=way_of(own, new_model=False)), unused
    way = Way(model, pooled=True, by=way_of([_any_cell(one) for one in whole], new_model=not own))
    if own:
        return way, [reason("other-models-used", model=model, models=others)]
    if len(others) == 1:
        return way, [reason("one-other-model", model=model, other=others[0])]
    return way, [reason("laws-of-other-models", model=model, models=others)]


def one_granularity(
    scenes: Sequence[SceneCells], among: Sequence[SceneCells] | None = None
) -> tuple[list[SceneCells], list[Reason]]:
    """Return the moments with components of one granularity only, and a note of those whose whole alone counts.

    It is the one with the most shapes whose parts add up, of equal ones the finest, chosen ``among`` some moments
    of them (None: all). Moments stay in their places; one may be left without cells.
    """
    of = scenes if among is None else among
    found = {name: [one for one in of if one.granularity == name] for name in _granularities(of)}
    if not found or len(_granularities(scenes)) < 2:
        return list(scenes), []
    chosen = max(found, key=lambda name: _rank(name, found[name]))
    others = [name for name in found if name != chosen]
    kept = [one if one.granularity in (chosen, None) else _whole_only(one) for one in scenes]
    if not others:
        return kept, []
    note = reason(
        "one-granularity",
        cells=len(found[chosen]),
        granularity=chosen,
        others=sum(len(found[name]) for name in others),
        unused=others,
    )
    return kept, [note]


def invalid_notes(scenes: Sequence[SceneCells]) -> list[Reason]:
    """Say in how many moments the whole model's energy is graded invalid; they count all the same."""
    runs = [one.run for one in scenes if one.quality == "invalid"]
    if not runs:
        return []
    return [reason("invalid-cells-used", invalid=len(runs), cells=len(scenes), runs=list(dict.fromkeys(runs)))]


def granularity_of(scenes: Sequence[SceneCells]) -> str | None:
    """Return how finely moments that `one_granularity` left measured their components; None where none says so."""
    return next(iter(_granularities([one for one in scenes if set(one.cells) != {WHOLE}])), None)


def _granularities(scenes: Sequence[SceneCells]) -> list[str]:
    known = {one.granularity for one in scenes if one.granularity is not None}
    return sorted(known, key=lambda name: FINEST_FIRST.index(name) if name in FINEST_FIRST else -1)


def _rank(name: str, scenes: Sequence[SceneCells]) -> tuple[int, int, int]:
    whole, any_ = (
        len({(one.model, one.batch_size, one.tokens) for one in found})
        for found in ([one for one in scenes if one.parts], scenes)
    )
    return whole, any_, -FINEST_FIRST.index(name) if name in FINEST_FIRST else 1


def _whole_only(scene: SceneCells) -> SceneCells:
    return replace(scene, cells={name: cell for name, cell in scene.cells.items() if name == WHOLE}, parts=())


def _any_cell(scene: SceneCells) -> Cell:
    return scene.cells.get(WHOLE) or next(iter(scene.cells.values()))
