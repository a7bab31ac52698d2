"""plan.json from a plan's record. Pure functions over plain data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from energyscope.accounting.measured import Total
from energyscope.changes.document import document as alternatives_document
from energyscope.impact.metrics import bootstrap
from energyscope.intervals import Interval, serialize
from energyscope.metering.grades import grade
from energyscope.planning.budget import Harm
from energyscope.planning.choice import ChoiceProblem, front
from energyscope.planning.record import NamedChoice, PlanRecord
from energyscope.planning.rules import AS_MANY, QUADRANT, everywhere

SCHEMA = 1
PLAN = "plan"
MOST_ON_FRONT = 60  # points that are written; between these there is nothing to see

Verdict = Literal["saves", "keep", "over budget", "not measured"]


def best_within(record: PlanRecord, limit: float) -> NamedChoice | None:
    """Return the cheapest single precision within the limit with 95 % confidence; None where none saves."""
    singles = {everywhere(precision) for precision in record.precisions[1:]}
    own = record.cost_of(NamedChoice("", (record.own,) * len(record.groups), None))
    within = [
        tried
        for tried in record.tried
        if tried.name in singles and tried.harm is not None and upper(tried.harm, record) <= limit
        if record.cost_of(tried) < own
    ]
    return min(within, key=record.cost_of, default=None)


def upper(harm: Harm, record: PlanRecord) -> float:
    """Return what a measured harm is below on other data of the same size, with 95 % confidence."""
    count = len(harm.sums)
    problem = ChoiceProblem(
        np.zeros((1, 2)),
        np.stack([np.zeros(count), harm.sums])[None],
        harm.weights,
        seed=record.header["seed"],
    )
    return problem.bound(np.array([1]))


def to_verify(record: PlanRecord) -> list[NamedChoice]:
    """Return the choices that are applied and measured, each only where it changes something, and once.

    The plan, the best single precision, what the quadrant of high energy and low impact says, and as many groups
    at random.
    """
    chosen = record.chosen
    if chosen is None:
        return []
    best = best_within(record, chosen["limit"])
    rules = [tried for tried in record.tried if tried.name in {QUADRANT, AS_MANY}]
    named = [NamedChoice(PLAN, tuple(chosen["precisions"]), None), *([best] if best else []), *rules]
    different: dict[tuple[str, ...], NamedChoice] = {}
    for choice in named:
        if set(choice.precisions) != {record.own}:
            different.setdefault(choice.precisions, choice)
    return list(different.values())


def document(record: PlanRecord) -> dict[str, Any] | None:
    """Return what plan.json holds; None where no choice was made.

    Ratios are to the model as it is, in turn with it. Energies are mJ, times us, of a pass or step of a workload;
    ``harm`` is in the quantity that the budget is spent in (`energyscope.planning.budget`), of the half that the
    plan was made on, and ``held_out`` of the other. ``saves`` are the ratios of the objective; a ``comparison`` is
    advised only where it was adopted. ``adopted`` is the choice that ``groups`` hold, ``elsewhere`` what the plan
    of each workload is expected to take of the others. ``quality`` is of the energy, or of the time where that is
    the objective.
    """
    records = [record.at(workload["key"]) for workload in record.header.get("workloads", ())]
    chosen = [each for each in records if each.chosen is not None]
    if not chosen:
        return None
    header, limit = record.header, (chosen[0].chosen or {})["limit"]
    workloads = [_workload(each) for each in chosen]
    return {
        "schema": SCHEMA,
        **{key: header[key] for key in _KEPT},
        "budget": {**record.budget.document(), "harm": limit},
        "left_out": [{"precision": name, "reason": why} for name, why in header["left_out"].items()],
        "held_out_baseline": record.held_out_baseline,
        "workloads": workloads,
        "elsewhere": _elsewhere(chosen, workloads),
    }


_KEPT = (
    "model", "weights", "objective", "precisions", "execution", "data", "examples", "baseline", "weight_bytes",
    "modelled",
)  # fmt: skip


def _workload(record: PlanRecord) -> dict[str, Any]:
    """Return the plan of one workload."""
    chosen: Mapping[str, Any] = record.chosen or {}
    considered = _considered(record)
    choices = [_choice(record, choice, chosen["limit"]) for choice in considered]
    adopted = _adopted(choices)
    precisions = next(choice.precisions for choice in considered if choice.name == adopted["name"])
    described = next(each for each in record.header["workloads"] if each["key"] == record.workload)
    return {
        **described,
        "adopted": adopted["name"],
        "verdict": _verdict(adopted),
        "groups": _groups(record, precisions),
        "families": _families(record),
        "choices": choices,
        "front": _front(record, chosen["factor"]),
        "factor": chosen["factor"],
        "nearest": _nearest(record, chosen) if adopted["expected_harm"] == 0.0 else None,
        "whole": _whole(record),
        "levers": _levers(record),
        "notes": record.all("note"),
    }


def _levers(record: PlanRecord) -> dict[str, Any] | None:
    """Return what else was measured with the adopted choice, as alternatives.json holds it; None where nothing."""
    return alternatives_document(record.all("lever"))


def _elsewhere(records: Sequence[PlanRecord], workloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each workload's plan what it is expected to take at every workload."""
    plans = [[group["precision"] for group in workload["groups"]] for workload in workloads]
    return [
        {
            "plan": workload["key"],
            "at": record.workload,
            "energy": _ratio(record.predicted(plan)),
            "saves": _expected(record, plan),
        }
        for workload, plan in zip(workloads, plans, strict=True)
        for record in records
        if len(records) > 1
    ]


