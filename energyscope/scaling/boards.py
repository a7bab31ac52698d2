"""Cells of several boards made one: each board's energies times a factor, from shapes that both measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from energyscope.errors import UsageError
from energyscope.grouping import group_by
from energyscope.intervals import Interval
from energyscope.metering.interval import student_t
from energyscope.scaling.cells import FIELDS, Cell, Observation, by_subject
from energyscope.unknown import times

ALIKE = (*(field for field in FIELDS if field != "board"), "batch_size", "tokens")


@dataclass(frozen=True)
class OneBoard:
    """Cells as the ``reference`` board would have measured them, and the factor that each board's took.

    The cells keep their relative intervals: the factor's uncertainty shifts all of a board's cells alike, and is
    given by its own 95 % interval.
    """

    cells: tuple[Cell, ...]
    reference: str
    factors: dict[str, Interval]


def subjects_on_one_board(
    observations: Sequence[Observation], mixed: Collection[str]
) -> tuple[dict[str, list[Cell]], dict[str, OneBoard]]:
    """Return the cells of each subject; those of several boards scaled to one, by subject, where ``mixed`` asks.

    Raises:
        UsageError: boards share no shape.

    """
    cells = by_subject(observations)
    if "board" not in mixed or len({cell.board for own in cells.values() for cell in own}) < 2:
        return cells, {}
    boards = {subject: on_one_board(own) for subject, own in cells.items()}
    return {subject: list(board.cells) for subject, board in boards.items()}, boards


def on_one_board(cells: Sequence[Cell]) -> OneBoard:
    """Scale energies (total and static) of all boards to the board with most cells, the reference.

    A board's factor is the geometric mean of the ratios at what both it and the reference measured (same subject,
    model, phase, precision, execution and shape), with Student's interval on the logarithms.

    Raises:
        UsageError: a board measured nothing that the reference measured.

    """
    counts = Counter(cell.board for cell in cells)
    reference = min(counts, key=lambda board: (-counts[board], board))
    factors = {board: _factor(cells, board, reference) for board in sorted(counts)}
    scaled = tuple(_scaled(cell, factors[cell.board].value, reference) for cell in cells)
    return OneBoard(scaled, reference, factors)


def _factor(cells: Sequence[Cell], board: str, reference: str) -> Interval:
    if board == reference:
        return Interval(1.0, 1.0, 1.0)
    own, other = _mean_logs(cells, board), _mean_logs(cells, reference)
    logs = np.array([other[key] - own[key] for key in own if key in other])
    if not len(logs):
        raise UsageError(f"boards {board} and {reference} share no shape: measure one on both, or drop one board")
    mean = float(logs.mean())
    if len(logs) < 2:
        return Interval(math.exp(mean))
    half = student_t(len(logs) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def _mean_logs(cells: Sequence[Cell], board: str) -> dict[tuple[object, ...], float]:
    """Return the mean logarithm of energy by what was measured on a board."""
    measured = [cell for cell in cells if cell.board == board and cell.energy_mj > 0]
    groups = group_by(measured, lambda cell: tuple(getattr(cell, field) for field in ALIKE))
    return {key: fmean(math.log(cell.energy_mj) for cell in group) for key, group in groups.items()}


def _scaled(cell: Cell, factor: float, board: str) -> Cell:
    scaled = cell.with_energy(cell.energy.scaled(factor))
    return replace(scaled, static_mj=times(cell.static_mj, factor), board=board)
