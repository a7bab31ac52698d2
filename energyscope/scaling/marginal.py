"""J/FLOP: marginal between neighbouring cells, its trend, and of one subject against another.

Energies in pJ/FLOP (1 mJ/FLOP = 1e9 pJ/FLOP).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from energyscope.intervals import Interval, difference, ratio
from energyscope.reasons import Reason, reason
from energyscope.scaling.cell import FLOOR, Cell, check_alike, column, deviations
from energyscope.scaling.least_squares import weighted
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.two_term import PJ_PER_MJ, TwoTerm

Verdict = Literal["flat", "rising", "falling", "unclear"]
FEWEST = 4  # different amounts of FLOPs
FLAT = 0.10  # a change of the marginal J/FLOP per doubling that is called flat


@dataclass(frozen=True)
class Quotient:
    """The marginal J/FLOP (pJ/FLOP) between two neighbouring cells, given by their FLOPs."""

    from_flops: float
    to_flops: float
    pj_per_flop: Interval


@dataclass(frozen=True)
class Trend:
    """How marginal J/FLOP changes: ``change`` per doubling of the FLOPs, relative to the two-term law's k.

    The verdict is "flat" only where the whole interval lies within +-10 % per doubling: that no trend was found in
    few or noisy cells does not make one flat. ``reason`` says why nothing can be told.
    """

    verdict: Verdict
    change: Interval | None
    reason: Reason | None = None


def quotients(cells: Sequence[Cell]) -> tuple[Quotient, ...]:
    """Return the difference quotients between cells of one subject that are neighbours in FLOPs.

    Their intervals join the cells' own (`runs.intervals.difference`). Each cell is in two of them: they are not
    independent. Cells with the same FLOPs have none between them.
    """
    check_alike(cells)
    ordered = sorted(cells, key=lambda cell: cell.flops)
    return tuple(
        Quotient(a.flops, b.flops, difference(b.energy, a.energy).scaled(PJ_PER_MJ / (b.flops - a.flops)))
        for a, b in itertools.pairwise(ordered)
        if b.flops > a.flops
    )


def trend(cells: Sequence[Cell], *, flat: float = FLAT, floor: float = FLOOR) -> Trend:
    """Tell whether marginal J/FLOP is flat, rising or falling over the cells of one subject.

    E = E0 + k F + c F log2(F / G) is fitted, where G is the cells' geometric mean of FLOPs: dE/dF then changes
    by c with each doubling, whatever the distances of the cells. c / k has Student's interval of c.
    """
    check_alike(cells)
    used = [cell for cell in cells if cell.flops > 0]
    if (amounts := len({cell.flops for cell in used})) < FEWEST:
        return Trend("unclear", None, reason("few-flops", amounts=amounts, needed=FEWEST))
    flops, energy = column(used, "flops"), column(used, "energy_mj")
    bent = flops * np.log2(flops / np.exp(np.mean(np.log(flops))))
    spread = deviations(used, floor)
    line = weighted(np.column_stack([np.ones(len(used)), flops]), energy, spread)
    curve = weighted(np.column_stack([np.ones(len(used)), flops, bent]), energy, spread)
    if line is None or curve is None or line.coefficients[1] <= 0:
        return Trend("unclear", None, reason("k-not-positive", subjects=[cells[0].subject]))
    change = curve.coefficient(2).scaled(1 / line.coefficients[1])
    if change.low is None or change.high is None:
        return Trend("unclear", change, reason("no-cell-left-for-interval"))
    if change.low > 0 or change.high < 0:
        return Trend("rising" if change.value > 0 else "falling", change)
    if -flat <= change.low and change.high <= flat:
        return Trend("flat", change)
    return Trend("unclear", change, reason("trend-unclear", flat=flat))


def per_flop(cell: Cell) -> Interval | None:
    """Return J/FLOP of a cell in pJ/FLOP; None for a subject without FLOPs."""
    return cell.energy.scaled(PJ_PER_MJ / cell.flops) if cell.flops else None


def per_flop_ratio(first: Cell, second: Cell) -> Interval | None:
    """Return by what factor a FLOP of the first costs more than one of the second; None without FLOPs."""
    one, other = per_flop(first), per_flop(second)
    return ratio(one, other) if one and other else None


def energy_ratio(first: Cell, second: Cell) -> Interval | None:
    """Return the energy of the first over that of the second, such as norms in FP16 against FP32 at one shape."""
    return ratio(first.energy, second.energy)


def marginal_ratio(first: TwoTerm | NoLaw, second: TwoTerm | NoLaw) -> Interval | None:
    """Return k of the first law over k of the second; None without both, or where one is not positive."""
    if isinstance(first, NoLaw) or isinstance(second, NoLaw):
        return None
    return ratio(first.marginal_pj_per_flop, second.marginal_pj_per_flop)
