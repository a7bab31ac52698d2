"""What the predictions need: impact of removing and quantizing, energy against impact, what is safe to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pandas as pd

from energyscope import format as fmt
from energyscope import reasons
from energyscope.correlation.advice import SENSITIVITIES
from energyscope.correlation.joint import is_joint
from energyscope.correlation.quadrants import UNDECIDED, high_is_more
from energyscope.impact.methods import PREDICT, QUANTIZATIONS, REMOVALS
from energyscope.intervals import Interval, finite, from_entry, interval, total_of_same
from energyscope.reporting.charts.bars import dots
from energyscope.reporting.charts.grid import grid
from energyscope.reporting.charts.plane import Axis, plane
from energyscope.reporting.charts.theme import palette, title_of
from energyscope.reporting.run import statistics
from energyscope.reporting.run.report import RUN, Report, precision_name
from energyscope.reporting.run.statistics import METHODS, METRICS, impact_name, method_name
from energyscope.reporting.section import Content, Figure
from energyscope.reporting.table import Column, Row, Table

_CORNERS = {
    ("right", "top"): "costly, needed",
    ("right", "bottom"): "costly, little needed",
    ("left", "top"): "cheap, needed",
    ("left", "bottom"): "cheap, little needed",
}
_MOST_RANKED = 15
_MOST_LEVEL = 3  # named in one sentence
_BLOCKS = frozenset(
    {"attention", "mlp", "embedding", "lm_head", "norm", "pooler", "classifier", "router", "experts"}
)
_COLOURS = palette(METHODS)  # a change has one colour on every chart


def _option(report: Report) -> str:
    return f"{'--weights pretrained ' if report.random else ''}--stages ablate,correlate"


@RUN.section(4, "quality", "Quality", _option)
def section(report: Report) -> Content | None:
    """Return quadrants, impact by kind, and the statistics behind them; None where no impact was measured."""
    impact = _measured(report)
    if impact.empty:
        return None
    correlation = report.correlation
    by_kind = {metric: table for metric in METRICS if (table := kinds_table(impact, metric))}
    figures = [
        *_quadrants(report),
        *_ranked(impact),
        *_by_kind(by_kind),
        *_by_layer(impact),
        *statistics.matrix(correlation),
    ]
    tables = {"impact": impact_table(impact), **statistics.tables(correlation)}
    tables |= {"impact-by-kind": by_kind["kl"]} if "kl" in by_kind else {}
    tables |= {"advice": _advice(correlation), "invalid": _invalid(impact)}
    data = {
        "evaluation": report.part("workload").get("evaluation") or {},
        "coefficients": statistics.impact_coefficients(correlation),
        "metrics": list(by_kind),
    }
    return Content(data, figures, tables)


def _measured(report: Report) -> pd.DataFrame:
    """Return the impact rows of changes that were made, each of one component."""
    table = report.run.impact
    if table is None or table.empty:
        return pd.DataFrame()
    return table[table["method"] != PREDICT]


def _valid(impact: pd.DataFrame, metric: str) -> pd.DataFrame:
    chosen = impact[(impact["metric"] == metric) & impact["valid"].astype(bool) & impact["value"].notna()]
    return chosen[~chosen["component"].map(is_joint)]


def _records(impact: pd.DataFrame) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", impact.to_dict("records"))


def _value(row: Mapping[str, Any]) -> Interval | None:
    return interval(row["value"], row["ci_low"], row["ci_high"])


def _first(impact: pd.DataFrame, methods: Sequence[str]) -> str | None:
    return next((name for name in methods if (impact["method"] == name).any()), None)


def ranking(report: Report) -> list[dict[str, Any]]:
    """Return for quantization and for removal the blocks that are harmed least and most, by KL divergence.

    The first method of each family that was measured; nothing here depends on any energy.
    """
    impact = _measured(report)
    if impact.empty:
        return []
    kl = _valid(impact, "kl")
    rankings = []
    for family, methods in (("quantize", SENSITIVITIES), ("remove", REMOVALS)):
        method = _first(kl, methods)
        rows = _blocks(kl, method)
        if len(rows) > 1:
            ordered = [(row["title"], finite(row["layer"])) for row in rows]
            least, most = _names(ordered[:-1][:3]), _names(ordered[-1:])
            rankings.append({"family": family, "method": method_name(str(method)), "least": least, "most": most})
    return rankings


def needs(report: Report) -> dict[str, Any] | None:
    """Return which blocks, removed, change the predictions least and most, by KL divergence, with how much.

    Each has the ``names`` of those whose intervals overlap its own, none where they are many. And how many
    predictions (``kept``) the whole model keeps in the last ``precision`` that was judged, on how many
    ``examples``. None where nothing was removed.
    """
    impact = _measured(report)
    if impact.empty:
        return None
    kl = _valid(impact, "kl")
    rows = _blocks(kl, _first(kl, REMOVALS))
    if len(rows) < 2:
        return None
    least, most = ({"names": _level_with(row, rows), "value": row["value"]} for row in (rows[0], rows[-1]))
    scores = [score for score in report.benchmark.get("predictions") or [] if from_entry(score.get("agreement"))]
    last: Mapping[str, Any] = scores[-1] if scores else {}
    precision, kept = precision_name(last.get("precision")), from_entry(last.get("agreement"))
    return {"least": least, "most": most, "precision": precision, "kept": kept, "examples": last.get("examples")}


def _blocks(impact: pd.DataFrame, method: str | None) -> list[dict[str, Any]]:
    """Return the rows of blocks that a method changed, the smallest value first, each with a title of its own."""
    changed = impact[impact["method"] == method]
    inside = changed["layer"].notna() & changed["kind"].isin(_BLOCKS)  # else layers were changed as wholes
    kinds = _BLOCKS if inside.any() else {*_BLOCKS, "layer"}
    rows = _records(changed[changed["kind"].isin(kinds)].sort_values("value"))
    alone = Counter(str(row["kind"]) for row in rows if finite(row["layer"]) is None)
    for row in rows:
        kind, name = str(row["kind"]), str(row["component"]).rpartition(".")[2]
        several = alone[kind] > 1 and finite(row["layer"]) is None
        row["title"] = f"{title_of(kind)} ({name})" if several else title_of(kind)
    return rows


def _level_with(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of a row and of those whose intervals overlap its own; none where they are many."""
    own = _value(row)
    level = [
        _named(other["title"], finite(other["layer"]))
        for other in rows
        if other is row or _overlap(own, _value(other))
    ]
    return level if len(level) <= _MOST_LEVEL and len(level) < len(rows) else []