def _considered(record: PlanRecord) -> list[NamedChoice]:
    """Return the plan first, then every other whole choice that was tried."""
    chosen = tuple((record.chosen or {})["precisions"])
    tried = record.tried
    own = next((choice for choice in tried if choice.name == PLAN and choice.precisions == chosen), None)
    return [own or NamedChoice(PLAN, chosen, None), *(choice for choice in tried if choice.name != PLAN)]


def _choice(record: PlanRecord, choice: NamedChoice, limit: float) -> dict[str, Any]:
    counts = Counter(choice.precisions)
    objective = record.header["objective"]
    quality, reasons = record.quality(choice.name, "time" if objective == "time" else "energy")
    changes = set(choice.precisions) != {record.own}
    saved = record.bytes_saved(choice.precisions)
    expected = record.expected_harm(choice)
    harm = 0.0 if not changes else None if choice.harm is None else choice.harm.value
    bound = 0.0 if not changes else None if choice.harm is None else upper(choice.harm, record)
    predicted = {quantity: _ratio(record.predicted(choice.precisions, quantity)) for quantity in _QUANTITIES}
    measured = {quantity: _ratio(record.verified(choice.name, quantity)) for quantity in _QUANTITIES}
    memory = None if saved is None else 1 - saved / record.header["weight_bytes"]
    predicted["memory"] = measured["memory"] = None if memory is None else _exactly(memory)
    return {
        "name": choice.name,
        "changes": changes,
        "comparison": choice.name in {QUADRANT, AS_MANY},
        "groups": dict(counts),
        "predicted": predicted,
        "measured": measured,
        "saves": {
            "predicted": predicted[objective],
            "measured": measured[objective] if measured["time"] else None,
        },
        "quality": quality,
        "reasons": reasons,
        "expected_harm": expected,
        "harm": harm,
        "bound": bound,
        "within": None if bound is None else bound <= limit,
        "held_out": _held_out(record, choice.name) if changes else None,
    }


_QUANTITIES = ("energy", "dynamic", "time")


def _ratio(share: Total | None) -> dict[str, float | None] | None:
    return None if share is None else serialize(Interval(share.value, share.low, share.high))


def _expected(record: PlanRecord, precisions: Sequence[str]) -> dict[str, float | None] | None:
    """Return what a choice is expected to take of the objective's quantity, of what the model takes."""
    objective = record.header["objective"]
    if objective != "memory":
        return _ratio(record.predicted(precisions, objective))
    saved = record.bytes_saved(precisions)
    return None if saved is None else _exactly(1 - saved / record.header["weight_bytes"])


def _exactly(value: float) -> dict[str, float | None]:
    return {"value": value, "low": value, "high": value}


def _held_out(record: PlanRecord, name: str) -> dict[str, Any] | None:
    """Return what a choice does on the half of the data that it was not made on."""
    entry = record.held_out.get(name)
    baseline = record.held_out_baseline
    if entry is None or baseline is None:
        return None
    if entry.get("failed"):
        unknown = dict.fromkeys(("harm", "value", "shown", "kl", "agreement"))
        return {**unknown, "baseline": baseline, "holds": False, "reason": entry["failed"]}
    limit = record.budget.limit(baseline)
    harm = Harm(np.array(entry["sums"], dtype=float), np.array(entry["weights"], dtype=float))
    estimate = bootstrap(
        lambda weights: (weights @ harm.sums) / (weights @ harm.weights), len(harm.sums), record.header["seed"]
    )
    budget = record.budget
    return {
        "harm": serialize(Interval(harm.value, estimate.ci_low, estimate.ci_high)),
        "baseline": baseline,
        "value": budget.changed(baseline, harm.value),
        "holds": harm.value <= limit,
        "shown": None if estimate.ci_high is None else estimate.ci_high <= limit,
        "kl": entry["kl"],
        "agreement": entry["agreement"],
    }


