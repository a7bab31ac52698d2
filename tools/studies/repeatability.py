"""How far equal profiles of one board differ, beside the intervals that they state (A/A)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from studies.common import REPORTS, percent

from energyscope.comparison.basis import ENERGY, SHARE_OF_WORK, WORK, Measure
from energyscope.comparison.difference import NOT_COMPARABLE, SHOWN, compared
from energyscope.intervals import Interval
from energyscope.reporting.table import Column, Table
from energyscope.runs.tree import Node, energy_tree

RESAMPLES = 2000
LARGE = 0.01  # of the model
ALONE = "energy, by its interval alone"  # without the allowance for idle power
QUANTITIES = {
    "energy": ENERGY,
    ALONE: replace(ENERGY, drift=WORK.drift),
    "work": WORK,
    "share of work": SHARE_OF_WORK,
}
HEADLINE = {"cuda-graph": "energy", "eager": "work"}  # what runs of an execution are compared by
Counts = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # pairs that differ and all, shape (runs, runs) each


def repeatability(folder: str) -> Table:
    """Return, by configuration and quantity, how many pairs of a folder's equal measurements differ."""
    columns = [
        Column("configuration", "configuration"),
        Column("runs", "runs"),
        Column("quantity", "quantity"),
        Column("pairs", "pairs of components"),
        Column("differ", "differ beyond their intervals"),
        Column("model", "whole model"),
        Column("half_width", "half-width"),
        Column("scatter", "scatter between runs"),
    ]
    rows: list[dict[str, str]] = []
    together: dict[str, list[Counts]] = {}
    for path in sorted((REPORTS / folder).glob("*.csv")):
        runs = _runs(path)
        if len(runs) < 2:
            continue
        execution = str(runs[0][0].row["execution"])
        for quantity, measure in QUANTITIES.items():
            if measure.of is ENERGY.of and execution == "eager":
                continue  # the host's time: not compared
            parts = counts(runs, measure, lambda node: node.level != "model")
            if not parts[1].any():
                continue  # modelled energy has no work
            whole = counts(runs, measure, lambda node: node.level == "model")
            if quantity == HEADLINE[execution]:
                together.setdefault("energy in graphs, work eager", []).append(parts)
            if quantity == ALONE:
                together.setdefault(ALONE, []).append(parts)
            rows.append(
                {
                    "configuration": path.stem,
                    "runs": str(len(runs)),
                    "quantity": quantity,
                    "pairs": str(int(parts[1].sum())),
                    "differ": _differing([parts]),
                    "model": "" if quantity == "share of work" else f"{whole[0].sum()} of {whole[1].sum()}",
                    **_widths(runs, measure),
                }
            )
    for quantity, counted in together.items():
        pooled = {"pairs": str(sum(int(parts[1].sum()) for parts in counted)), "differ": _differing(counted)}
        rows.append({"configuration": "together", "quantity": quantity, **pooled})
    return Table(columns, rows)


def sums(folder: str) -> Table:
    """Return, by configuration of a folder, what leaves and overhead add up to, idle power, and noisy shares."""
    columns = [
        Column("configuration", "configuration"),
        Column("energy", "leaves and overhead, of the energy"),
        Column("work", "of the work"),
        Column("idle", "idle power between runs"),
        Column("noisy", "shares of work too noisy to use"),
    ]
    rows = []
    for path in sorted((REPORTS / folder).glob("*.csv")):
        documents = [json.loads(each.read_text()) for each in sorted((path.parent / path.stem).glob("*.json"))]
        leaves = [document["closure"]["leaves"] for document in documents]
        idle = [np.mean([known for each in document["passes"] if (known := each.get("idle_w"))])
                for document in documents]  # fmt: skip
        table = pd.read_csv(path)
        large = table[(table["level"] != "model") & (table["dynamic_share"] > LARGE)]
        rows.append(
            {
                "configuration": path.stem,
                "energy": _span([percent(each["energy"]) for each in leaves]),
                "work": _span([percent(each["dynamic"]) for each in leaves]),
                "idle": _span([f"{watts:.1f} W" for watts in idle]),
                "noisy": f"{(large['dynamic_share_quality'] == 'invalid').sum()} of {len(large)}",
            }
        )
    return Table(columns, rows)


def _span(texts: list[str]) -> str:
    ordered = sorted(texts, key=lambda text: float(text.split()[0]))
    return f"{ordered[0]} to {ordered[-1]}"


def _runs(path: Path) -> list[list[Node]]:
    """Return the nodes of each run in a table of measurements."""
    frame = pd.read_csv(path)
    return [list(energy_tree(rows).nodes) for _, rows in frame.groupby("run")]


def counts(runs: list[list[Node]], measure: Measure, of: Callable[[Node], bool]) -> Counts:
    """Count for each pair of runs the components that both know, and those that `compare` would find unlike.

    Of values too noisy for a verdict there, only the intervals count.
    """
    unlike = np.zeros((len(runs), len(runs)), dtype=np.int64)
    known = np.zeros_like(unlike)
    tables = [{node.name: node for node in nodes if of(node)} for nodes in runs]
    for (first, one), (second, other) in combinations(enumerate(tables), 2):
        for name in one.keys() & other.keys():
            nodes = one[name], other[name]
            values = measure.of(nodes[0]), measure.of(nodes[1])
            drift = measure.drift([nodes[0]], [nodes[1]])
            verdict = compared(name, measure.unit, values, drift=drift).verdict
            known[first, second] += verdict != NOT_COMPARABLE
            unlike[first, second] += verdict in SHOWN
    return unlike, known


def share(parts: list[Counts], seed: int = 0) -> Interval:
    """Return the share of pairs that differ, with a 95 % interval: runs are drawn again, with replacement."""
    random = np.random.default_rng(seed)

    def drawn() -> float:
        differ = known = 0.0
        for several in parts:
            size = len(several[0])
            times = np.bincount(random.integers(size, size=size), minlength=size)
            weights = np.outer(times, times)
            differ += float((several[0] * weights).sum())
            known += float((several[1] * weights).sum())
        return differ / known if known else np.nan

    resampled = [drawn() for _ in range(RESAMPLES)]
    whole = sum(int(several[0].sum()) for several in parts) / sum(int(several[1].sum()) for several in parts)
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return Interval(whole, float(low), float(high))


def _differing(parts: list[Counts]) -> str:
    found = share(parts)
    assert found.low is not None
    assert found.high is not None
    return f"{percent(found.value)} [{percent(found.low)} to {percent(found.high)}]"


def _widths(runs: list[list[Node]], measure: Measure) -> dict[str, str]:
    """Return a component's mean half-width and its standard deviation between runs: medians over components.

    Only those above a hundredth of the model count: of smaller ones work is a small difference of large numbers.
    """
    found: dict[str, list[Interval]] = {}
    for nodes in runs:
        for node in nodes:
            value = measure.of(node)
            if value is not None and value.known:
                found.setdefault("" if node.level == "model" else node.name, []).append(value)
    means = {name: float(np.mean([value.value for value in values])) for name, values in found.items()}
    large = [name for name in found if name and means[name] > LARGE * means[""] and len(found[name]) > 1]
    widths = [np.mean([(item.above + item.below) / 2 for item in found[name]]) / means[name] for name in large]
    scatter = [np.std([item.value for item in found[name]], ddof=1) / means[name] for name in large]
    return {"half_width": percent(float(np.median(widths))), "scatter": percent(float(np.median(scatter)))}
