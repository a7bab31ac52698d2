"""The statistics of energy and impact, and what the changes and metrics of impact are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from energyscope.correlation.association import too_few
from energyscope.intervals import Interval, finite, interval
from energyscope.reporting.charts.grid import grid
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.section import Figure
from energyscope.reporting.table import Column, Table

_ENERGY_COLUMNS = {
    "energy_mj": "energy",
    "static_mj": "idle energy",
    "dynamic_mj": "work",
    "time_us": "time",
    "power_w": "power",
}
METHODS = {
    "zero": "removed (zeros)",
    "mean": "removed (mean)",
    "resample": "removed (resampled)",
    "skip": "layer skipped",
    "int8": "INT8",
    "int8-tensor": "INT8 per tensor",
    "int4": "INT4",
    "fp8": "FP8",
    "nf4": "NF4",
    "int8-wa": "INT8 with activations",
    "fp8-wa": "FP8 with activations",
    "fp8-real": "FP8 kernels",
    "w8a8-real": "W8A8 kernels",
    "w8a16-real": "W8A16 kernels",
    "int4-real": "INT4 kernels",
    "bnb-int8": "bitsandbytes INT8",
    "bnb-nf4": "bitsandbytes NF4",
}
METRICS = {
    "kl": ("KL divergence (nats)", ""),
    "js": ("Jensen-Shannon divergence (nats)", ""),
    "loss_difference": ("Loss difference (nats)", ""),
    "perplexity_difference": ("Perplexity difference", ""),
    "accuracy_difference": ("Accuracy difference", "change"),
    "top1_agreement": ("Top-1 agreement", "share"),
    "logit_difference": ("Logit margin difference", ""),
    "output_change": ("Change of its own output", "share"),
}


def method_name(method: str) -> str:
    """Return what a method is called."""
    return METHODS.get(method, method.replace("_", " "))


def impact_name(column: str) -> str:
    """Return what a column of impact, such as ``zero:kl``, is called."""
    method, _, metric = column.partition(":")
    return f"{METRICS.get(metric, (metric, ''))[0]}, {method_name(method)}" if metric else column


def tables(correlation: Mapping[str, Any]) -> dict[str, Table]:
    """Return the tables of statistics by name."""
    return {
        "coefficients": coefficients(correlation),
        "null-models": _null_models(correlation),
        "predictors": _predictors(correlation),
        "joint": _joint(correlation),
        "compared": _not_compared(correlation),
    }


def impact_coefficients(correlation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the coefficients of energy with the chosen impact, each with its interval or the reason for none."""
    impact = correlation.get("impact")
    return [
        {**{key: entry.get(key) for key in ("method", "n", "reason")}, "value": _value(entry)}
        for entry in correlation.get("correlations") or []
        if entry.get("x") == "energy_mj" and entry.get("y") == impact
    ]


def coefficients(correlation: Mapping[str, Any]) -> Table:
    """Return how energy goes with impact: over all components, with each kind centred, and within each kind."""
    columns = [
        Column("x", "Energy"),
        Column("y", "Impact"),
        Column("method", "Coefficient"),
        Column("value", "Value", ""),
        Column("n", "Points", "count"),
        Column("p_value", "p", ""),
        Column("reason", "Why not", "reasons"),
    ]
    rows = [_coefficient(entry) for entry in correlation.get("correlations") or []]
    rows += [
        {**_coefficient(entry), "method": f"{entry.get('method')}, each kind centred"}
        for entry in correlation.get("adjusted") or []
    ]
    pair = {"x": "energy_mj", "y": correlation.get("impact")}
    for kind in (correlation.get("within_kinds") or {}).get("kinds") or []:
        within = f"within {title_of(str(kind.get('kind')))}"
        rows += [
            {**_coefficient(entry), **pair, "method": f"{entry.get('method')}, {within}"}
            for entry in kind.get("correlations") or []
        ]
    return Table(columns, rows, "Correlation of energy with impact")


def _coefficient(entry: Mapping[str, Any]) -> dict[str, Any]:
    few = too_few(int(finite(entry.get("n")) or 0))  # older runs hold coefficients of fewer points
    return {
        **entry,
        "p_value": None if few else finite(entry.get("p_value")),
        "value": None if few else _value(entry),
        "reason": entry.get("reason") or few,
    }


