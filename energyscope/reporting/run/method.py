"""How the numbers came about and on what: settings, sensor, model, device, versions, and the command to copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from energyscope import format as fmt
from energyscope.intervals import finite
from energyscope.reasons import words
from energyscope.reporting.run.host import how_read
from energyscope.reporting.run.report import EXECUTIONS, RUN, Report
from energyscope.reporting.section import Content
from energyscope.reporting.table import Column, Table
from energyscope.runs.method import changes_since, method_of, passes_of

_PARTS = ("model", "workload", "device", "sensor", "settings", "environment")
_UNITS = (("_bytes", "bytes"), ("_mj", "mJ"), ("_us", "us"), ("_s", "s"), ("_w", "W"))
_MOST = 160  # characters of a value that is shown

_UNFINISHED = {"interrupted": "was interrupted", "failed": "failed", "running": "has not finished"}


@RUN.section(9, "method", "Method and environment")
def section(report: Report) -> Content | None:
    """Return everything that run.json says of how and on what the run was made."""
    columns = [Column("part", "Part"), Column("name", "What"), Column("value", "Value")]
    rows = [
        {"part": part, "name": name, "value": value}
        for part in _PARTS
        for name, value in _facts(report.part(part))
    ]
    table = Table(columns, rows, "Settings, sensor, model, device and versions")
    executions = [EXECUTIONS.get(workload.execution, workload.execution) for workload in report.workloads]
    data = {
        "command": report.document.get("command"),
        "modelled": report.modelled,
        "triggered": report.triggered,
        "in_model": any(workload.in_model for workload in report.workloads),
        "host": how_read(report),
        "executions": list(dict.fromkeys(executions)),
        "older": list(dict.fromkeys(text for text in _older(report) if text)),
        "stages": _stages(report),
    }
    return Content(data, tables={"settings": table})


def unfinished(report: Report) -> list[dict[str, Any]]:
    """Return the stages that were begun and not finished, with their reason and ``how`` that is said."""
    return [
        {**stage, "how": _UNFINISHED[stage["state"]]}
        for stage in _stages(report)
        if stage["state"] in _UNFINISHED and stage["stage"] != "report"
    ]


def left_out(report: Report) -> list[dict[str, Any]]:
    """Return the stages that were asked for and could not begin, with their reason and ``how`` that is said."""
    asked = report.part("settings").get("stages") or []
    return [
        {**stage, "how": "was skipped"}
        for stage in _stages(report)
        if stage["stage"] in asked and stage["state"] == "skipped"
    ]


def _stages(report: Report) -> list[dict[str, Any]]:
    stages = report.part("stages")
    return [
        {"stage": name, **{key: (entry or {}).get(key) for key in ("state", "reason", "seconds")}}
        for name, entry in stages.items()
    ]


def _facts(part: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every value of a part of run.json, in words; long and empty ones are left out."""
    for key, value in part.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            if key == "device_map":
                places = Counter(map(str, value.values())).items()
                yield name, ", ".join(f"{fmt.count(count, 'module')} on {place}" for place, count in places)
            elif len(value) < 12:
                yield from _facts(value, f"{key} ")
        elif isinstance(value, list):
            if value and len(value) < 12 and not isinstance(value[0], Mapping):
                yield name, ", ".join(words(item) for item in value)
        elif value not in {None, ""}:
            ending, unit = next((pair for pair in _UNITS if key.endswith(pair[0])), ("", None))
            yield name[: len(name) - len(ending)], _text(value, unit)


def _text(value: object, unit: str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    number = None if isinstance(value, str) else finite(value)
    if number is None:
        text = words(value)
        return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."
    if unit is not None:
        return fmt.quantity(number, unit)
    return f"{number:,.0f}" if number == int(number) and abs(number) < 1e15 else fmt.number(number)


def _older(report: Report) -> Iterator[str | None]:
    """Yield what was corrected in the method since the run's passes were measured."""
    passes = [passes_of(report.document, "prefill")] if report.run.benchmark else []
    passes += [(workload.phase, workload.execution) for workload in report.workloads]
    for phase, execution in passes:
        yield changes_since(method_of(report.document, phase, execution), phase, execution)
