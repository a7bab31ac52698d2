"""The plan: which linears at which precision, what was expected of it, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from energyscope.changes.savings import Lever, changes, levers
from energyscope.grouping import group_by
from energyscope.intervals import Interval, finite, from_entry, less
from energyscope.reporting.charts.grid import tiles
from energyscope.reporting.charts.plane import Axis, plane
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.page import sentence
from energyscope.reporting.run.changes import capital, change_name, confidence
from energyscope.reporting.run.plan_names import (
    ALL,
    OBJECTIVES,
    PLAN,
    choice_name,
    graded,
    harm_title,
    named,
    of_objective,
    saved_title,
    workload_name,
)
from energyscope.reporting.run.power_limit import lower_limit_sentence
from energyscope.reporting.run.report import RUN, Report, precision_name
from energyscope.reporting.section import Content, Figure
from energyscope.reporting.table import Column, Row, Table
from energyscope.runs.schema import PLAN_JSON

_MEASURED = {
    "energy": "of the whole model, in turn with it; 95 % interval",
    "time": "of the whole model, in turn with it; 95 % interval",
    "memory": "of the bytes of all weights",
}
_FRONT = "front"
_COSTLIEST = -1.0  # saved, of what still has room on a chart
_UNITS = {"perplexity": "", "loss": "", "kl": "", "accuracy": "share"}
_NAMES = {"kl": "KL divergence", "accuracy": "accuracy lost"}


@RUN.section(4, "plan", "Plan", '--stages plan --budget "..."')
def section(report: Report) -> Content | None:
    """Return the plan of each workload with what it was compared with; None where none was made."""
    document = report.run.plan
    if not document:
        return None
    plans = [ShownPlan(report, document, workload) for workload in document["workloads"]]
    tables = {"plan-elsewhere": elsewhere_table(document)}
    figures = []
    for plan in plans:
        tables |= {f"plan{plan.suffix}": plan.choices(), f"plan-groups{plan.suffix}": plan.groups()}
        tables |= {f"plan-prices{plan.suffix}": plan.prices()}
        figures += [plan.front(), plan.layers()]
    tables["plan-levers"] = levers_table(report)
    tables["plan-skipped"] = _left_out(document)
    data = {
        "plans": [{**plan.facts(), "sentence": plan.verdict(), "suffix": plan.suffix} for plan in plans],
        "examples": document["examples"],
        "random": document["weights"] == "random",
        "own": precision_name(document["precisions"][0]),
        "file": PLAN_JSON,
        "power_limit": "" if changes(report.run) else lower_limit_sentence(report),
    }
    return Content(data, figures, tables)


def first_plan(report: Report) -> ShownPlan | None:
    """Return the plan of the first workload; None where none was made."""
    document = report.run.plan
    return ShownPlan(report, document, document["workloads"][0]) if document else None


class ShownPlan:
    """The plan of one workload, as it is shown."""

    def __init__(self, report: Report, document: Mapping[str, Any], workload: Mapping[str, Any]) -> None:
        self.report = report
        self.document = document
        self.workload = workload
        first = document["workloads"][0]["key"]
        self.suffix = "" if workload["key"] == first else f"-{workload['key'].replace(':', '-')}"
        self.adopted = next(one for one in workload["choices"] if one["name"] == workload["adopted"])

    def verdict(self) -> str:
        """Return in one sentence what a plan saves, or that nothing should be changed."""
        return sentence("run/plan.txt.j2", facts={**self.facts(), "several": False})  # a heading names it

    @property
    def measured(self) -> Interval | None:
        """The energy that the model with the adopted choice takes, of what it takes as it is."""
        return from_entry(self.adopted["measured"]["energy"])

    def compared(self) -> Iterator[Interval]:
        """Yield the energies that the model took with each choice that was applied, of what it takes as it is."""
        measured = (choice.get("measured") or {} for choice in self.workload["choices"])
        return (energy for entry in measured if (energy := from_entry(entry.get("energy"))) is not None)

    def _holding(self) -> Mapping[str, Any] | None:
        """Return what saves most of what was applied, not for comparison alone, and held on the second half."""
        saving = [
            (taken.value, choice)
            for choice in self.workload["choices"]
            if choice["within"] and not choice.get("comparison") and (choice.get("held_out") or {}).get("holds")
            if (taken := from_entry(choice["saves"]["measured"])) and taken.high is not None and taken.high < 1
        ]
        return min(saving, key=lambda pair: pair[0])[1] if saving else None

    def facts(self) -> dict[str, Any]:
        """Return what its sentences say: the verdict, the budget, and the adopted choice's own figures."""
        document, adopted = self.document, self.adopted
        own, *_ = document["precisions"]
        counts = {name: number for name, number in adopted["groups"].items() if name != own}
        holding = self._holding() if self.workload["verdict"] == "over budget" else None
        held_out, nearest = adopted.get("held_out") or {}, self.workload.get("nearest") or {}
        return {
            "workload": workload_name(self.workload),
            "several": len(document["workloads"]) > 1,
            "verdict": self.workload["verdict"],
            "own": precision_name(own),
            "budget": document["budget"]["text"],
            "metric": document["budget"]["metric"],
            "groups": len(self.workload["groups"]),
            "precisions": [f"{precision_name(name)} for {number}" for name, number in counts.items()],
            "changed": sum(counts.values()),
            "saved": less(from_entry(adopted["saves"]["measured"])),
            "predicted": less(from_entry(adopted["saves"]["predicted"])),
            "energy": None if document["objective"] == "energy" else less(self.measured),
            "what": OBJECTIVES[document["objective"]],
            "objective": document["objective"],
            "change": _relative_change(document, held_out),
            "shown": held_out.get("shown"),
            "modelled": bool(document.get("modelled")),
            "name": named(adopted["name"]),
            "is_plan": adopted["name"] == PLAN,
            "holds": named(holding["name"]) if holding else None,
            "holds_saved": less(from_entry(holding["saves"]["measured"])) if holding else None,
            "nearest": nearest.get("budget"),
            "nearest_saves": less(from_entry(nearest.get("saves"))),
            "percent": document["budget"]["relative"] or document["budget"]["metric"] == "accuracy",
            "notes": self.workload.get("notes") or [],
        }

    def choices(self) -> Table:
        """Return every whole choice that was tried, the plan first."""
        metric = self.document["budget"]["metric"]
        unit = _UNITS[metric]
        objective = self.document["objective"]
        energy = Column("energy", saved_title(self.document, "energy"), "share", "of the whole model", rank=1)
        harm = harm_title(metric)
        columns = [
            Column("name", "Choice"),
            Column("measured", saved_title(self.document), "share", _MEASURED[objective]),
            Column("predicted", "Predicted", "share", "the sum of what its linears save", rank=1),
            Column("grade", "Grade", "grade", f"of the {graded(objective)}", rank=2),
            Column("reasons", "Reasons", "reasons", rank=4),
            *([] if objective == "energy" else [energy]),
            Column("time", "Time", "ratio", "of the whole model with it, against as it is", rank=3),
            Column("memory", "Memory", "ratio", "of the weights", rank=2),
            Column("harm", harm, unit, "on the half of the data that the plan is made on", rank=2),
            Column("held_out", "On the other half", unit, "the same on data that it was not made on", rank=1),
            Column("within", "In the budget", hint="with 95 % confidence; of what was applied, on the other half"),
        ]
        return Table(
            columns,
            [_choice_row(one, objective) for one in self.workload["choices"]],
            self._title("The plan, and other choices"),
        )

    def _title(self, words: str) -> str:
        several = len(self.document["workloads"]) > 1
        return f"{words}: {workload_name(self.workload)}" if several else words

    def groups(self) -> Table:
        """Return the precision of every group, with what each other one would do."""
        names = self.document["precisions"][1:]
        columns = [
            Column("name", "Linears", "code"),
            Column("kind", "Kind"),
            Column("precision", "Precision"),
            *(
                Column(f"harm_{name}", f"{precision_name(name)} adds", "", "harm by itself", rank=1)
                for name in names
            ),
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
            for group in self.workload["groups"]
        ]
        return Table(columns, rows, self._title("The precision of each group of linears"))

    def prices(self) -> Table:
        """Return what a group of each family takes at each precision."""
        columns = [
            Column("kind", "Kind"),
            Column("precision", "Precision"),
            Column("energy", self.report.energy_title, "mJ", "of one group, in one pass or step"),
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
            for family in self.workload["families"]
        ]
        return Table(columns, rows, self._title("What a group takes at each precision"))

    def front(self) -> Figure:
        """Return choices in the plane of harm and energy saved, the efficient ones as a line."""
        choices = self.choices()
        metric, limit = self.document["budget"]["metric"], float(self.document["budget"]["harm"])
        columns = [
            Column("name", "Choice"),
            Column("harm", harm_title(metric), _UNITS[metric]),
            Column("saved", choices.column("measured").title, "share"),
        ]
        known = [row for row in choices.rows if row["saved"] is not None and row["harm"] is not None]
        points = Table(columns, [row for row in known if row["saved"].value > _COSTLIEST])
        efficient = [
            {"name": "", "series": _FRONT, "line": _FRONT, "harm": point["harm"], "saved": 1 - taken}
            for point in self.workload["front"]
            if (taken := of_objective(self.document, point)) is not None
        ]
        what = f"{OBJECTIVES[self.document['objective']].capitalize()} saved"
        chart = plane(
            points,
            Axis("harm", log=False, guides=[limit]),
            Axis("saved", what, log=False, guides=[0.0]),
            series="series",
            name="name",
            lines=Table(columns, efficient),
        )
        caption = (
            "Line: best predicted. Hollow: not applied. Dashed: the budget. What costs twice as much is left out."
        )
        title = f"{what} against what it does to predictions"
        return Figure.of(f"plan-front{self.suffix}", title, chart, points, caption)

    def layers(self) -> Figure:
        """Return the chosen precisions by kind and layer."""
        rows = [
            {
                "kind": group["kind"],
                "part": title_of(group["kind"]),
                "layer": group["layer"],
                "component": group["paths"][0],
                "precision": precision_name(group["precision"]),
            }
            for group in self.workload["groups"]
            if group["layer"] is not None
        ]
        cells = [same[0] for same in group_by(rows, lambda row: (row["part"], row["layer"])).values()]
        columns = [Column("part", "Kind"), Column("layer", "Layer", "count"), Column("precision", "Precision")]
        table = Table(columns, cells, self._title("Precisions by layer"))
        title, caption = "The plan by layer", "The precision of the linears of each kind in each layer."
        name = f"plan-layers{self.suffix}"
        if not cells:
            return Figure(name, title, [])
        return Figure.of(name, title, tiles(table, "part", "layer", "precision", title="Layer"), table, caption)


