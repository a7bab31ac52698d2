"""How it scales: the law of energy against work that the run is a cell of, in a sweep or a set of runs."""

from __future__ import annotations

import math
import os
from collections.abc import Container, Mapping
from typing import Any

from energyscope.intervals import finite, from_entry
from energyscope.reporting.charts.plane import Axis, plane
from energyscope.reporting.run.report import DECODE, RUN, Report, execution_name, precision_name
from energyscope.reporting.section import Content, Figure
from energyscope.reporting.table import Column, Table
from energyscope.runs.laws import LawsOfRun, is_of_run, laws_of_run
from energyscope.runs.schema import REPORT_FILE

_SAME = 1e-6  # relative, of one energy in two files
_CURVE = 40  # points on a line of a law


@RUN.section(5, "scaling", "Scaling")
def section(report: Report) -> Content | None:
    """Return the laws of the nearest set that joins the run; None where none does."""
    sets = laws_of_run(report.run.path) if report.workloads else []
    for laws in sets:
        law = next((law for document in laws.document["groups"] if (law := _law(document, laws, report))), None)
        if law is not None:
            caption = "Points: measured; line: E0 + k x FLOPs; ringed: this run."
            figure = Figure.of("scaling-law", "Energy against work", law["chart"], law["table"], caption)
            tables = {"scaling": law["table"], "scaling-kinds": law["kinds"]}
            return Content({"set": _link(laws, report), "law": law}, [figure], tables)
    return Content({"set": _link(sets[0], report), "law": None}) if sets else None


def _link(laws: LawsOfRun, report: Report) -> dict[str, Any]:
    page = laws.folder / REPORT_FILE
    link = os.path.relpath(page, report.run.path.resolve()).replace(os.sep, "/") if page.is_file() else None
    return {"name": str(laws.document.get("name") or laws.folder.name), "link": link}


def _law(group: Mapping[str, Any], laws: LawsOfRun, report: Report) -> dict[str, Any] | None:
    """Return the law of a group of cells that holds this run with the energies that it has now; else None."""
    place = report.run.path.resolve()
    own = {(cell["batch_size"], cell["tokens"]) for cell in group["cells"] if is_of_run(cell, laws.folder, place)}
    whole = next((subject for subject in group["subjects"] if subject.get("role") == "whole"), None)
    if not own or whole is None:
        return None
    counted = str(laws.document.get("flops") or "nominal")
    table, law = _cells(whole, str(group.get("phase")), own, report, counted), whole.get("two_term") or {}
    if not any(row["own"] for row in table.rows):
        return None
    fixed, slope = from_entry(law.get("fixed_mj")), from_entry(law.get("marginal_pj_per_flop"))
    lines = _line(table, fixed.value, slope.value) if fixed and slope else None
    errors = (error for error in whole.get("held_out") or [] if error.get("law") == "two-term")
    held_out: Mapping[str, Any] = next(errors, {})
    setting = precision_name(group.get("precision")), execution_name(group.get("execution"))
    return {
        "label": ", ".join(map(str, (group.get("model"), group.get("phase"), *setting))),
        "fixed": fixed,
        "slope": slope,
        "cells": len(table.rows),
        "held_out": finite(held_out.get("median")),
        "reason": law.get("reason"),
        "table": table,
        "kinds": _kinds(group),
        "chart": plane(
            table, Axis("flops"), Axis("energy"), series="series", name="name", lines=lines, height=250
        ),
    }


def _cells(
    whole: Mapping[str, Any], phase: str, shapes: Container[tuple[int, int]], report: Report, counted: str
) -> Table:
    """Return the measured points of a law: the run's own are of its ``shapes`` and hold the energy it has now."""
    energies = [workload.energy.value for workload in report.every_workload if workload.energy]
    rows = []
    for point in whole.get("points") or []:
        energy, flops = from_entry(point.get("energy_mj")), finite(point.get("flops"))
        if energy is None or not flops:
            continue
        same = any(math.isclose(energy.value, other, rel_tol=_SAME) for other in energies)
        own = (point["batch_size"], point["tokens"]) in shapes and same
        shape = f"{point['batch_size']} x {point['tokens']:,}" + (" in the cache" if phase == DECODE else "")
        names = {"series": "this run", "name": "this run"} if own else {"series": "other cells"}
        rows.append({"cell": shape, "flops": flops, "energy": energy, "own": own, **names})
    columns = [
        Column("cell", "Batch x tokens"),
        Column("flops", f"FLOPs, {counted}", "FLOP"),
        Column("energy", "Energy", "mJ"),
    ]
    return Table(columns, rows, "Cells of the law")


def _line(table: Table, fixed: float, slope: float) -> Table:
    """Return the law between the least and the most work, evenly on a logarithmic axis."""
    low, high = min(row["flops"] for row in table.rows), max(row["flops"] for row in table.rows)
    work = [low * (high / low) ** (step / _CURVE) for step in range(_CURVE + 1)]
    rows = [{"flops": flops, "energy": fixed + slope * flops * 1e-9, "series": "other cells"} for flops in work]
    return Table(table.columns, [row for row in rows if row["energy"] > 0])


def _kinds(group: Mapping[str, Any]) -> Table:
    rows = [
        {
            "subject": subject.get("subject"),
            "kind": subject.get("subject"),
            "fixed": from_entry(law.get("fixed_mj")),
            "slope": from_entry(law.get("marginal_pj_per_flop")),
            "r2": finite(law.get("r2")),
            "reason": law.get("reason"),
        }
        for subject in group["subjects"]
        for law in [subject.get("two_term") or {}]
    ]
    columns = [
        Column("subject", "Kind"),
        Column("fixed", "Fixed energy", "mJ", "E0"),
        Column("slope", "Per further FLOP", "pJ", "k"),
        Column("r2", "R\u00b2", ""),
        Column("reason", "Why not", "reasons"),
    ]
    return Table(columns, rows, "Laws by kind")
