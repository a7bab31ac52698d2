"""Tokens per joule, latency and energy-delay product of whole passes, along batch sizes and along lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from energyscope.intervals import Interval, ratio, serialize, total
from energyscope.scaling.cells import GROUPED, WHOLE, Cell, Entry, Observation, with_whole
from energyscope.scaling.knee import knee_of

AXES = ("batch_size", "tokens")
NOUNS = {"batch_size": "batch", "tokens": "length"}
US_PER_S = 1e6
MJ_PER_J = 1e3

Shapes = Mapping[tuple[int, int], list[Cell]]


def efficiencies(observations: Sequence[Observation]) -> list[Entry]:
    """Return tokens/J of the whole model along each axis on which it was measured, as plain data.

    An entry holds the cells alike in all of `GROUPED` and in the other axis (``fixed``), ordered along its axis,
    two at least; a group of one cell has one entry of one row. A shape measured twice is one row, their mean.
    ``least_edp`` is where energy per token times the pass's latency is least (energy-delay product per token;
    R. Gonzalez and M. Horowitz, IEEE Journal of Solid-State Circuits 31 (1996), 1277-1284); None for one row.
    Observations of which the whole has no positive energy are left out.
    """
    groups: dict[tuple[Any, ...], dict[tuple[int, int], list[Cell]]] = {}
    for observation in with_whole(observations):
        shapes = groups.setdefault(tuple(observation.value(field) for field in GROUPED), {})
        shapes.setdefault((observation.batch_size, observation.tokens), []).append(observation.cells[WHOLE])
    return [entry for setting, shapes in groups.items() for entry in _entries(setting, shapes)]


def tokens_of(cell: Cell) -> int:
    """Return the tokens of a pass: batch size x length in a prefill, the batch size in a decode step."""
    return cell.batch_size * (1 if cell.phase == "decode" else cell.tokens)


def mean_of(cells: Sequence[Cell]) -> tuple[Interval, float]:
    """Return the mean energy (mJ) and time (us) of one shape's measurements, independent of each other."""
    energy = total(cell.energy for cell in cells).scaled(1 / len(cells))
    return energy, sum(cell.time_us for cell in cells) / len(cells)


def _entries(setting: tuple[Any, ...], shapes: Shapes) -> list[Entry]:
    entries = [_entry(setting, rows, along, fixed) for along, fixed, rows in _lines(shapes)]
    return entries or [_entry(setting, list(shapes.values()), "batch_size", next(iter(shapes))[1])]


def _lines(shapes: Shapes) -> Iterator[tuple[str, int, list[list[Cell]]]]:
    """Yield each axis with what is fixed and the shapes along it, where there are two at least."""
    for index, along in enumerate(AXES):
        for fixed in sorted({shape[1 - index] for shape in shapes}):
            on_line = sorted(shape for shape in shapes if shape[1 - index] == fixed)
            if len(on_line) > 1:
                yield along, fixed, [shapes[shape] for shape in on_line]


def _entry(setting: tuple[Any, ...], shapes: Sequence[Sequence[Cell]], along: str, fixed: int) -> Entry:
    rows = [_row(cells) for cells in shapes]
    noun = "context" if along == "tokens" and shapes[0][0].phase == "decode" else NOUNS[along]
    knee = knee_of([row[along] for row in rows], [Interval(**row["tokens_per_j"]) for row in rows], noun)
    at = None if knee.at is None else {along: knee.at, "words": knee.words, "half_at": knee.half_at}
    return {
        **dict(zip(GROUPED, setting, strict=True)),
        "along": along,
        "fixed": fixed,
        "rows": rows,
        "knee": at,
        "reason": knee.reason,
        "least_edp": _least_edp(rows, along),
    }


def _row(cells: Sequence[Cell]) -> Entry:
    tokens = tokens_of(cells[0])
    energy, time_us = mean_of(cells)
    seconds = time_us / US_PER_S
    return {
        "batch_size": cells[0].batch_size,
        "tokens": cells[0].tokens,
        "latency_us": time_us,
        "energy_mj": serialize(energy),
        "tokens_per_j": serialize(ratio(Interval(tokens * MJ_PER_J, *(tokens * MJ_PER_J,) * 2), energy)),
        "tokens_per_s": tokens / seconds,
        "energy_per_token_mj": serialize(energy.scaled(1 / tokens)),
        "edp_mj_s": serialize(energy.scaled(seconds)),
        "power_w": energy.value / MJ_PER_J / seconds,
    }


def _least_edp(rows: Sequence[Entry], along: str) -> int | None:
    if len(rows) < 2:
        return None
    least = min(rows, key=lambda row: float(row["energy_per_token_mj"]["value"] * row["latency_us"]))
    return int(least[along])
