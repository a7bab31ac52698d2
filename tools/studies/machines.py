"""One command on several machines: a prefill of Llama 3.2 1B, 128 tokens, BF16, in each run that measured it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from studies.common import REPORTS, percent

from energyscope.reporting.run.report import MeasuredWorkload, Report, execution_name
from energyscope.reporting.table import Column, Table
from energyscope.runs.store import load_run

RUNS = (
    "llama-3.2-1b-h200",
    "llama-3.2-1b-both-h200",
    "llama-3.2-1b-generation-h200",
    "scaling-h200/cells/llama-3.2-1b-eager/bf16-b1-s128",
    "scaling-h200/cells/long-eager/bf16-b1-s128",
    "scaling-h200/cells/eager-llama-3.2-1b/bf16-b1-s128",
    "scaling-h200/cells/long-graph/bf16-b1-s128",
)
KINDS = {"mlp": "MLP", "attention": "attention", "norm": "norms"}


def machines() -> Table:
    """Return energy, work and time of each run, and what share of the work each kind takes; eager runs first."""
    columns = [
        Column("run", "run"),
        Column("board", "board"),
        Column("execution", "execution"),
        Column("energy", "energy", "mJ"),
        Column("work", "work", "mJ"),
        Column("time", "time", "us"),
        *(Column(kind, f"{title}, of the work") for kind, title in KINDS.items()),
    ]
    rows = sorted((row for run in RUNS for row in _rows(run)), key=lambda row: row["energy"].value, reverse=True)
    return Table(columns, sorted(rows, key=lambda row: row["execution"] != "eager"))


def _rows(name: str) -> Iterator[dict[str, Any]]:
    report = Report(load_run(REPORTS / name))
    for workload in report.every_workload:
        if workload.phase == "prefill" and workload.work is not None:
            yield {
                "run": f"`{name.removeprefix('scaling-h200/cells/').partition('/')[0]}`",
                "board": str(report.part("device").get("uuid"))[4:8],
                "execution": execution_name(workload.execution),
                "energy": workload.energy,
                "work": workload.work.value,
                "time": workload.number("time_us"),
                **{kind: percent(_work(workload, kind) / workload.work.value) for kind in KINDS},
            }


def _work(workload: MeasuredWorkload, kind: str) -> float:
    return sum(node.number("dynamic_mj") or 0.0 for node in workload.tree.nodes if node.kind == kind)