def _overlap(first: Interval | None, second: Interval | None) -> bool:
    known = [item for item in (first, second) if item is not None and item.known]
    if len(known) < 2:
        return False
    low, high = sorted(known, key=lambda item: item.value)
    return low.value + low.above >= high.value - high.below


def _named(title: str, layer: float | None) -> str:
    return f"the {title}" if layer is None else _names([(title, layer)])[0]


def _names(blocks: Sequence[tuple[str, float | None]]) -> list[str]:
    """Name blocks, those of one kind together: ``attention of layers 3 and 1``."""
    by_title: dict[str, list[str]] = {}
    for title, layer in dict.fromkeys(blocks):
        by_title.setdefault(title, []).extend([] if layer is None else [f"{layer:.0f}"])
    return [
        f"layer{'s' if len(layers) > 1 else ''} {fmt.listed(layers)}"
        if title == "layer"
        else title + (f" of layer{'s' if len(layers) > 1 else ''} {fmt.listed(layers)}" if layers else "")
        for title, layers in by_title.items()
    ]


def rank_figure(report: Report) -> Figure | None:
    """Return impact by kind of one quantization and one removal: what may be changed, and what is needed."""
    impact = _measured(report)
    if impact.empty:
        return None
    kl = _valid(impact, "kl")
    methods = [method for family in (SENSITIVITIES, REMOVALS) if (method := _first(kl, family))]
    table = kinds_table(kl[kl["method"].isin(methods) & kl["kind"].isin(_BLOCKS)], "kl")
    if not table:
        return None
    chart = dots(table, "part", "value", series="method", log=True, title="KL divergence (nats): left is safe")
    caption = "Mean over a kind's components, each changed alone."
    return Figure.of("quality-safe", "What the predictions need", chart, table, caption)