def _relative_change(document: Mapping[str, Any], held_out: Mapping[str, Any]) -> float | None:
    """Return by how much the budget's metric changed on the second half: relative where the budget is."""
    baseline, value = finite(held_out.get("baseline")), finite(held_out.get("value"))
    if value is None or baseline is None:
        return None
    return value / baseline - 1 if document["budget"]["relative"] else value - baseline


def _choice_row(choice: Mapping[str, Any], objective: str) -> Row:
    held_out = choice.get("held_out") or {}
    measured = choice.get("measured") or {}
    within = choice.get("within") if not held_out else held_out.get("holds")
    saves = choice.get("saves") or {}
    saved, predicted = (less(from_entry(saves.get(key))) for key in ("measured", "predicted"))
    harm = choice.get("harm")
    return {
        "name": choice_name(str(choice["name"])),
        "series": _series(str(choice["name"])),
        "measured": saved,
        "predicted": predicted,
        "grade": choice.get("quality") if measured.get(graded(objective)) else None,
        "reasons": "; ".join(choice.get("reasons") or []) if measured.get(graded(objective)) else "",
        "energy": less(from_entry(measured.get("energy"))),
        "time": from_entry(measured.get("time")),
        "memory": from_entry((choice.get("measured") or {}).get("memory")),
        "harm": None if harm is None else Interval(float(harm)),
        "held_out": from_entry(held_out.get("harm")),
        "within": None if within is None else "yes" if within else "no",
        "saved": saved or predicted,
        "noisy": saved is None,
    }


