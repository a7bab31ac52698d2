"""The plan: which linears at which precision, what was expected of it, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from energyscope.grouping import group_by
from energyscope.intervals import Interval, finite, from_entry
from energyscope.reporting.charts.grid import tiles
from energyscope.reporting.charts.plane import Axis, plane
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.page import sentence
from energyscope.reporting.run.report import RUN, Report, precision_name
from energyscope.reporting.section import Content, Figure
from energyscope.reporting.table import Column, Row, Table
from energyscope.runs.schema import PLAN_JSON

PLAN = "plan"
_ALL = "all "
_FRONT = "best predicted"
_COSTLIEST = -1.0  # energy saved, of what still has room on a chart
_UNITS = {"perplexity": "", "loss": "", "kl": "", "accuracy": "share"}
_NAMES = {"kl": "KL divergence", "accuracy": "accuracy lost"}


@RUN.section(4, "plan", "Plan", '--stages plan --budget "..."')
def section(report: Report) -> Content | None:
    """Return the plan with what it was compared with; None where none was made."""
    document = report.run.plan
    if not document:
        return None
    choices = choices_table(report)
    tables = {
        "plan": choices,
        "plan-groups": groups_table(document),
        "plan-prices": prices_table(report),
        "plan-skipped": _left_out(document),
    }
    figures = [_front(document, choices), _layers(document)]
    return Content({**facts(report), "sentence": verdict(report), "file": PLAN_JSON}, figures, tables)


def verdict(report: Report) -> str:
    """Return in one sentence what a plan saves, or that nothing should be changed."""
    return sentence("run/plan.txt.j2", facts=facts(report))


def measured(report: Report) -> Interval | None:
    """Return what the model with the plan takes of what it takes as it is; None where that was not measured."""
    document = report.run.plan
    return from_entry(_adopted(document)["measured"]["energy"]) if document else None


def facts(report: Report) -> dict[str, Any]:
    """Return what a plan's sentences say: the verdict, the budget, and the plan's own measured figures."""
    document: Mapping[str, Any] = report.run.plan or {}
    plan = _adopted(document)
    counts = {name: number for name, number in plan["groups"].items() if name != document["precisions"][0]}
    held_out = plan.get("held_out") or {}
    energy = from_entry((plan.get("measured") or {}).get("energy"))
    return {
        "verdict": document["verdict"],
        "own": precision_name(document["precisions"][0]),
        "budget": document["budget"]["text"],
        "metric": document["budget"]["metric"],
        "groups": len(document["groups"]),
        "precisions": [f"{precision_name(name)} for {number}" for name, number in counts.items()],
        "changed": sum(counts.values()),
        "saved": _less(energy),
        "predicted": _less(from_entry((plan.get("predicted") or {}).get("energy"))),
        "change": _relative_change(document, held_out),
        "shown": held_out.get("shown"),
        "modelled": bool(document.get("modelled")),
        "execution": document.get("execution"),
        "examples": document.get("examples") or [0, 0],
        "random": document.get("weights") == "random",
        "name": "The plan" if plan["name"] == PLAN else choice_name(plan["name"]),
        "is_plan": plan["name"] == PLAN,
        "nearest": (document.get("nearest") or {}).get("budget"),
        "nearest_saves": _less(from_entry((document.get("nearest") or {}).get("energy"))),
        "notes": document.get("notes") or [],
    }


def _less(ratio: Interval | None) -> Interval | None:
    if ratio is None:
        return None
    low, high = (None if limit is None else 1 - limit for limit in (ratio.high, ratio.low))
    return Interval(1 - ratio.value, low, high)


def _relative_change(document: Mapping[str, Any], held_out: Mapping[str, Any]) -> float | None:
    """Return by how much the budget's metric changed on the second half: relative where the budget is."""
    baseline, value = finite(held_out.get("baseline")), finite(held_out.get("value"))
    if value is None or baseline is None:
        return None
    return value / baseline - 1 if document["budget"]["relative"] else value - baseline


