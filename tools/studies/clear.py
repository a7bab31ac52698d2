"""CLEAR (arXiv 2510.02810) beside our runs (`reports/clear-study-h200`, and norms in `reports/scaling-h200`)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any

from studies.common import REPORTS, amount, percent

from energyscope.intervals import from_entry
from energyscope.reporting.charts.plane import Axis, curves
from energyscope.reporting.print.drawing import draw
from energyscope.reporting.print.files import encoded
from energyscope.reporting.print.sheets import Panel, Sheet
from energyscope.reporting.run.report import execution_name
from energyscope.reporting.table import Amount, Column, Table
from energyscope.runs.store import load_run
from energyscope.runs.tree import energy_tree


def capture() -> Table:
    """Return capture and spread as CLEAR reports them, and ours of BERT-base in both executions."""
    rows = {"capture (parts and overhead / model)": "above 90 %; 68 to 97 % in its charts of small encoders",
            "of the dynamic energy": None, "spread of a component over the trials": "below 9.5 % above 5 mJ",
            "spread of the whole model": None, "energy of a pass": None, "time of a pass": None}  # fmt: skip
    cells = {}
    for execution in ("graph", "eager"):
        run = load_run(REPORTS / f"clear-study-h200/cells/bert-base-{execution}/fp16-b1-s128")
        assert run.energy is not None
        tree, closure = energy_tree(run.energy), run.document["closure"]["model"]
        root = tree.root
        assert root is not None
        spreads = [node.number("spread_between_passes") or 0.0 for node in tree.nodes if node is not root]
        values = [
            Amount(closure["energy"], closure["energy_low"], closure["energy_high"], "share"),
            Amount(closure["dynamic"], closure["dynamic_low"], closure["dynamic_high"], "share"),
            f"{percent(min(spreads))} to {percent(max(spreads))}",
            amount(root, "spread_between_passes", "share"),
            Amount.of(root.energy, "mJ"),
            amount(root, "time_us", "us"),
        ]
        cells[execution] = dict(zip(rows, values, strict=True))
    columns = [
        Column("what", ""),
        Column("study", "CLEAR"),
        Column("graph", "CUDA graph"),
        Column("eager", "eager"),
    ]
    return Table(
        columns,
        [{"what": what, "study": study, **{name: cells[name][what] for name in cells}}
         for what, study in rows.items()],
    )  # fmt: skip


def spread() -> Table:
    """Return how the spread of twenty trials falls with the calls of each (experiment b), at every length."""
    columns = [
        Column("series", "attention of BERT-base"),
        Column("calls", "N", "count"),
        Column("seconds", "a trial, with its two readings", "s"),
        Column("spread", "spread (CV)", "share"),
        Column("energy", "mean", "mJ"),
    ]
    rows: list[dict[str, Any]] = []
    for path in sorted((REPORTS / "clear-study-h200").glob("methods*/sensitivity.csv")):
        board = "H200" if path.parent.name == "methods" else "H100"
        with path.open(encoding="utf-8") as file:
            rows += [
                {
                    "series": f"{line['component'].split(':')[1]} tokens, {board}",
                    "calls": int(line["calls"]),
                    "seconds": float(line["seconds_total"]) / int(line["repetitions"]),
                    "spread": float(line["cv"]),
                    "energy": float(line["energy_mj"]),
                }
                for line in csv.DictReader(file)
                if line["cv"]
            ]
    return Table(columns, rows)


def spread_chart() -> bytes:
    """Draw the spread over N, beside the limit that CLEAR reports for components above 5 mJ (SVG)."""
    rows = [{**row, "percent": row["spread"] * 100} for row in spread().rows]
    columns = [Column("calls", "calls of a trial (N)", ""), Column("percent", "spread of 20 trials (%)", "")]
    axes = Axis("calls", log=True), Axis("percent", log=True, guides=[9.5])
    chart = curves(Table(columns, rows), *axes, series="series")
    one = len({row["series"] for row in rows}) == 1  # which has no legend
    notes = [
        "Counter read before and after N calls.",
        "Dashed: 9.5 %, below which CLEAR reports its components above 5 mJ.",
    ]
    panel = Panel("Attention of BERT-base, 128 tokens" if one else "Attention of BERT-base", chart, height=170)
    return encoded(draw(Sheet("spread", [[panel]], notes, wide=False), "paper"), "svg", 300)


def per_flop() -> Table:
    """Return energy per FLOP of attention and MLP over lengths, and their ratio (experiment c)."""
    rows: dict[str, dict[str, Any]] = {}
    lengths: set[int] = set()
    for folder in sorted((REPORTS / "clear-study-h200").glob("qwen2.5-3b*/laws.json")):
        for group in json.loads(folder.read_text())["groups"]:
            where = f"{execution_name(group['execution'])}, board {group['board'][4:8]}"
            for label, values in _per_flop(group):
                cells = {str(tokens): value for tokens, value in values.items()}
                rows[f"{label}, {where}"] = {"what": f"{label}, {where}", **cells}
                lengths |= values.keys()
    columns = [Column("what", "tokens"), *(Column(str(tokens), str(tokens)) for tokens in sorted(lengths))]
    return Table(columns, list(rows.values()))


def _per_flop(group: Mapping[str, Any]) -> Iterator[tuple[str, dict[int, Amount | None]]]:
    subjects = {subject["subject"]: subject["points"] for subject in group["subjects"]}
    for name, title in (("attention", "attention, pJ/FLOP"), ("mlp", "MLP, pJ/FLOP")):
        yield title, {int(at["tokens"]): Amount.of(from_entry(at["pj_per_flop"]), "") for at in subjects[name]}
    pair = next(pair for pair in group["ratios"] if (pair["first"], pair["second"]) == ("attention", "mlp"))
    yield "ratio", {int(at["tokens"]): Amount.of(from_entry(at["ratio"]), "ratio") for at in pair["at"]}


def norms() -> Table:
    """Return FP16's energy over FP32's of norms and MLPs (CLEAR: norms take more in FP16)."""
    laws = json.loads((REPORTS / "scaling-h200/precisions/laws.json").read_text())
    device = {group["execution"]: group["device"] for group in laws["groups"]}
    columns = [
        Column("execution", "execution"),
        Column("device", "board"),
        Column("tokens", "tokens", "count"),
        Column("norm", "norms, FP16 / FP32", "ratio"),
        Column("mlp", "MLPs, FP16 / FP32", "ratio"),
    ]
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for contrast in laws["contrasts"]:
        if contrast["field"] == "precision" and contrast["subject"] in ("norm", "mlp"):
            execution, tokens = contrast["execution"], int(contrast["tokens"])
            place = {"execution": execution_name(execution), "device": device[execution], "tokens": tokens}
            row = rows.setdefault((execution, tokens), place)
            row[contrast["subject"]] = from_entry(contrast["ratio"])
    return Table(columns, list(rows.values()))
