"""The rank correlations between the columns of energy and impact, as the matrix that is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from energyscope.runs.intervals import finite

MOST_COLUMNS = 20
ENERGY_TITLES = {
    "energy_mj": "energy",
    "static_mj": "static energy",
    "dynamic_mj": "dynamic energy",
    "time_us": "time",
    "power_w": "power",
    "flops": "FLOPs",
    "bytes": "bytes",
    "parameters": "parameters",
}
METRICS = {
    "kl": "KL",
    "js": "JS",
    "loss_difference": "loss",
    "perplexity_difference": "perplexity",
    "accuracy_difference": "accuracy",
    "top1_agreement": "agreement",
    "logit_difference": "logits",
    "output_change": "own output",
}


@dataclass(frozen=True)
class Cell:
    """One pair of columns: Spearman's coefficient over ``n`` components, or why there is none."""

    one: str
    other: str
    value: float | None
    n: int
    reason: str | None


@dataclass(frozen=True)
class Matrix:
    """The pairs of the columns drawn, each once; ``left_out`` counts columns that are in the file only."""

    columns: list[str]
    cells: list[Cell]
    left_out: int


def matrix_data(document: Mapping[str, Any]) -> Matrix | None:
    """Gather the matrix from correlation.json; None where there is no pair of columns.

    Beyond twenty columns, those of the KL divergence and of energy are drawn, as far as they go.
    """
    found = document.get("matrix") or {}
    names = [str(name) for name in found.get("columns") or []]
    if len(names) < 2:
        return None
    energy = [str(name) for name in found.get("energy_columns") or []]
    drawn = names
    if len(names) > MOST_COLUMNS:
        drawn = [name for name in names if name in energy or name.endswith(":kl")][:MOST_COLUMNS]
    reasons = found.get("reasons") or {}
    place = {name: names.index(name) for name in drawn}
    cells = [
        Cell(
            column_name(one),
            column_name(other),
            finite(found["value"][place[one]][place[other]]),
            int(found["n"][place[one]][place[other]]),
            reasons.get(f"{one}|{other}"),
        )
        for below, one in enumerate(drawn)
        for other in drawn[:below]
    ]
    return Matrix([column_name(name) for name in drawn], cells, len(names) - len(drawn))


def column_name(name: str) -> str:
    """Return a short title of a column."""
    method, _, metric = name.partition(":")
    return ENERGY_TITLES.get(name, name) if not metric else f"{method} {METRICS.get(metric, metric)}"