def _value(entry: Mapping[str, Any], key: str = "value", prefix: str = "") -> Interval | None:
    return interval(entry.get(key), entry.get(f"{prefix}ci_low"), entry.get(f"{prefix}ci_high"))


def _not_compared(correlation: Mapping[str, Any]) -> Table:
    columns = [Column("components", "Components", "count"), Column("reason", "Not compared because", "reasons")]
    rows = (correlation.get("compared") or {}).get("left_out") or []
    return Table(columns, rows, "Components that are not compared")


def _null_models(correlation: Mapping[str, Any]) -> Table:
    rows = [
        {**entry, "value": _value(entry), "measured": _value(entry, "measured", "measured_")}
        for entry in correlation.get("nulls") or []
    ]
    columns = [
        Column("predictor", "Instead of energy"),
        Column("target", "Target"),
        Column("value", "Its coefficient", ""),
        Column("measured", "Energy's", ""),
        Column("better", "Shown to be better"),
        Column("n", "Points", "count"),
        Column("reason", "Why not", "reasons"),
    ]
    return Table(columns, rows, "Do parameters, FLOPs or bytes rank impact as well as measured energy?")


def _predictors(correlation: Mapping[str, Any]) -> Table:
    rows = [
        {
            **entry,
            "impact": impact_name(str(entry.get("impact"))),
            "value": _value(entry),
            "within": finite(entry.get("within_kinds")),
        }
        for entry in correlation.get("predictors") or []
    ]
    columns = [
        Column("predictor", "Predictor"),
        Column("impact", "Measured impact"),
        Column("value", "Rank correlation", ""),
        Column("within", "Within kinds", ""),
        Column("n", "Components", "count"),
        Column("reason", "Why not", "reasons"),
    ]
    return Table(columns, rows, "How well cheap predictors rank components")


def _joint(correlation: Mapping[str, Any]) -> Table:
    rows = [
        {
            **entry,
            "method": method_name(str(entry.get("method"))),
            "verdict": str(entry.get("verdict") or "").replace("-", " "),
            "joint": _value(entry, "joint", "joint_"),
            "single": _value(entry, "single_sum", "sum_"),
        }
        for entry in correlation.get("joint") or []
    ]
    columns = [
        Column("component", "Removed together", "code"),
        Column("method", "Change"),
        Column("joint", "KL together", ""),
        Column("single", "Sum of each alone", ""),
        Column("verdict", "Verdict"),
        Column("reason", "Why not", "reasons"),
    ]
    return Table(columns, rows, "Components removed together")


def matrix(correlation: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the rank correlation of every energy column with every impact that was measured.

    A metric whose coefficients are all missing keeps its row of empty cells; the table says why.
    """
    document = correlation.get("matrix") or {}
    names, energy = ([str(name) for name in document.get(key) or []] for key in ("columns", "energy_columns"))
    values, points, reasons = (document.get(key) or {} for key in ("value", "n", "reasons"))
    columns = [
        Column("row", "Impact"),
        Column("column", "Energy"),
        Column("value", "Spearman", ""),
        Column("count", "Components", "count"),
        Column("reason", "Why not", "reasons"),
    ]
    rows = []
    for name, coefficients, counts in zip(names, values, points, strict=False):
        for other, coefficient, count in zip(names, coefficients, counts, strict=False):
            if name not in energy and other in energy:
                few = too_few(number := int(finite(count) or 0))  # older runs hold coefficients of fewer points
                value = None if few else finite(coefficient)
                why = None if value is not None else few or reasons.get(f"{name}|{other}")
                place = {"row": impact_name(name), "column": _ENERGY_COLUMNS.get(other, other)}
                rows.append({**place, "value": value, "count": number, "reason": why})
    if any(row["value"] is not None for row in rows):
        table = Table(columns, rows).filled()
        chart = grid(table, "row", "column", "value", diverging=True, written=True)
        title, caption = "Every energy metric against every impact", "Spearman's rank correlation over components."
        missing = " Empty: too few components, or all alike." if any(row["reason"] for row in rows) else ""
        yield Figure.of("quality-matrix", title, chart, table, caption + missing)