def _series(name: str) -> str:
    return "plan" if name == PLAN else "single" if name.startswith(ALL) else "mixture"


def _left_out(document: Mapping[str, Any]) -> Table:
    columns = [Column("precision", "Not possible"), Column("reason", "Why", "reasons")]
    rows = [{**entry, "precision": precision_name(entry["precision"])} for entry in document.get("left_out") or []]
    return Table(columns, rows, "Precisions that are not possible here")


def levers_table(report: Report) -> Table:
    """Return what else saves energy with the plan applied; empty where that was not measured."""
    measured = levers(report.run)
    columns = [
        Column("change", "With the plan"),
        Column("phase", "Phase"),
        Column("saved", "Energy saved", "share", "of the same work, against the plan alone"),
        Column("alone", "Without the plan", "share", "energy saved, against the model as it is", rank=3),
        Column("time", "Time", "ratio", rank=2),
        Column("confidence", "Confidence", hint="clear: the interval excludes no change", rank=1),
        Column("use", "Use", hint="yes: it saves energy with the plan too"),
    ]
    rows = [
        {
            "change": capital(change_name(lever.change)),
            "phase": lever.change.phase,
            "saved": lever.change.saved,
            "alone": lever.alone.saved if lever.alone else None,
            "time": lever.change.time,
            "confidence": confidence(lever.change),
            "use": "yes" if lever.change.verdict == "saves" else "no",
        }
        for lever in measured
    ]
    notes = [sentence("run/dropped.txt.j2", **_named_lever(lever)) for lever in measured if lever.dropped]
    return Table(columns, rows, "What else saves energy, with the plan applied", notes)


