"""Every number of every component in one table, and the run's files to download."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from energyscope.reasons import reason
from energyscope.reporting.run.parts import LIMITED_HINT
from energyscope.reporting.run.report import RUN, Report
from energyscope.reporting.section import Content
from energyscope.reporting.table import Column, Row, Table
from energyscope.runs import schema
from energyscope.runs.files import own_file
from energyscope.runs.tree import Node

_MOST_BYTES = 1_000_000  # in the page, of all files together
_FILES = (
    (schema.RUN_FILE, "settings, device and state"),
    (schema.ENERGY_FILE, "energy of every component"),
    (schema.BENCHMARK_FILE, "every trial of the benchmark"),
    (schema.MERGED_FILE, "energy and impact in one table"),
    (schema.IMPACT_FILE, "impact of every change"),
    (schema.GENERATION_JSON, "the traced generation"),
    (schema.ALTERNATIVES_JSON, "the alternatives"),
    (schema.PLAN_JSON, "the plan"),
)
_PACE = {"True": "host", "False": "device"}


@dataclass(frozen=True)
class Download:
    """A file of the run as its page carries it: zlib in base64, or None where the page has no room for it."""

    name: str
    title: str
    packed: str | None

    @property
    def formats(self) -> tuple[str, ...]:
        """The forms in which it can be saved; a table's own is CSV."""
        return ("csv", "json") if Path(self.name).suffix == ".csv" else ("json",)


@RUN.section(6, "table", "Table")
def section(report: Report) -> Content | None:
    """Return the table of all components, and the files."""
    files = downloads(report.run.path)
    table = component_table(report)
    if not table and not files:
        return None
    return Content({"downloads": files}, tables={"energy": table} if table else {})


def component_table(report: Report) -> Table:
    """Return a row for each measurement: one that stands for several layers takes one row."""
    columns = [
        Column("name", "Component", "code"),
        Column("kind", "Kind", rank=3),
        Column("workload", "Workload", rank=2),
        Column("layer", "Layer", "count", rank=9),
        *_judged_columns(report),
        Column("idle", "Idle", "mJ", "idle power x time", rank=5),
        Column("time", "Time", "us", rank=6),
        Column("time_share", "Share of time", "share", "of the model's", rank=9),
        Column("power", "Power", "W", rank=7),
        Column("glue", "Overhead", "mJ", "what it does besides calling its parts", rank=9),
        Column("unexplained", "Unexplained", "mJ", rank=9),
        Column("flops", "FLOPs", "FLOP", "nominal: attention over the full square", rank=9),
        Column("executed_flops", "Executed FLOPs", "FLOP", "without what causal kernels skip", rank=9),
        Column("bytes", "Bytes", "bytes", rank=9),
        Column("pj_per_flop", "pJ/FLOP", "", "for each executed FLOP", rank=9),
        Column("intensity", "FLOP/byte", "", rank=9),
        Column("pace", "Pace", hint="what sets it: the device, or launching from the host", rank=9),
        Column("limited_by", "Limited by", hint=LIMITED_HINT, rank=8),
        Column("sm", "SMs", "share", "of which had work while it was replayed", rank=9),
        Column("tensor", "Tensor cores", "share", "of their peak", rank=9),
        Column("cuda_cores", "CUDA cores", "share", "of the peak of the busiest of the other pipes", rank=9),
        Column("dram", "Memory", "share", "of its bandwidth", rank=9),
        Column("memory_power", "Memory power", "W", rank=9),
        *([] if report.by_work else [Column("grade", "Grade", "grade", rank=1)]),
        Column("reasons", "Reasons", "reasons", rank=8),
    ]
    several = len(report.every_workload) > 1
    rows = []
    for workload in report.every_workload:
        by_source: dict[str, list[Node]] = {}
        for node in workload.tree.nodes:
            by_source.setdefault(node.source, []).append(node)
        rows += [_row(source, nodes, workload.label if several else None) for source, nodes in by_source.items()]
    return Table(columns, rows, "Every component", notes_on_work(rows)).filled()


