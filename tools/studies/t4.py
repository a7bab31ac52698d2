"""A study of DistilBERT and GPT-2 small on a Tesla T4, in FP32, beside our runs (`reports/published-study`).

Its batch size and sequence length are not stated; its shares of energy are by time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from studies.common import REPORTS, amount, percent, tree_of

from energyscope.intervals import Interval, from_entry, ratio
from energyscope.metering.grades import QUALITIES
from energyscope.reporting.print.sheets import Sheet, sheets
from energyscope.reporting.run.report import Report, precision_name
from energyscope.reporting.table import Amount, Column, Table
from energyscope.runs.store import load_run
from energyscope.runs.tree import EnergyTree, sum_column, sum_energy

RUNS = {"batch 1": "distilbert-h200", "batch 32": "distilbert-32x128-h200"}

T4_PASSES, T4_SECONDS, T4_WATTS, T4_JOULES = 100, 293.688, 69.21, 20_327.153
T4_CALLS_MS = {"FFN up": 165.0, "FFN down": 136.0, "attention projection": 35.0}
CALLS = {"FFN up": "mlp.up", "FFN down": "mlp.down", "attention projection": "attention.query"}
T4_SHARES = {"FFN up": 0.3705, "FFN down": 0.3065, "attention projections (q, k, v)": 0.2307,
             "attention output": 0.0744, "norms": 0.0148, "embeddings": 0.0027}  # fmt: skip
KINDS = {
    "FFN up": ("mlp.up",),
    "FFN down": ("mlp.down",),
    "attention projections (q, k, v)": ("attention.query", "attention.key", "attention.value"),
    "attention output": ("attention.output",),
    "norms": ("norm",),
    "embeddings": ("embedding",),
}
T4_FP16 = {"energy": "5 to 6 times less", "speed": "4 to 5 times as fast"}
T4_CORRELATION = {"classifier": -0.4942, "language model": 0.57}

BENCHMARKS = ("distilbert-precisions-h200", "distilbert-fp16-eager-h200", "distilbert-fp16-graph-h200")
# Runs of the bundled models, of which those are shown that are there: eager, and in CUDA graphs.
TRAINED = {"classifier": ("tiny-distilbert-h200", "tiny-distilbert-graph-h200"),
           "language model": ("tiny-gpt2-h200", "tiny-gpt2-graph-h200")}  # fmt: skip
MATRICES = ("figure-8", "figure-12")  # of the two models


def totals() -> Table:
    """Return what the T4 study measured of a pass and of a call, beside ours."""
    trees = {name: tree_of(run) for name, run in RUNS.items()}
    study = {
        "a pass: time": Amount(T4_SECONDS / T4_PASSES * 1e6, unit="us"),
        "a pass: mean power": Amount(T4_WATTS, unit="W"),
        "a pass: energy": Amount(T4_JOULES / T4_PASSES * 1e3, unit="mJ"),
        **{f"a call: {name}": Amount(time_ms * 1e3, unit="us") for name, time_ms in T4_CALLS_MS.items()},
    }
    columns = [
        Column("what", ""),
        Column("study", "study, T4"),
        *(Column(name, f"H200, {name}") for name in trees),
    ]
    ours = {name: _ours(tree) for name, tree in trees.items()}
    return Table(
        columns,
        [
            {"what": what, "study": value, **{name: ours[name][what] for name in ours}}
            for what, value in study.items()
        ],
    )


def _ours(tree: EnergyTree) -> dict[str, Amount | None]:
    root = tree.root
    assert root is not None
    first = {kind: next(node for node in tree.nodes if node.kind == kind) for kind in CALLS.values()}
    return {
        "a pass: time": amount(root, "time_us", "us"),
        "a pass: mean power": amount(root, "power_w", "W"),
        "a pass: energy": Amount.of(root.energy, "mJ"),
        **{f"a call: {name}": amount(first[kind], "time_us", "us") for name, kind in CALLS.items()},
    }


def shares(name: str) -> Table:
    """Return the measured shares of the study's groups of modules, those by time, and their lowest grade."""
    tree = tree_of(name)
    nodes = {group: [node for node in tree.leaves if node.kind in kinds] for group, kinds in KINDS.items()}
    energies = {group: sum_energy(members) or Interval(0.0) for group, members in nodes.items()}
    times = {group: sum_column(members, "time_us") or 0.0 for group, members in nodes.items()}
    of_six, time_of_six = sum(energy.value for energy in energies.values()), sum(times.values())
    columns = [
        Column("group", "group"),
        Column("study", "study, by time"),
        Column("of_six", "measured, of the six"),
        Column("of_model", "of the model", "share"),
        Column("by_time", "ours by time, of the six"),
        Column("grade", "lowest grade", "grade"),
    ]
    rows = [
        {
            "group": group,
            "study": percent(T4_SHARES[group]),
            "of_six": percent(energies[group].value / of_six),
            "of_model": ratio(energies[group], tree.model_energy) if tree.model_energy else None,
            "by_time": percent(times[group] / time_of_six),
            "grade": max((str(node.row["quality"]) for node in members), key=QUALITIES.index),
        }
        for group, members in nodes.items()
    ]
    return Table(columns, rows)


