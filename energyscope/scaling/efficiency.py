"""Tokens per joule, latency and energy-delay product of whole passes, along batch sizes and along lengths.

The knee is, as V. Satopaa, J. Albrecht, D. Irwin and B. Raghavan put it (Finding a "Kneedle" in a Haystack, ICDCS
Workshops 2011), where more of the parameter is no longer worth what it brings; here: the first size after which
every further doubling raises tokens/J by less than 10 %. It needs no law. Beside it stands a size that a law
gives: E = E0 + e n makes tokens/J reach half of its limit 1 / e at n = E0 / e, which is n_1/2 of R. W. Hockney and
C. R. Jesshope (Parallel Computers, 1981), in joules instead of seconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from energyscope.grouping import group_by
from energyscope.intervals import Interval, ratio, serialize, total
from energyscope.reasons import Reason, reason
from energyscope.scaling.cells import FLOOR, GROUPED, WHOLE, Cell, Entry, Observation, with_whole
from energyscope.scaling.least_squares import line

NOUNS = {"batch_size": "batch", "tokens": "length"}  # of the axes
WORTH = 0.10  # gain of tokens/J per doubling that is worth it
LEAST = 3  # sizes that a knee needs
US_PER_S = 1e6
MJ_PER_J = 1e3

Shapes = Mapping[tuple[int, int], list[Cell]]


@dataclass(frozen=True)
class Knee:
    """The size at the knee, what it means in words, and the size at which fixed energy is half of the whole.

    ``half_at`` is None where no law gives it.
    """

    size: int
    words: Reason
    half_at: float | None


@dataclass(frozen=True)
class _Step:
    """From one size to the next, with the gain of tokens/J per doubling."""

    start: int
    end: int
    gain: Interval


def efficiencies(observations: Sequence[Observation]) -> list[Entry]:
    """Return tokens/J of the whole model along each axis on which it was measured, as plain data.

    An entry holds the cells alike in all of `GROUPED` and in the other axis (``fixed``), ordered along its axis,
    two at least; a group of one cell has one entry of one row. A shape measured twice is one row, their mean.
    ``least_edp`` is where energy per token times the pass's latency is least (energy-delay product per token;
    R. Gonzalez and M. Horowitz, IEEE Journal of Solid-State Circuits 31 (1996), 1277-1284); None for one row.
    Observations of which the whole has no positive energy are left out.
    """
    entries = []
    groups = group_by(with_whole(observations), lambda item: tuple(item.value(field) for field in GROUPED))
    for values, group in groups.items():
        setting = dict(zip(GROUPED, values, strict=True))
        shapes = group_by((item.cells[WHOLE] for item in group), lambda cell: (cell.batch_size, cell.tokens))
        lines = list(_lines(shapes)) or [("batch_size", next(iter(shapes))[1], list(shapes.values()))]
        entries += [setting | _entry(along, fixed, rows) for along, fixed, rows in lines]
    return entries


def tokens_of(cell: Cell) -> int:
    """Return the tokens of a pass: batch size x length in a prefill, the batch size in a decode step."""
    return cell.batch_size * (1 if cell.phase == "decode" else cell.tokens)


def mean_of(cells: Sequence[Cell]) -> tuple[Interval, float]:
    """Return the mean energy (mJ) and time (us) of one shape's measurements, independent of each other."""
    energy = total(cell.energy for cell in cells).scaled(1 / len(cells))
    return energy, sum(cell.time_us for cell in cells) / len(cells)


def pass_row(cells: Sequence[Cell]) -> Entry:
    """Return what a pass takes and gives, as plain data, of one shape's measurements."""
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


def knee_of(sizes: Sequence[int], tokens_per_j: Sequence[Interval], noun: str) -> Knee | Reason:
    """Return the knee of tokens/J over ``sizes`` (n,), which rise, or why there is none.

    ``noun`` names a size ("batch"). Gains are per doubling: between sizes 1 and 8, the cube root of the ratio.
    Where the interval of the gain just before or just after the knee includes 10 %, there is no clear knee;
    without limits the values decide.
    """
    if len(sizes) < LEAST:
        return reason("few-sizes", sizes=len(sizes), needed=LEAST)
    steps = [_step(*pair) for pair in itertools.pairwise(zip(sizes, tokens_per_j, strict=True))]
    last = max((index for index, step in enumerate(steps) if step.gain.value >= WORTH), default=-1)
    for step in steps[last : last + 2] if last >= 0 else steps:
        if step.gain.known and not step.gain.excludes(WORTH):
            return reason("knee-unclear", **_values(step, noun), low=step.gain.low, high=step.gain.high)
    if last == -1:
        return reason("no-gain-from-start", **_values(steps[0], noun))
    if last == len(steps) - 1:
        return reason("no-knee-yet", **_values(steps[last], noun))
    size, factor = steps[last].end, tokens_per_j[last + 1].value / tokens_per_j[0].value
    gain = steps[last + 1].gain.value
    words = reason("knee", noun=noun, least=sizes[0], at=size, factor=factor, gain=gain)
    return Knee(size, words, half_size(sizes, tokens_per_j))


def half_size(sizes: Sequence[int], tokens_per_j: Sequence[Interval]) -> float | None:
    """Return n_1/2 = E0 / e of E = E0 + e n, fitted to relative residuals; None without two positive terms."""
    if any(rate.value <= 0 for rate in tokens_per_j):
        return None
    counts = np.array(sizes, dtype=float)
    energy = counts / np.array([rate.value for rate in tokens_per_j])
    fit = line(counts, energy, FLOOR * energy)
    if fit is None or min(fit.coefficients) <= 0:
        return None
    return fit.coefficients[0] / fit.coefficients[1]


def _step(first: tuple[int, Interval], second: tuple[int, Interval]) -> _Step:
    (start, before), (end, after) = first, second
    change = ratio(after, before) or Interval(math.nan)
    power = 1 / math.log2(end / start)
    limits = [None if limit is None else limit**power - 1 for limit in (change.low, change.high)]
    return _Step(start, end, Interval(change.value**power - 1, *limits))


def _values(step: _Step, noun: str) -> dict[str, Any]:
    return {"noun": noun, "start": step.start, "end": step.end, "gain": step.gain.value}


def _lines(shapes: Shapes) -> Iterator[tuple[str, int, list[list[Cell]]]]:
    """Yield each axis with what is fixed and the shapes along it, where there are two at least."""
    for index, along in enumerate(NOUNS):
        for fixed in sorted({shape[1 - index] for shape in shapes}):
            on_line = sorted(shape for shape in shapes if shape[1 - index] == fixed)
            if len(on_line) > 1:
                yield along, fixed, [shapes[shape] for shape in on_line]


def _entry(along: str, fixed: int, shapes: Sequence[Sequence[Cell]]) -> Entry:
    rows = [pass_row(cells) for cells in shapes]
    noun = "context" if along == "tokens" and shapes[0][0].phase == "decode" else NOUNS[along]
    knee = knee_of([row[along] for row in rows], [Interval(**row["tokens_per_j"]) for row in rows], noun)
    if isinstance(knee, Reason):
        place, why = None, knee
    else:
        place, why = {along: knee.size, "words": knee.words, "half_at": knee.half_at}, None
    least = min(rows, key=lambda row: float(row["energy_per_token_mj"]["value"] * row["latency_us"]))
    return {
        "along": along,
        "fixed": fixed,
        "rows": rows,
        "knee": place,
        "reason": why,
        "least_edp": int(least[along]) if len(rows) > 1 else None,
    }