def _named_lever(lever: Lever) -> dict[str, Any]:
    change = lever.change
    return {"name": capital(change_name(change)), "phase": change.phase, "change": change, "alone": lever.alone}


def elsewhere_table(document: Mapping[str, Any]) -> Table:
    """Return what the plan of each workload is expected to save at every workload."""
    names = {workload["key"]: workload_name(workload) for workload in document["workloads"]}
    objective = document["objective"]
    what = "" if objective == "energy" else f" {objective}"
    energy = [] if objective == "energy" else list(names.items())
    columns = [
        Column("plan", "Plan for"),
        *(Column(_key(at), f"saves{what}: {name}", "share", "predicted") for at, name in names.items()),
        *(
            Column(f"{_key(at)}_energy", f"saves energy: {name}", "share", "predicted", rank=2)
            for at, name in energy
        ),
    ]
    rows: list[Row] = [{"plan": name} for name in names.values()]
    by_plan = dict(zip(names, rows, strict=True))
    for entry in document["elsewhere"]:
        by_plan[entry["plan"]][_key(entry["at"])] = less(from_entry(of_objective(document, entry)))
        by_plan[entry["plan"]][f"{_key(entry['at'])}_energy"] = less(from_entry(entry["energy"]))
    return Table(
        columns, rows if document["elsewhere"] else [], "What one plan saves at other workloads, predicted"
    )


def _key(workload: str) -> str:
    return workload.replace(":", "_")
