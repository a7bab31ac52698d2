"""The statistics of energy and impact: coefficients, null models, predictors, and components removed together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from energyscope.correlation.association import too_few
from energyscope.intervals import Interval, finite, interval
from energyscope.reporting.charts.grid import grid
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.run.impact_names import impact_name, method_name
from energyscope.reporting.section import Figure
from energyscope.reporting.table import Column, Table

_ENERGY_COLUMNS = {
    "energy_mj": "energy",
    "static_mj": "idle energy",
    "dynamic_mj": "work",
    "time_us": "time",
    "power_w": "power",
}


def tables(correlation: Mapping[str, Any]) -> dict[str, Table]:
    """Return the tables of statistics that have rows."""
    every = {
        "coefficients": coefficients(correlation),
        "null-models": _null_models(correlation),
        "predictors": _predictors(correlation),
        "joint": _joint(correlation),
        "compared": _compared(correlation),
    }
    return {name: table for name, table in every.items() if table}


def chosen(correlation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the coefficients of energy with the chosen impact, each with its interval or the reason for none."""
    impact = correlation.get("impact")
    return [
        {**_same(one, "method", "n", "reason"), "value": _value(one)}
        for one in correlation.get("correlations") or []
        if one.get("x") == "energy_mj" and one.get("y") == impact
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
    rows = [_coefficient(one) for one in correlation.get("correlations") or []]
    rows += [
        {**_coefficient(one), "method": f"{one.get('method')}, each kind centred"}
        for one in correlation.get("adjusted") or []
    ]
    for kind in (correlation.get("within_kinds") or {}).get("kinds") or []:
        rows += [
            {
                **_coefficient(one),
                "method": f"{one.get('method')}, within {title_of(str(kind.get('kind')))}",
                "x": "energy_mj",
                "y": correlation.get("impact"),
            }
            for one in kind.get("correlations") or []
        ]
    return Table(columns, rows, "Correlation of energy with impact")


def _coefficient(one: Mapping[str, Any]) -> dict[str, Any]:
    few = too_few(int(finite(one.get("n")) or 0))  # older runs hold coefficients of fewer points
    return {
        **_same(one, "x", "y", "method", "n"),
        "p_value": None if few else finite(one.get("p_value")),
        "value": None if few else _value(one),
        "reason": one.get("reason") or few,
    }


def _same(one: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: one.get(key) for key in keys}


def _value(one: Mapping[str, Any]) -> Interval | None:
    return interval(one.get("value"), one.get("ci_low"), one.get("ci_high"))


def _null_models(correlation: Mapping[str, Any]) -> Table:
    rows = [
        {
            **_same(one, "predictor", "target", "n", "reason", "better"),
            "value": _value(one),
            "measured": interval(one.get("measured"), one.get("measured_ci_low"), one.get("measured_ci_high")),
        }
        for one in correlation.get("nulls") or []
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
            **_same(one, "predictor", "n", "reason"),
            "impact": impact_name(str(one.get("impact"))),
            "value": _value(one),
            "within": finite(one.get("within_kinds")),
        }
        for one in correlation.get("predictors") or []
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
            **_same(one, "component", "reason"),
            "method": method_name(str(one.get("method"))),
            "verdict": str(one.get("verdict") or "").replace("-", " "),
            "joint": interval(one.get("joint"), one.get("joint_ci_low"), one.get("joint_ci_high")),
            "single": interval(one.get("single_sum"), one.get("sum_ci_low"), one.get("sum_ci_high")),
        }
        for one in correlation.get("joint") or []
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


def _compared(correlation: Mapping[str, Any]) -> Table:
    """Return which components take no part in the comparison, and why."""
    rows = (correlation.get("compared") or {}).get("left_out") or []
    columns = [Column("components", "Components", "count"), Column("reason", "Not compared because", "reasons")]
    return Table(columns, rows, "Components that are not compared")


def matrix(correlation: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the rank correlation of every energy column with every impact that was measured."""
    found = correlation.get("matrix") or {}
    names, energy = ([str(one) for one in found.get(key) or []] for key in ("columns", "energy_columns"))
    values, points = found.get("value") or [], found.get("n") or []
    columns = [Column("row", "Impact"), Column("column", "Energy"), Column("value", "Spearman", "")]
    rows = [
        {
            "row": impact_name(name),
            "column": _ENERGY_COLUMNS.get(other, other),
            "value": finite(values[down][across]),
        }
        for down, name in enumerate(names)
        if name not in energy and down < len(values)
        for across, other in enumerate(names)
        if other in energy and not too_few(int(finite(points[down][across]) or 0))
    ]
    table = Table(columns, [row for row in rows if row["value"] is not None])
    if table:
        chart = grid(table, "row", "column", "value", diverging=True, written=True)
        title, caption = "Every energy metric against every impact", "Spearman's rank correlation over components."
        yield Figure.of("quality-matrix", title, chart, table, caption)
