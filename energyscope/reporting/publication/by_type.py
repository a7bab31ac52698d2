"""Impact by type of component: removal and quantization apart, with the intervals of the means."""

from __future__ import annotations

from dataclasses import replace

from energyscope.reporting.charts import impact
from energyscope.reporting.data.impact import ImpactData, KindImpact
from energyscope.reporting.data.impact_words import metric_title
from energyscope.reporting.publication.sheet import Panel
from energyscope.runs.intervals import Interval, total_of_same

FAMILIES = (("removals", "Removal"), ("quantizations", "Quantization"))
MOST_HEIGHT = 900.0  # of all rows together, in the charts' pixels: a page of print
_PITCH, _LOW_PITCH, _MARGIN = 13, 10, 90


def impact_rows(data: ImpactData) -> tuple[list[list[Panel]], list[str]]:
    """Return a row of panels for each metric, removal beside quantization, and what did not fit on a page."""
    shown = replace(data, kinds=[_with_interval(entry, data) for entry in data.kinds])
    rows: list[list[Panel]] = []
    left_out: list[str] = []
    height = 0.0
    for metric in (name for name in data.metrics if name != "top1_agreement"):
        row = [panel for family, title in FAMILIES if (panel := _panel(shown, family, title, metric)) is not None]
        if not row:
            continue
        needed = max(panel.height or 0.0 for panel in row) + _MARGIN
        if rows and height + needed > MOST_HEIGHT:
            left_out.append(f"without {metric_title(metric)}: no room on a page")
            continue
        rows.append(row)
        height += needed
    return rows, left_out


def mean_interval(values: list[Interval]) -> Interval:
    """Return the mean of impacts over the same examples; errors are added as if they went the same way."""
    return total_of_same(values).scaled(1 / len(values))


def _with_interval(entry: KindImpact, data: ImpactData) -> KindImpact:
    """Return a kind's mean with its interval where the report shows its smallest and largest component."""
    values = [point.value for point in data.chosen(entry.method, entry.metric) if point.kind == entry.kind]
    mean = mean_interval(values)
    low, high = (mean.value if end is None else end for end in (mean.low, mean.high))
    return replace(entry, low=low, high=high)


def _panel(data: ImpactData, family: str, title: str, metric: str) -> Panel | None:
    methods = list(getattr(data, family))[: impact.MOST_METHODS]
    entries = [entry for entry in data.of_metric(metric) if entry.method in methods]
    if not entries:
        return None
    chart = impact.by_kind(data, metric, metric_title(metric), methods)
    pitch = _PITCH if len(methods) < 3 else _LOW_PITCH
    return Panel(f"{title}: {metric_title(metric).partition(' (')[0]}", chart, height=pitch * len(entries) + 24)