def _adopted(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice that took the least of those that were applied and measured."""
    adopted: Mapping[str, Any] = next(one for one in document["choices"] if one["name"] == document["adopted"])
    return adopted


def choice_name(name: str) -> str:
    """Return a choice's name as it is read: ``all int8`` as ``INT8 everywhere``."""
    if name.startswith(_ALL):
        return f"{precision_name(name.removeprefix(_ALL))} everywhere"
    return name[:1].upper() + name[1:]


def choices_table(report: Report) -> Table:
    """Return every whole choice that was tried, the plan first."""
    document: Mapping[str, Any] = report.run.plan or {}
    metric = document["budget"]["metric"]
    unit = _UNITS[metric]
    saved = "Energy saved (MODELLED)" if document.get("modelled") else "Energy saved"
    columns = [
        Column("name", "Choice"),
        Column("measured", f"{saved}", "share", "of the whole model, in turn with it; 95 % interval"),
        Column("predicted", "Predicted", "share", "the sum of what its linears save", rank=1),
        Column("time", "Time", "ratio", "of the whole model with it, against as it is", rank=3),
        Column("memory", "Memory", "ratio", "of the weights", rank=2),
        Column("harm", _harm_title(metric), unit, "on the half of the data that the plan is made on", rank=2),
        Column("held_out", "On the other half", unit, "the same on data that the plan was not made on", rank=1),
        Column("kl", "KL", "", "divergence of the outputs on the other half, nats", rank=4),
        Column("within", "In the budget", hint="with 95 % confidence; of what was applied, on the other half"),
    ]
    return Table(columns, [_choice_row(choice) for choice in document["choices"]], "The plan, and other choices")


def _harm_title(metric: str) -> str:
    return {"kl": "KL divergence", "accuracy": "Accuracy lost"}.get(metric, "Loss added (nats)")


def _choice_row(choice: Mapping[str, Any]) -> Row:
    held_out = choice.get("held_out") or {}
    measured = choice.get("measured") or {}
    within = choice.get("within") if not held_out else held_out.get("holds")
    energy = _less(from_entry(measured.get("energy")))
    predicted = _less(from_entry((choice.get("predicted") or {}).get("energy")))
    harm = choice.get("harm")
    return {
        "name": choice_name(str(choice["name"])),
        "series": _series(str(choice["name"])),
        "measured": energy,
        "predicted": predicted,
        "time": from_entry(measured.get("time")),
        "memory": choice.get("memory"),
        "harm": None if harm is None else Interval(float(harm)),
        "held_out": from_entry(held_out.get("harm")),
        "kl": held_out.get("kl"),
        "within": None if within is None else "yes" if within else "no",
        "saved": energy or predicted,
        "noisy": energy is None,
    }


def _series(name: str) -> str:
    return "the plan" if name == PLAN else "one precision" if name.startswith(_ALL) else "another mixture"


def groups_table(document: Mapping[str, Any]) -> Table:
    """Return the precision of every group, with what each other one would do."""
    names = document["precisions"][1:]
    columns = [
        Column("name", "Linears", "code"),
        Column("kind", "Kind"),
        Column("precision", "Precision"),
        *(Column(f"harm_{name}", f"{precision_name(name)} adds", "", "harm by itself", rank=1) for name in names),
    ]
    rows = [
        {
            "name": group["name"],
            "component": group["paths"][0],
            "kind": group["kind"],
            "layer": group["layer"],
            "precision": precision_name(group["precision"]),
            **{f"harm_{name}": (group.get("harm") or {}).get(name) for name in names},
        }
        for group in document["groups"]
    ]
    return Table(columns, rows, "The precision of each group of linears")


def prices_table(report: Report) -> Table:
    """Return what a group of each family takes at each precision."""
    document: Mapping[str, Any] = report.run.plan or {}
    columns = [
        Column("kind", "Kind"),
        Column("precision", "Precision"),
        Column("energy", report.energy_title, "mJ", "of one group, in one pass or step"),
        Column("time", "Time", "us"),
        Column("bytes", "Weights", "bytes", rank=2),
        Column("groups", "Groups", "count", rank=2),
        Column("grade", "Grade", "grade", rank=1),
        Column("reasons", "Reasons", "reasons", rank=3),
    ]
    rows = [
        {
            "kind": family["kind"],
            "precision": precision_name(family["precision"]),
            "energy": from_entry(family.get("energy_mj")),
            "time": from_entry(family.get("time_us")),
            "bytes": family.get("bytes"),
            "groups": family["groups"],
            "grade": family.get("quality"),
            "reasons": "; ".join(family.get("reasons") or []),
        }
        for family in document["families"]
    ]
    return Table(columns, rows, "What a group takes at each precision")


def _left_out(document: Mapping[str, Any]) -> Table:
    columns = [Column("precision", "Not possible"), Column("reason", "Why", "reasons")]
    rows = [{**entry, "precision": precision_name(entry["precision"])} for entry in document.get("left_out") or []]
    return Table(columns, rows, "Precisions that are not possible here")


def _front(document: Mapping[str, Any], choices: Table) -> Figure:
    """Return choices in the plane of harm and energy saved, the efficient ones as a line, the budget dashed."""
    metric, limit = document["budget"]["metric"], float(document["budget"]["harm"])
    columns = [
        Column("name", "Choice"),
        Column("harm", _harm_title(metric), _UNITS[metric]),
        Column("saved", choices.column("measured").title, "share"),
    ]
    known = [row for row in choices.rows if row["saved"] is not None and row["harm"] is not None]
    points = Table(columns, [row for row in known if row["saved"].value > _COSTLIEST])
    line = Table(
        columns,
        [
            {"name": "", "series": _FRONT, "line": _FRONT, "harm": point["harm"], "saved": 1 - point["energy"]}
            for point in document["front"]
            if point["energy"] is not None
        ],
    )
    chart = plane(
        points,
        Axis("harm", log=False, guides=[limit]),
        Axis("saved", "Energy saved", log=False, guides=[0.0]),
        series="series",
        name="name",
        lines=line,
    )
    caption = (
        "Hollow: predicted only. Dashed: the budget, and nothing saved. What costs twice as much is left out."
    )
    return Figure.of("plan-front", "Energy saved against what it does to predictions", chart, points, caption)


def _layers(document: Mapping[str, Any]) -> Figure:
    """Return the chosen precisions by kind and layer."""
    rows = [
        {
            "kind": group["kind"],
            "part": title_of(group["kind"]),
            "layer": group["layer"],
            "component": group["paths"][0],
            "precision": precision_name(group["precision"]),
        }
        for group in document["groups"]
        if group["layer"] is not None
    ]
    cells = [same[0] for same in group_by(rows, lambda row: (row["part"], row["layer"])).values()]
    columns = [Column("part", "Kind"), Column("layer", "Layer", "count"), Column("precision", "Precision")]
    table = Table(columns, cells, "Precisions by layer")
    chart = tiles(table, "part", "layer", "precision", title="Layer")
    caption = "The precision that the plan gives to the linears of each kind in each layer."
    views = [chart] if cells else []
    figure = Figure.of("plan-layers", "The plan by layer", chart, table, caption)
    return figure if views else Figure("plan-layers", "The plan by layer", [])
