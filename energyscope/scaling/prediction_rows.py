"""A prediction as plain data: energies in mJ, times in us, with what a reader must know of them.

Energy and time are positive. A law is a line with a symmetric interval, which does not know that: a lower limit
that is not positive is left out, with a remark; a negative energy is no prediction. Only what is unexplained may
be negative: it is a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from energyscope.intervals import Interval, serialize
from energyscope.reasons import Reason, reason
from energyscope.scaling.cells import UNEXPLAINED, WHOLE, Cell, Entry, Shape, Work, column
from energyscope.scaling.held_out import By, HeldOut, errors_beside, leave_out_of_sum
from energyscope.scaling.law import PJ_PER_MJ, Law, Prediction, sum_of_parts
from energyscope.scaling.law_choice import ChosenLaw


def not_predicted(prediction: Prediction) -> Reason | None:
    """Return why a prediction cannot be used, None where it can."""
    if prediction.subject == UNEXPLAINED or prediction.energy_mj.value > 0:
        return None
    return reason("negative-energy")


def prediction_row(chosen: ChosenLaw, work: Shape, shorter: Shape | None) -> Entry:
    """Return a subject's prediction and its law's terms; of a new model E0 and k too, by ``shorter`` work."""
    law = chosen.law
    terms = {name: value for name, value in law.coefficients.items() if name != "energy_mj"}
    if law.form.over_models and shorter is not None:
        terms |= terms_of(law, [shorter, work])
    return _serialized(chosen.predict(work), chosen.held_out, law.flags) | {
        "cells": law.cells,
        "flops": work.flops,
        "nominal_flops": work.flops if work.nominal_flops is None else work.nominal_flops,
        "bytes": work.bytes,
        "calls": work.calls,
        "terms": {name: serialize(value) for name, value in terms.items()},
    }


def sum_row(
    parts: Sequence[str],
    chosen: Mapping[str, ChosenLaw],
    works: Mapping[str, Shape],
    cells: Mapping[str, Sequence[Cell]],
    by: By,
) -> Entry:
    """Return the sum over parts, each of which has a law that predicts its energy."""
    predictions = [chosen[part].predict(works[part]) for part in parts]
    total = sum_of_parts(predictions, WHOLE)
    fits = {part: chosen[part].fit for part in parts}
    held_out = leave_out_of_sum({part: cells[part] for part in parts}, cells.get(WHOLE, ()), fits, by)
    beyond = sum(prediction.extrapolated for prediction in predictions)
    why = reason("parts-beyond-cells", beyond=beyond, parts=len(parts)) if beyond else None
    return _serialized(replace(total, why=why), held_out, ()) | {"terms": {}}


def terms_of(law: Law, works: Sequence[Work]) -> dict[str, Interval]:
    """Return E0 (mJ) and k (pJ/FLOP) that a law over models implies for a model, from its work at two lengths.

    The two-term line through the law's energies at these works, weighted as measured ones would be. E0 and k are
    then linear in the law's coefficients, so that their intervals follow exactly. None of works that take the same
    FLOPs or of which the law says no energy.
    """
    flops = column(works, "flops")
    design = np.array([law.form.row(work) for work in works])
    energy = design @ np.array(law.fit.coefficients)
    if len(set(flops.tolist())) < 2 or not energy.all():
        return {}
    line = np.column_stack([np.ones(len(works)), flops]) / energy[:, None]
    norms = np.linalg.norm(line, axis=0)
    rows = (np.linalg.pinv(line / norms) / norms[:, None]) @ (design / energy[:, None])  # shape (2, terms)
    fixed, marginal = (law.fit.interval(tuple(row)) for row in rows)
    return {"fixed_mj": fixed, "marginal_pj_per_flop": marginal.scaled(PJ_PER_MJ)}


def _serialized(prediction: Prediction, held_out: HeldOut, flags: Sequence[Reason]) -> Entry:
    errors, where = errors_beside(held_out, prediction)
    energy, time, remarks = prediction.energy_mj, prediction.time_us, list(flags)
    if prediction.subject != UNEXPLAINED:
        energy = _positive(energy, "energy", remarks)
    if time is not None and time.value <= 0:
        remarks.append(reason("negative-time"))
        time = None
    elif time is not None:
        time = _positive(time, "time", remarks)
    return {
        "subject": prediction.subject,
        "energy_mj": serialize(energy),
        "time_us": serialize(time),
        "law": prediction.law,
        "held_out": {
            "by": held_out.by,
            "where": where,
            **asdict(errors),
            "reason": held_out.reason or next(iter(held_out.failed), None),
        },
        "extrapolated": prediction.extrapolated,
        "why": prediction.why,
        "flags": remarks,
    }


def _positive(item: Interval, name: str, remarks: list[Reason]) -> Interval:
    """Return a positive value's interval without a lower limit that is not positive, which a remark notes."""
    if item.low is None or item.low > 0:
        return item
    remarks.append(reason("no-lower-limit", quantity=name))
    return Interval(item.value, None, item.high)
