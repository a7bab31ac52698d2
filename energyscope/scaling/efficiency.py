"""Tokens per joule, latency and energy-delay product of whole passes, along batch sizes and along lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from energyscope.intervals import Interval, ratio, total
from energyscope.scaling.cell import Cell
from energyscope.scaling.from_runs import WHOLE, SceneCells
from energyscope.scaling.knee import knee_of

AXES = ("batch_size", "tokens")
NOUNS = {"batch_size": "batch", "tokens": "length"}
FIELDS = ("model", "phase", "precision", "execution", "kv_cache", "board", "meter", "weights", "method")
US_PER_S = 1e6
MJ_PER_J = 1e3

Plain = dict[str, float | None]


def efficiencies(scenes: Sequence[SceneCells]) -> list[dict[str, Any]]:
    """Return tokens/J of the whole model along each axis on which it was measured, as plain data.

    An entry holds the cells alike in all `FIELDS` and in the other axis (``fixed``), ordered along its axis, two
    at least; a group of one cell has one entry of one row. A shape measured twice is one row, their mean.
    ``least_edp`` is where energy per token times the pass's latency is least (energy-delay product per token;
    R. Gonzalez and M. Horowitz, IEEE Journal of Solid-State Circuits 31 (1996), 1277-1284); None for one row.
    Moments of which the whole has no positive energy are left out.
    """
    found = []
    for key, shapes in _groups(scenes).items():
        entries = [_entry(key, rows, along, fixed) for along, fixed, rows in _lines(shapes)]
        found += entries or [_entry(key, list(shapes.values()), "batch_size", next(iter(shapes))[1])]
    return found


def tokens_of(cell: Cell) -> int:
    """Return the tokens of a pass: batch size x length in a prefill, the batch size in a decode step."""
    return cell.batch_size * (1 if cell.phase == "decode" else cell.tokens)


def mean_of(cells: Sequence[Cell]) -> tuple[Interval, float]:
    """Return the mean energy (mJ) and time (us) of one shape's measurements, independent of each other."""
    energy = total(cell.energy for cell in cells).scaled(1 / len(cells))
    return energy, sum(cell.time_us for cell in cells) / len(cells)


def plain(value: Interval | None) -> Plain | None:
    """Return an interval as plain data."""
    return None if value is None else {"value": value.value, "low": value.low, "high": value.high}


def fields_of(scene: SceneCells, names: Iterable[str]) -> tuple[Any, ...]:
    """Return fields of a moment, or where it has none of that name, of its cell of the whole."""
    return tuple(getattr(scene, name, None) or getattr(scene.cells[WHOLE], name, None) for name in names)


def with_whole(scenes: Sequence[SceneCells]) -> list[SceneCells]:
    """Return the moments of which the whole has a positive energy."""
    return [one for one in scenes if WHOLE in one.cells and one.cells[WHOLE].energy_mj > 0]


Shapes = dict[tuple[int, int], list[Cell]]


def _groups(scenes: Sequence[SceneCells]) -> dict[tuple[Any, ...], Shapes]:
    found: dict[tuple[Any, ...], Shapes] = {}
    for scene in with_whole(scenes):
        shapes = found.setdefault(fields_of(scene, FIELDS), {})
        shapes.setdefault((scene.batch_size, scene.tokens), []).append(scene.cells[WHOLE])
    return found


def _lines(shapes: Shapes) -> Iterable[tuple[str, int, list[list[Cell]]]]:
    """Yield each axis with what is fixed and the shapes along it, where there are two at least."""
    for index, along in enumerate(AXES):
        for fixed in sorted({shape[1 - index] for shape in shapes}):
            line = sorted(shape for shape in shapes if shape[1 - index] == fixed)
            if len(line) > 1:
                yield along, fixed, [shapes[shape] for shape in line]


def _entry(key: tuple[Any, ...], shapes: Sequence[Sequence[Cell]], along: str, fixed: int) -> dict[str, Any]:
    rows = [_row(cells) for cells in shapes]
    sizes = [row[along] for row in rows]
    noun = "context" if along == "tokens" and shapes[0][0].phase == "decode" else NOUNS[along]
    knee = knee_of(sizes, [Interval(**row["tokens_per_j"]) for row in rows], noun)
    told = None if knee.at is None else {along: knee.at, "words": knee.words, "half_at": knee.half_at}
    return {
        **dict(zip(FIELDS, key, strict=True)),
        "along": along,
        "fixed": fixed,
        "rows": rows,
        "knee": told,
        "reason": knee.reason,
        "least_edp": _least_edp(rows, along),
    }


def _row(cells: Sequence[Cell]) -> dict[str, Any]:
    first, tokens = cells[0], tokens_of(cells[0])
    energy, time_us = mean_of(cells)
    seconds = time_us / US_PER_S
    return {
        "batch_size": first.batch_size,
        "tokens": first.tokens,
        "latency_us": time_us,
        "energy_mj": plain(energy),
        "tokens_per_j": plain(ratio(Interval(tokens * MJ_PER_J, *(tokens * MJ_PER_J,) * 2), energy)),
        "tokens_per_s": tokens / seconds,
        "energy_per_token_mj": plain(energy.scaled(1 / tokens)),
        "edp_mj_s": plain(energy.scaled(seconds)),
        "power_w": energy.value / MJ_PER_J / seconds,
    }


def _least_edp(rows: Sequence[Mapping[str, Any]], along: str) -> int | None:
    if len(rows) < 2:
        return None
    least = min(rows, key=lambda row: float(row["energy_per_token_mj"]["value"] * row["latency_us"]))
    return int(least[along])