def precisions() -> Table:
    """Return each precision of DistilBERT, batch 32, in three benchmarks, and what the study says of FP16."""
    columns = [
        Column("run", "run"),
        Column("precision", "precision"),
        Column("latency", "a pass", "us"),
        Column("speedup", "as fast as FP32", "ratio"),
        Column("energy", "energy a pass", "mJ"),
        Column("saved", "FP32's energy / its energy", "ratio"),
        Column("grade", "grade", "grade"),
    ]
    rows: list[dict[str, Any]] = [
        {
            "run": "the study, T4",
            "precision": "FP16",
            "speedup": T4_FP16["speed"],
            "saved": T4_FP16["energy"],
        }
    ]
    for name in BENCHMARKS:
        cells = json.loads((REPORTS / name / "benchmark.json").read_text())["cells"]
        rows += [
            {
                "run": f"`{name}`",
                "precision": precision_name(cell["precision"]),
                "latency": from_entry(cell["latency_s"], 1e6),
                "speedup": from_entry(cell["speedup"]),
                "energy": from_entry(cell["energy_mj"]),
                "saved": _inverse(from_entry(cell["energy_ratio"])),
                "grade": cell["quality"],
            }
            for cell in cells
        ]
    return Table(columns, rows)


def _inverse(item: Interval | None) -> Interval | None:
    return None if item is None else ratio(Interval(1.0, 1.0, 1.0) if item.known else Interval(1.0), item)


def correlations() -> Table:
    """Return energy against removal: the study's coefficients, and those of the bundled models."""
    columns = [
        Column("model", "model"),
        Column("study", "study, Pearson", ""),
        Column("run", "run", "code"),
        Column("count", "components", "count"),
        Column("pearson", "Pearson", ""),
        Column("spearman", "Spearman", ""),
    ]
    rows = []
    for model, names in TRAINED.items():
        for name in _there(names):
            document = json.loads((REPORTS / name / "correlation.json").read_text())
            found = {item["method"]: item for item in document["correlations"] if item["y"] == "zero:kl"}
            values = {
                method: Interval(found[method]["value"], found[method]["ci_low"], found[method]["ci_high"])
                for method in ("pearson", "spearman")
            }
            first = {"model": model, "study": T4_CORRELATION[model], "run": name}
            rows.append({**first, "count": found["pearson"]["n"], **values})
    return Table(columns, rows)


def _there(names: Sequence[str]) -> list[str]:
    return [name for name in names if (REPORTS / name).is_dir()]


def matrices() -> dict[str, tuple[str, Sheet | None]]:
    """Return figures 8 and 12 by name: the last run of each bundled model, and its matrix if it has one."""
    figures = {}
    for name, runs in zip(MATRICES, TRAINED.values(), strict=True):
        run = _there(runs)[-1]
        every = sheets(Report(load_run(REPORTS / run)))
        matrix = next(sheet for sheet in every if sheet.stem == "energy_impact_correlation_matrix")
        figures[name] = run, matrix if matrix.rows else None
    return figures


def matrix_links() -> str:
    """Return Markdown that shows the figures, and names the run of each."""
    lines = []
    for name, (run, sheet) in matrices().items():
        title = f"{name.replace('-', ' ').capitalize()}: `{run}`"
        picture = f"![Rank correlations of energy metrics with impacts]({name}.png)\n\n"
        missing = ", whose impact was measured before there was such a matrix"
        lines.append(f"{picture if sheet else ''}{title}{'' if sheet else missing}.\n")
    return "\n".join(lines)
