"""How straight energy is over FLOPs: up to which cell the two-term law holds, and J/FLOP between neighbours.

Energies per FLOP are in pJ/FLOP (1 mJ/FLOP = 1e9 pJ/FLOP). All functions take the cells of one subject, alike in
all but their shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np

from energyscope.intervals import Interval, difference, ratio, serialize
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.scaling.cells import Cell, Entry, check_alike, column, deviations, shape_of
from energyscope.scaling.law import PJ_PER_MJ
from energyscope.scaling.least_squares import line, weighted

Verdict = Literal["flat", "rising", "falling", "unclear"]
TOLERANCE = 0.10
FEWEST = 3  # cells of a range: the two others of each must give a law
FEWEST_AMOUNTS = 4  # different amounts of FLOPs that a trend needs
FLAT = 0.10  # a change of the marginal J/FLOP per doubling that is called flat


def straightness(cells: Sequence[Cell], no_law: Reason | None = None) -> Entry:
    """Return reach, trend and quotients of cells; with the reason ``no_law`` where they follow no two-term law.

    Raises:
        UsageError: the cells differ in more than their shapes.

    """
    check_alike(cells)
    if no_law is None:
        return {"reach": reach(cells), "trend": trend(cells), "quotients": quotients(cells)}
    return {
        "reach": reach(cells) | {"first_beyond": None, "reason": no_law},
        "trend": _trend("unclear", None, no_law),
        "quotients": [],
    }


def reach(cells: Sequence[Cell]) -> Entry:
    """Find where the two-term law breaks, among cells of which order does not matter.

    It holds within the largest range from the smallest cell upwards in which each cell is within `TOLERANCE` of
    what the law fitted on the range's other cells says of it. The end cells are extrapolated by that. ``within``
    counts the range's cells (0: not even the first three), ``to_flops`` is its largest cell's FLOPs,
    ``first_beyond`` the first cell after it; ``holds`` is whether it has all cells.
    """
    ordered = sorted(cells, key=lambda cell: cell.flops)
    counts = range(len(ordered), FEWEST - 1, -1)
    within = next((count for count in counts if _holds(ordered[:count])), 0)
    why = reason("law-breaks-at-once", cells=FEWEST, tolerance=TOLERANCE)
    if len(ordered) < FEWEST:
        why = reason("few-cells", cells=len(ordered), needed=FEWEST)
    return {
        "tolerance": TOLERANCE,
        "holds": 0 < within == len(ordered),
        "within": within,
        "cells": len(cells),
        "to_flops": ordered[within - 1].flops if within else None,
        "first_beyond": shape_of(ordered[within]) if 0 < within < len(ordered) else None,
        "reason": None if within else why,
    }


def _holds(cells: Sequence[Cell]) -> bool:
    errors = left_out_errors(cells)
    return errors is not None and bool(np.all(np.abs(errors) <= TOLERANCE))


def left_out_errors(cells: Sequence[Cell]) -> Array | None:
    """Return each cell's relative error when the two-term law is fitted on the others, shape (cells,).

    Without a second fit: leaving a value out of a least-squares fit makes its residual 1 / (1 - leverage) times as
    large (D. M. Allen, Technometrics 16, 1974). None where the cells, or all but one, have the same FLOPs.
    """
    energy = column(cells, "energy_mj")
    fit = line(column(cells, "flops"), energy, deviations(cells))
    if fit is None:
        return None
    rest = 1 - np.array(fit.leverages)
    if np.any(rest < 1e-9):
        return None
    result: Array = -np.array(fit.residuals) / rest / energy
    return result


def quotients(cells: Sequence[Cell]) -> list[Entry]:
    """Return the difference quotients between cells that are neighbours in FLOPs.

    Their intervals join the cells' own (`intervals.difference`). Each cell is in two of them: they are not
    independent. Cells with the same FLOPs have none between them.
    """
    pairs = itertools.pairwise(sorted(cells, key=lambda cell: cell.flops))
    return [
        {
            "from_flops": first.flops,
            "to_flops": second.flops,
            "pj_per_flop": serialize(
                difference(second.energy, first.energy).scaled(PJ_PER_MJ / (second.flops - first.flops))
            ),
        }
        for first, second in pairs
        if second.flops > first.flops
    ]


def trend(cells: Sequence[Cell]) -> Entry:
    """Tell whether marginal J/FLOP is flat, rising or falling.

    E = E0 + k F + c F log2(F / G) is fitted, where G is the cells' geometric mean of FLOPs: dE/dF then changes
    by c with each doubling, whatever the distances of the cells. ``change`` is c / k with Student's interval of c.
    The verdict is "flat" only where the whole interval lies within +-10 %: that no trend shows in few or noisy
    cells does not make one flat. ``reason`` says why the verdict is "unclear".
    """
    used = [cell for cell in cells if cell.flops > 0]
    if (amounts := len({cell.flops for cell in used})) < FEWEST_AMOUNTS:
        return _trend("unclear", None, reason("few-flops", amounts=amounts, needed=FEWEST_AMOUNTS))
    flops, energy, spread = column(used, "flops"), column(used, "energy_mj"), deviations(used)
    bent = flops * np.log2(flops / np.exp(np.mean(np.log(flops))))
    straight = line(flops, energy, spread)
    curve = weighted(np.column_stack([np.ones(len(used)), flops, bent]), energy, spread)
    if straight is None or curve is None or straight.coefficients[1] <= 0:
        return _trend("unclear", None, reason("k-not-positive", subjects=[cells[0].subject]))
    change = curve.coefficient(2).scaled(1 / straight.coefficients[1])
    if change.low is None or change.high is None:
        return _trend("unclear", change, reason("no-cell-left-for-interval"))
    if change.excludes(0.0):
        return _trend("rising" if change.value > 0 else "falling", change)
    if change.low >= -FLAT and change.high <= FLAT:
        return _trend("flat", change)
    return _trend("unclear", change, reason("trend-unclear", flat=FLAT))


def _trend(verdict: Verdict, change: Interval | None, why: Reason | None = None) -> Entry:
    return {"verdict": verdict, "change": serialize(change), "reason": why}


def per_flop(cell: Cell) -> Interval | None:
    """Return J/FLOP of a cell in pJ/FLOP; None for a subject without FLOPs."""
    return cell.energy.scaled(PJ_PER_MJ / cell.flops) if cell.flops else None


def per_flop_ratio(first: Cell, second: Cell) -> Interval | None:
    """Return by what factor a FLOP of the first costs more than one of the second; None without FLOPs."""
    first_cost, second_cost = per_flop(first), per_flop(second)
    return ratio(first_cost, second_cost) if first_cost and second_cost else None