def _judged_columns(report: Report) -> list[Column]:
    """Return energy, work and their shares with grades: first what rows are judged by."""
    energy = Column("energy", report.energy_title, "mJ", "of one pass or step")
    share = Column("share", "Share", "share", "of the model", rank=1)
    share_grade = Column("share_grade", "Share's grade", "grade", rank=9)
    work = Column("work", "Work", "mJ", "beyond idle power x time", rank=4)
    work_share = Column("work_share", "Share", "share", "of the model's work", rank=1)
    work_grade = Column("work_grade", "Grade", "grade", "of the work", rank=1)
    if not report.by_work:
        eager = any(workload.tree.by_work for workload in report.every_workload)
        named = (
            replace(work_share, title="Share of work", rank=9),
            replace(work_grade, title="Work's grade", rank=9),
        )
        return [energy, share, share_grade, work, *(named if eager else ())]
    return [
        replace(work, rank=0),
        work_share,
        work_grade,
        Column("work_share_grade", "Share's grade", "grade", "of the share of work", rank=9),
        replace(energy, rank=3),
        replace(share, title="Share of energy", rank=8),
        replace(share_grade, title="Its grade", hint="of the share of energy"),
        Column("grade", "Energy's grade", "grade", rank=4),
    ]


def notes_on_work(rows: Sequence[Row]) -> list[str]:
    """Return a note where rows have FLOPs and none has executed ones, as in runs that did not record them."""
    known = [row["executed_flops"] for row in rows if row["flops"] is not None]
    lacking = bool(known) and all(executed is None for executed in known)
    return [reason("executed-flops-missing").words] if lacking else []


def _row(source: str, nodes: list[Node], workload: str | None) -> dict[str, Any]:
    node = nodes[0]
    energy, moved = node.energy, node.number("bytes")
    flops, executed = node.number("flops"), node.number("executed_flops")
    several = len(nodes) > 1
    return {
        "name": f"{source} (each of {len(nodes)})" if several else node.name,
        "component": None if several else node.name,
        "kind": node.kind,
        "workload": workload,
        "layer": None if several else node.layer,
        "energy": energy,
        "share": node.interval("share_of_total", "share_ci"),
        "share_grade": node.row.get("share_quality"),
        "work": node.dynamic,
        "work_share": node.interval("dynamic_share", "dynamic_share_ci"),
        "work_grade": node.row.get("dynamic_quality"),
        "work_share_grade": node.row.get("dynamic_share_quality"),
        "idle": node.static,
        "time": node.number("time_us"),
        "time_share": node.interval("time_share", "time_share_ci"),
        "power": node.number("power_w"),
        "glue": node.glue,
        "unexplained": node.number("unexplained_mj"),
        "flops": flops,
        "executed_flops": executed,
        "bytes": moved,
        "pj_per_flop": energy.scaled(1e9 / executed) if energy and executed else None,
        "intensity": (executed or flops) / moved if flops and moved else None,
        "pace": _PACE.get(str(node.flag("host_bound"))),
        "limited_by": node.row.get("limited_by"),
        "sm": node.number("sm_activity"),
        "tensor": node.number("tensor_activity"),
        "cuda_cores": node.number("cuda_core_activity"),
        "dram": node.number("dram_activity"),
        "memory_power": node.number("memory_power_w"),
        "grade": str(node.row.get("quality")),
        "reasons": node.row.get("reasons"),
    }


def tree(report: Report) -> list[tuple[str, str, str | None]]:
    """Return every component with its kind and what it is part of, for highlighting."""
    nodes = {node.name: node for workload in report.workloads for node in workload.tree.nodes}
    return [(node.name, node.kind, node.parent) for node in nodes.values()]


def downloads(folder: Path) -> list[Download]:
    """Return the files of a run's directory that its page carries, the ones it needs most first."""
    room, files = _MOST_BYTES, []
    for name, title in _FILES:
        if own_file(folder / name):
            packed = base64.b64encode(zlib.compress((folder / name).read_bytes(), 9)).decode("ascii")
            fits = len(packed) <= room
            room -= len(packed) if fits else 0
            files.append(Download(name, title, packed if fits else None))
    return files


def payload(report: Report, files: list[Download]) -> dict[str, Any]:
    """Return what the script needs to save files: their bytes, and which columns are text whatever they hold."""
    rows = (schema.EnergyRow, schema.ImpactRow, schema.BenchmarkRow)
    return {
        "run": report.run.name,
        "files": {file.name: file.packed for file in files if file.packed is not None},
        "texts": sorted({field.name for row in rows for field in fields(row) if "str" in str(field.type)}),
    }
