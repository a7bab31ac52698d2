"""Everything that laws say of one subject of one group of cells, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from energyscope.reasons import Reason, reason
from energyscope.runs.intervals import serialize
from energyscope.scaling.cells import RESIDUAL, Cell, Entry, shape_of
from energyscope.scaling.held_out import By, HeldOut
from energyscope.scaling.law import Law, LawName, NoLaw
from energyscope.scaling.law_choice import Evaluated
from energyscope.scaling.linearity import per_flop, quotients, reach, trend, unclear

REGIMES = ("launch", "compute", "memory")
WHERE_FITTED: dict[LawName, str] = {"two-term-in-bytes": "by_bytes", "constant": "constant"}
COEFFICIENTS: dict[LawName, tuple[str, ...]] = {  # always in the entry, None where there is none
    "two-term": ("fixed_mj", "marginal_pj_per_flop"),
    "two-term-in-bytes": ("fixed_mj", "pj_per_byte"),
    "constant": ("energy_mj",),
    "roofline-floor": ("call_mj", "pj_per_flop", "pj_per_byte"),
}


def by_work(cells: Sequence[Cell]) -> list[Cell]:
    """Return cells in the order of their FLOPs; those with the same, by bytes, batch and tokens."""
    return sorted(cells, key=lambda cell: (cell.flops, cell.bytes, cell.batch_size, cell.tokens))


def subject_laws(cells: Sequence[Cell], role: str, evaluated: Evaluated) -> Entry:
    """Return the entry of a subject, whose cells are in the order of `by_work`, and its laws evaluated."""
    subject, laws = cells[0].subject, evaluated.laws
    two_term = laws.get("two-term") or NoLaw(subject, _no_line(cells, laws))
    entry: Entry = {
        "subject": subject,
        "role": role,
        "points": [_point(cell) for cell in cells],
        "two_term": _law(two_term),
        "reach": reach(cells),
        "trend": trend(cells),
        "quotients": quotients(cells),
        "roofline": _law(laws.get("roofline-floor") or NoLaw(subject, _no_roofline(cells, laws))),
        "held_out": [_held_out(name, by, held) for (name, by), held in evaluated.held_out.items()],
        "best": evaluated.best,
    }
    if isinstance(two_term, NoLaw):
        why = two_term.reason
        entry["reach"] |= {"first_beyond": None, "reason": why}
        entry |= {"trend": unclear(why), "quotients": []}
    return entry | {key: _law(laws[name]) for name, key in WHERE_FITTED.items() if name in laws}


def _point(cell: Cell) -> Entry:
    """Return a cell; overhead and what is unexplained do no FLOPs of their own that a joule could be told of."""
    return {
        **shape_of(cell),
        "flops": cell.flops,
        "bytes": cell.bytes,
        "calls": cell.calls,
        "energy_mj": serialize(cell.energy),
        "time_us": cell.time_us,
        "static_mj": cell.static_mj,
        "pj_per_flop": None if cell.subject in RESIDUAL else serialize(per_flop(cell)),
    }


def _law(law: Law | NoLaw) -> Entry:
    """Return a law's coefficients, R2 of lines, times of rooflines, residuals and flags; or why there is none."""
    if isinstance(law, NoLaw):
        return {"reason": law.reason}
    coefficients = {name: serialize(law.coefficients.get(name)) for name in COEFFICIENTS[law.name]}
    residuals: Entry = {"residuals": list(law.residuals)}
    flags: Entry = {"flags": list(law.flags)}
    if law.time is None:
        return coefficients | ({"r2": law.r2} if law.form.grows_with else {}) | residuals | flags
    times = {name: serialize(getattr(law.time, name)) for name in ("launch_us", "tflops", "gb_per_s")}
    regimes: Entry = {"regimes": [REGIMES[regime] for regime in law.time.regimes]}
    return {"law": law.name, "static_w": law.static_w} | coefficients | times | residuals | regimes | flags


def _no_line(cells: Sequence[Cell], laws: Mapping[LawName, object]) -> Reason:
    return reason("constant-energy", cells=len(cells)) if "constant" in laws else reason("no-flops")


def _no_roofline(cells: Sequence[Cell], laws: Mapping[LawName, object]) -> Reason:
    if cells[0].subject in RESIDUAL:
        return reason("no-work-of-its-own")
    return _no_line(cells, laws) if "constant" in laws else reason("no-static-power")


def _held_out(name: LawName, by: By, held: HeldOut) -> Entry:
    errors = held.errors
    why = None if errors.cells else held.reason or next(iter(held.failed), reason("no-cell-left-out"))
    return {
        "law": name,
        "by": by,
        "median": errors.median,
        "worst": errors.largest,
        "cells": errors.cells,
        "reason": why,
    }