def kinds_table(impact: pd.DataFrame, metric: str) -> Table:
    """Return the mean impact over the components of each kind by method, with the interval over examples."""
    title, unit = METRICS[metric]
    columns = [
        Column("part", "Kind"),
        Column("method", "Change"),
        Column("value", title, unit),
        Column("count", "Components", "count"),
    ]
    rows: list[dict[str, Any]] = []
    valid = _valid(impact, metric) if not impact.empty else impact
    for (kind, method), group in valid.groupby(["kind", "method"], sort=False) if not valid.empty else ():
        known = [value for row in _records(group) if (value := _value(row)) is not None]
        # over the same examples, errors go the same way
        mean = total_of_same(known).scaled(1 / len(known)) if known else None
        rows.append(
            {
                "part": title_of(str(kind)),
                "kind": str(kind),
                "method": method_name(str(method)),
                "value": mean,
                "count": len(known),
                "id": str(method),
                "colour": _COLOURS.get(str(method)),
            }
        )
    order = {
        kind: max((row["value"].value for row in rows if row["kind"] == kind and row["value"]), default=0.0)
        for kind in {row["kind"] for row in rows}
    }
    rows.sort(key=lambda row: (-order[row["kind"]] if high_is_more(metric) else order[row["kind"]], row["kind"]))
    return Table(columns, rows, f"{title} by kind")


def _ranked(impact: pd.DataFrame) -> Iterator[Figure]:
    kl = _valid(impact, "kl")
    method = _first(kl, SENSITIVITIES)
    rows = kl[(kl["method"] == method) & kl["kind"].isin(_BLOCKS)].sort_values("value")
    if method is None or rows.empty:
        return
    rows = rows if len(rows) <= _MOST_RANKED else pd.concat([rows.head(_MOST_RANKED - 5), rows.tail(5)])
    columns = [Column("component", "Component", "code"), Column("part", "Kind"), Column("value", "KL (nats)", "")]
    records = [{**row, "part": title_of(row["kind"]), "value": _value(row)} for row in _records(rows)]
    table = Table(columns, records, f"Harm done by {method_name(method)}, component by component")
    chart = dots(table, "component", "value", log=True)
    title = f"Safest to quantize first ({method_name(method)})"
    yield Figure.of("quality-ranking", title, chart, table, "KL divergence; left is safe.")


def kind_figures(report: Report) -> Iterator[Figure]:
    """Yield impact by kind for each metric, with every removal and quantization in one chart."""
    impact = _measured(report)
    for metric, (title, _) in METRICS.items() if not impact.empty else ():
        caption = "Means over a kind's components, each changed alone; lines: 95 % intervals."
        yield from _kind_figure(f"impact-{metric}", title, metric, kinds_table(impact, metric), caption)


def _by_kind(by_kind: Mapping[str, Table]) -> Iterator[Figure]:
    """Yield impact by kind for each metric, removal and quantization beside each other."""
    for metric, table in by_kind.items():
        if metric == "output_change":
            continue
        for family, methods in (("removal", REMOVALS), ("quantization", QUANTIZATIONS)):
            rows = Table(table.columns, [row for row in table.rows if row["id"] in methods])
            title, caption = (
                f"{METRICS[metric][0]}: {family}",
                "Mean over a kind's components; lines: 95 % intervals.",
            )
            yield from _kind_figure(f"impact-{family}-{metric}", title, metric, rows, caption)


def _kind_figure(name: str, title: str, metric: str, table: Table, caption: str) -> Iterator[Figure]:
    if table:
        chart = dots(table, "part", "value", series="method", log=None if high_is_more(metric) else False)
        yield Figure.of(name, title, chart, table, caption)


def _by_layer(impact: pd.DataFrame) -> Iterator[Figure]:
    """Yield the KL of each block of each layer, removed."""
    kl = _valid(impact, "kl")
    method = _first(kl, REMOVALS)
    rows = kl[
        (kl["method"] == method)
        & kl["layer"].notna()
        & (kl["kind"] != "layer")
        & ~kl["component"].str.contains("#")
    ]
    if method is None or rows["layer"].nunique() < 2:
        return
    columns = [
        Column("component", "Component", "code"),
        Column("part", "Kind"),
        Column("layer", "Layer", "count"),
        Column("value", "KL (nats)", ""),
    ]
    tails = rows.apply(
        lambda row: str(row["component"]).partition(f".{int(row['layer'])}.")[2] or str(row["kind"]), axis=1
    )
    records = [
        {**row, "part": tail, "layer": int(row["layer"]), "value": _value(row)}
        for row, tail in zip(_records(rows), tails, strict=True)
    ]
    table = Table(columns, records)
    chart = grid(table, "part", "layer", "value", title="Layer")
    title, caption = f"Impact by layer, {method_name(method)}", "KL divergence when one component is removed."
    yield Figure.of("impact-by-layer", title, chart, table, caption)


