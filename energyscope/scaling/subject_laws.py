"""Everything that laws say of one subject of one group of cells, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyscope.reasons import Reason, reason
from energyscope.scaling.breaks import FEWEST, reach
from energyscope.scaling.by_bytes import ByBytes
from energyscope.scaling.cell import Cell
from energyscope.scaling.constant import Constant
from energyscope.scaling.from_runs import RESIDUAL
from energyscope.scaling.heldout import By, HeldOut, errors_of
from energyscope.scaling.judged import Judged
from energyscope.scaling.marginal import per_flop, quotients, trend
from energyscope.scaling.plain import Plain, plain, shape_of
from energyscope.scaling.prediction import LawName, NoLaw
from energyscope.scaling.roofline import Roofline
from energyscope.scaling.two_term import TwoTerm

REGIMES = ("launch", "compute", "memory")


def by_work(cells: Sequence[Cell]) -> list[Cell]:
    """Return cells in the order of their FLOPs; those with the same, by bytes, batch and tokens."""
    return sorted(cells, key=lambda cell: (cell.flops, cell.bytes, cell.batch_size, cell.tokens))


def subject_laws(cells: Sequence[Cell], role: str, judged: Judged) -> Plain:
    """Return the entry of a subject, whose cells are in the order of `by_work`, and its laws judged."""
    line = judged.laws.get(TwoTerm.name) or NoLaw(cells[0].subject, _no_line(cells, judged))
    found: Plain = {
        "subject": cells[0].subject,
        "role": role,
        "points": [_point(cell) for cell in cells],
        "two_term": _line(line),
        "reach": _reach(cells, line),
        "trend": _trend(cells, line),
        "quotients": [] if isinstance(line, NoLaw) else _quotients(cells),
        "roofline": _roofline(cells, judged),
        "held_out": [_held_out(name, by, held) for (name, by), held in judged.held_out.items()],
        "best": judged.best,
    }
    if ByBytes.name in judged.laws:
        found["by_bytes"] = _by_bytes(judged.laws[ByBytes.name])
    if Constant.name in judged.laws:
        found["constant"] = _constant(cells, judged.laws[Constant.name])
    return found


def _point(cell: Cell) -> Plain:
    """Return a cell; glue and what is unexplained do no FLOPs of their own that a joule could be told of."""
    return {
        **shape_of(cell),
        "flops": cell.flops,
        "bytes": cell.bytes,
        "calls": cell.calls,
        "energy_mj": plain(cell.energy),
        "time_us": cell.time_us,
        "static_mj": cell.static_mj,
        "pj_per_flop": None if cell.subject in RESIDUAL else plain(per_flop(cell)),
    }


def _no_line(cells: Sequence[Cell], judged: Judged) -> Reason:
    if Constant.name in judged.laws:
        return reason("constant-energy", cells=len(cells))
    return reason("no-flops")


def _line(law: Any) -> Plain:
    if not isinstance(law, TwoTerm):
        return {"reason": law.reason}
    return {
        "fixed_mj": plain(law.fixed_mj),
        "marginal_pj_per_flop": plain(law.marginal_pj_per_flop),
        "r2": law.r2,
        "residuals": list(law.residuals),
        "flags": list(law.flags),
    }


def _by_bytes(law: Any) -> Plain:
    if not isinstance(law, ByBytes):
        return {"reason": law.reason}
    return {
        "fixed_mj": plain(law.fixed_mj),
        "pj_per_byte": plain(law.pj_per_byte),
        "r2": law.line.r2,
        "residuals": list(law.line.residuals),
        "flags": list(law.flags),
    }


def _constant(cells: Sequence[Cell], law: Any) -> Plain:
    if not isinstance(law, Constant):
        return {"reason": law.reason}
    energy = law.fit.coefficient(0)
    return {
        "energy_mj": plain(energy),
        "residuals": [1 - energy.value / cell.energy_mj for cell in cells],
        "flags": list(law.flags),
    }


def _reach(cells: Sequence[Cell], line: Any) -> Plain:
    found = reach(cells)
    why = line.reason if isinstance(line, NoLaw) else found.reason
    if why is None and not found.within:
        why = reason("law-breaks-at-once", cells=FEWEST, tolerance=found.tolerance)
    return {
        "tolerance": found.tolerance,
        "holds": found.holds,
        "within": found.within,
        "cells": len(cells),
        "to_flops": found.to_flops,
        "first_beyond": None if why or found.first_beyond is None else shape_of(found.first_beyond),
        "reason": why,
    }


def _trend(cells: Sequence[Cell], line: Any) -> Plain:
    if isinstance(line, NoLaw):
        return {"verdict": "unclear", "change": None, "reason": line.reason}
    found = trend(cells)
    return {"verdict": found.verdict, "change": plain(found.change), "reason": found.reason}


def _quotients(cells: Sequence[Cell]) -> list[Plain]:
    return [
        {"from_flops": one.from_flops, "to_flops": one.to_flops, "pj_per_flop": plain(one.pj_per_flop)}
        for one in quotients(cells)
    ]


def _roofline(cells: Sequence[Cell], judged: Judged) -> Plain:
    subject = cells[0].subject
    law: Any = next((one for one in judged.laws.values() if isinstance(one, Roofline)), None)
    law = law or judged.laws.get("roofline-floor")
    if isinstance(law, NoLaw):
        return {"reason": law.reason}
    if law is None:
        if subject in RESIDUAL:
            return {"reason": reason("no-work-of-its-own")}
        if Constant.name in judged.laws:
            return {"reason": _no_line(cells, judged)}
        return {"reason": reason("no-static-power")}
    return {
        "law": law.name,
        "static_w": law.static_w,
        "call_mj": plain(law.call_mj),
        "pj_per_flop": plain(law.pj_per_flop),
        "pj_per_byte": plain(law.pj_per_byte),
        "launch_us": plain(law.time.launch_us),
        "tflops": plain(law.time.tflops),
        "gb_per_s": plain(law.time.gb_per_s),
        "residuals": list(law.residuals),
        "regimes": [REGIMES[regime] for regime in law.time.regimes],
        "flags": list(law.flags),
    }


def _held_out(name: LawName, by: By, held: HeldOut) -> Plain:
    errors = errors_of(held.cells)
    why = None if errors.cells else held.reason or next(iter(held.failed), reason("no-cell-left-out"))
    return {
        "law": name,
        "by": by,
        "median": errors.median,
        "worst": errors.largest,
        "cells": errors.cells,
        "reason": why,
    }