def _adopted(choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the choice that took the least of those that were applied: parts may cost other than in the model.

    It stayed within the budget on the half of the data that the plan was made on, and saves something. Where there
    is none, that is the plan.
    """
    saving = [
        choice
        for choice in choices
        if choice["within"] and (taken := choice["saves"]["measured"]) and (taken["high"] or math.inf) < 1
    ]
    return min(saving, key=lambda choice: float(choice["saves"]["measured"]["value"]), default=choices[0])


def _verdict(adopted: dict[str, Any]) -> Verdict:
    """Return whether a choice saves something inside the budget, as measured, or nothing should be changed."""
    held_out, taken = adopted["held_out"], adopted["saves"]["measured"]
    if held_out is not None and not held_out["holds"]:
        return "over budget"
    if taken is None and adopted["changes"]:
        return "not measured"
    saves = taken is not None and taken["high"] is not None and taken["high"] < 1
    return "saves" if saves else "keep"


def _groups(record: PlanRecord, precisions: Sequence[str]) -> list[dict[str, Any]]:
    problem = record.problem()
    return [
        {
            "name": group.name,
            "kind": group.kind,
            "layer": group.layer,
            "paths": list(group.paths),
            "parameters": group.parameters,
            "family": group.family,
            "precision": chosen,
            "harm": {
                name: None if np.isnan(problem.costs[place, option]) else float(problem.raw_mean(place, option))
                for option, name in enumerate(record.precisions)
            },
        }
        for place, (group, chosen) in enumerate(zip(record.groups, precisions, strict=True))
    ]


def _families(record: PlanRecord) -> list[dict[str, Any]]:
    """Return the price of a group of each family at each precision, and why there is none."""
    not_priced = {(item["family"], item["precision"]): item["reason"] for item in record.all("not_priced")}
    rows = []
    for family in dict.fromkeys(group.family for group in record.groups):
        groups = [group for group in record.groups if group.family == family]
        for precision in record.precisions:
            price = record.price(groups[0], precision)
            estimates = {} if price is None else {"energy_mj": price.interval("energy"), "time_us": price.time}
            half = None if price is None else price.energy.relative_half_width
            guards = [*price.guard, *(price.reasons if price.energy.mean is None else ())] if price else []
            quality, reasons = grade(half, price.energy.windows if price else 0, guards)
            rows.append(
                {
                    "family": family,
                    "kind": groups[0].kind,
                    "groups": len(groups),
                    "precision": precision,
                    **{
                        name: None
                        if (one := estimates.get(name)) is None or one.mean is None
                        else serialize(Interval(one.mean, one.low, one.high))
                        for name in ("energy_mj", "time_us")
                    },
                    "bytes": record.priced_bytes.get((family, precision)),
                    "quality": quality,
                    "reasons": [
                        *([not_priced[family, precision]] if (family, precision) in not_priced else []),
                        *reasons,
                    ],
                }
            )
    return rows


def _front(record: PlanRecord, factor: float) -> list[dict[str, Any]]:
    """Return the efficient choices, from the model as it is to the least cost."""
    problem = record.problem()
    choices = np.unique(np.concatenate([problem.own[None], front(problem)[0]]), axis=0)
    choices = choices[np.argsort([problem.harm(choice) for choice in choices], kind="stable")]
    kept = np.unique(np.linspace(0, len(choices) - 1, MOST_ON_FRONT).round().astype(int))
    points = []
    for choice in choices[kept]:
        precisions = [record.precisions[option] for option in choice]
        predicted, expected = record.predicted(precisions), _expected(record, precisions)
        points.append(
            {
                "harm": factor * problem.harm(choice),
                "energy": None if predicted is None else predicted.value,
                "saves": None if expected is None else expected["value"],
            }
        )
    return points


def _nearest(record: PlanRecord, chosen: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the narrowest budget in which something saves energy, and how much; None where nothing does."""
    problem = replace(record.problem(), factor=chosen["factor"])
    cheaper = np.argwhere(problem.costs < problem.costs[:, :1])
    if not len(cheaper):
        return None
    choices = np.tile(problem.own, (len(cheaper), 1))
    choices[np.arange(len(cheaper)), cheaper[:, 0]] = cheaper[:, 1]  # one group each
    bounds = problem.bounds(choices)
    least = int(bounds.argmin())
    precisions = [record.precisions[option] for option in choices[least]]
    budget = record.budget.widened(record.header["baseline"], float(bounds[least]))
    return {"budget": str(budget), "saves": _expected(record, precisions)}


def _whole(record: PlanRecord) -> dict[str, Any] | None:
    model = record.model
    if model is None or model.energy.mean is None or model.time.mean is None:
        return None
    return {
        "energy_mj": serialize(Interval(model.energy.mean, model.energy.low, model.energy.high)),
        "time_us": serialize(Interval(model.time.mean, model.time.low, model.time.high)),
        "host_bound": model.host_bound,
    }