def _quadrants(report: Report) -> Iterator[Figure]:
    """Yield energy against impact, with the medians that part the quadrants."""
    correlation = report.correlation
    points = correlation.get("points") or []
    if not points:
        return
    method, _, metric = str(correlation.get("impact")).partition(":")
    title, unit = METRICS.get(metric, (metric, ""))
    limits = correlation.get("quadrants") or {}
    columns = [
        Column("component", "Component", "code"),
        Column("energy", report.energy_title, "mJ"),
        Column("impact", f"{title}, {method_name(method)}", unit),
        Column("quadrant", "Quadrant"),
        Column("stability", "Stays there", "share", "share of resamples in which it keeps its quadrant"),
    ]
    rows = [
        {
            "component": point["component"],
            "kind": point["kind"],
            "name": _point_name(point["kind"], finite(point.get("layer"))),
            "energy": interval(point["energy_mj"], point.get("energy_ci_low_mj"), point.get("energy_ci_high_mj")),
            "impact": interval(point["impact"], point.get("impact_ci_low"), point.get("impact_ci_high")),
            "quadrant": point["quadrant"],
            "stability": point.get("stability"),
            "noisy": point["quadrant"] == UNDECIDED,
        }
        for point in sorted(points, key=lambda point: -point["energy_mj"])
    ]
    table = Table(columns, rows, "Energy against impact")
    axes = [
        Axis(key, guides=[] if (median := finite(limits.get(name))) is None else [median])
        for key, name in (("energy", "energy_threshold_mj"), ("impact", "impact_threshold"))
    ]
    chart = plane(table, *axes, name="name", corners=_CORNERS if high_is_more(metric) else None)
    caption = "Dashed: medians. Lines: 95 % intervals. Hollow: undecided."
    yield Figure.of("quality-quadrants", "Energy against impact", chart, table, caption)


def _point_name(kind: str, layer: float | None) -> str:
    if kind == "layer":
        return f"layer {layer or 0:.0f}"
    return title_of(kind) + ("" if layer is None else f" of layer {layer:.0f}")


def _advice(correlation: Mapping[str, Any]) -> Table:
    """Return what the measurements say to do about each component, most energy first."""
    rows = [
        {
            "component": entry.get("component"),
            "advice": str(entry.get("advice") or "none").replace("-", " ")
            + (" (unsure)" if entry.get("unsure") else ""),
            "quadrant": entry.get("quadrant"),
            "why": reasons.join(filter(None, (entry.get(key) for key in ("withheld_because", "why", "unsure")))),
            "energy": finite(entry.get("energy_mj")),
            "impact": finite(entry.get("impact")),
        }
        for entry in correlation.get("advice") or []
    ]
    columns = [
        Column("component", "Component", "code"),
        Column("advice", "Recommended"),
        Column("quadrant", "Quadrant"),
        Column("energy", "Energy", "mJ"),
        Column("impact", "Impact", ""),
        Column("why", "Why", "reasons"),
    ]
    by = impact_name(str(correlation.get("advice_column")))
    return Table(columns, rows, f"Recommended for each component, by {by}")


def impact_table(impact: pd.DataFrame) -> Table:
    """Return every impact that was measured, a row for each component, method and metric."""
    columns = [
        Column("component", "Component", "code"),
        Column("kind", "Kind"),
        Column("method", "Change"),
        Column("metric", "Metric"),
        Column("value", "Value", ""),
        Column("examples", "Examples", "count", rank=1),
        Column("reasons", "Reasons", "reasons", rank=2),
    ]
    rows: list[Row] = [
        {**row, "method": method_name(row["method"]), "value": _value(row) if row["valid"] else None}
        for row in _records(impact)
    ]
    return Table(columns, rows, "Impact of every change")


def _invalid(impact: pd.DataFrame) -> Table:
    invalid = impact[~impact["valid"].astype(bool)]
    groups = invalid.groupby(invalid["reasons"].map(lambda reasons: str(reasons or "")), sort=False)
    rows: list[dict[str, Any]] = [
        {
            "reasons": reason,
            "count": len(group),
            "methods": ", ".join(dict.fromkeys(map(method_name, group["method"]))),
            "kinds": ", ".join(dict.fromkeys(map(title_of, group["kind"]))),
        }
        for reason, group in groups
    ]
    rows.sort(key=lambda row: -row["count"])
    columns = [
        Column("reasons", "Why there is no value", "reasons"),
        Column("count", "Rows", "count"),
        Column("kinds", "Kinds"),
        Column("methods", "Changes"),
    ]
    return Table(columns, rows, "Impact without a value")
