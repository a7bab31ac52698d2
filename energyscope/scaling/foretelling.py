"""A prediction as plain data: energies in mJ, times in us, with what a reader must know of them.

Energy and time are positive. A law is a line with a symmetric interval, and knows nothing of that: where its
lower limit is not positive, it tells none, and that is said; where it says a negative energy, it tells nothing.
Only what is unexplained may be negative: it is a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from energyscope.intervals import Interval
from energyscope.reasons import Reason, reason
from energyscope.scaling.architecture import PerCall, terms_of
from energyscope.scaling.cell import Cell, Shape
from energyscope.scaling.choosing import Chosen, errors_beside, fitter_by_subject
from energyscope.scaling.from_runs import UNEXPLAINED, WHOLE
from energyscope.scaling.heldout import By, HeldOut, leave_out_of_sum
from energyscope.scaling.plain import Plain, plain
from energyscope.scaling.prediction import NoLaw, Prediction
from energyscope.scaling.whole import summed

COEFFICIENTS = ("fixed_mj", "marginal_pj_per_flop", "call_mj", "pj_per_flop", "pj_per_byte")


def untold(prediction: Prediction) -> Reason | None:
    """Return why a prediction tells nothing, None where it tells an energy."""
    if prediction.subject == UNEXPLAINED or prediction.energy_mj.value > 0:
        return None
    return reason("negative-energy")


def row_of(chosen: Chosen, work: Shape, shorter: Shape | None) -> Plain:
    """Return a subject's prediction and its law's terms; of a new model E0 and k too, by ``shorter`` work."""
    prediction = chosen.predict(work)
    law: Any = chosen.law
    terms = {name: getattr(law, name) for name in COEFFICIENTS if getattr(law, name, None) is not None}
    if (
        isinstance(law, PerCall)
        and shorter is not None
        and not isinstance(both := terms_of(law, [shorter, work]), NoLaw)
    ):
        terms |= {"fixed_mj": both.fixed_mj, "marginal_pj_per_flop": both.marginal_pj_per_flop}
    return _told(prediction, chosen.held_out, law.flags) | {
        "cells": chosen.cells,
        "flops": work.flops,
        "bytes": work.bytes,
        "calls": work.calls,
        "terms": {name: plain(value) for name, value in terms.items()},
    }


def sum_of(
    parts: Sequence[str],
    chosen: Mapping[str, Chosen],
    works: Mapping[str, Shape],
    cells: Mapping[str, Sequence[Cell]],
    by: By,
) -> Plain:
    """Return the sum over parts, each of which has a law that tells an energy: a part is not the sum."""
    predictions = [chosen[part].predict(works[part]) for part in parts]
    total = summed(predictions, WHOLE)
    of_parts = {part: cells[part] for part in parts}
    held_out = leave_out_of_sum(of_parts, cells.get(WHOLE, ()), fitter_by_subject(chosen), by)
    beyond = sum(one.extrapolated for one in predictions)
    why = reason("parts-beyond-cells", beyond=beyond, parts=len(parts)) if total.extrapolated else None
    return _told(replace(total, why=why), held_out, ()) | {"terms": {}}


def _told(prediction: Prediction, held_out: HeldOut, flags: Sequence[Reason]) -> Plain:
    errors, where = errors_beside(held_out, prediction)
    signed = prediction.subject == UNEXPLAINED
    energy, time = prediction.energy_mj, prediction.time_us
    said = list(flags)
    if not signed:
        energy = _positive(energy, "energy", said)
    if time is not None and time.value <= 0:
        said.append(reason("negative-time"))
        time = None
    elif time is not None:
        time = _positive(time, "time", said)
    return {
        "subject": prediction.subject,
        "energy_mj": plain(energy),
        "time_us": plain(time),
        "law": prediction.law,
        "held_out": {
            "by": held_out.by,
            "where": where,
            **asdict(errors),
            "reason": held_out.reason or next(iter(held_out.failed), None),
        },
        "extrapolated": prediction.extrapolated,
        "why": prediction.why,
        "flags": said,
    }


def _positive(item: Interval, name: str, flags: list[Reason]) -> Interval:
    """Return a positive value's interval without a lower limit that is none, and add what to say to ``flags``."""
    if item.low is None or item.low > 0:
        return item
    flags.append(reason("no-lower-limit", quantity=name))
    return Interval(item.value, None, item.high)
