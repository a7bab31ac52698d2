"""Which moments laws may join: those that differ in batch and tokens only."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.scaling.from_runs import SceneCells

GROUPED = ("model", "phase", "precision", "execution", "kv_cache", "board", "meter", "weights", "method")
OF_SCENES = ("model", "phase", "precision", "kv_cache", "weights")  # the others are told by a moment's cells


def value_of(scene: SceneCells, field: str) -> str | None:
    """Return what a moment with cells is in one field of `GROUPED`."""
    holder = scene if field in OF_SCENES else next(iter(scene.cells.values()))
    found = getattr(holder, field)
    return None if found is None else str(found)


def key_of(scene: SceneCells, *without: str) -> tuple[str | None, ...]:
    """Return what moments of one group have in common, some fields left out."""
    return tuple(value_of(scene, field) for field in GROUPED if field not in without)


def grouped(scenes: Sequence[SceneCells]) -> list[list[SceneCells]]:
    """Return the moments that have cells in groups, in the order in which their first ones come."""
    found: dict[tuple[str | None, ...], list[SceneCells]] = {}
    for scene in scenes:
        if scene.cells:
            found.setdefault(key_of(scene), []).append(scene)
    return list(found.values())
