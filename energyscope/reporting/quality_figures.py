"""The benchmark's figures of what a precision costs in quality, and of what it takes in memory."""

from __future__ import annotations

import math

from energyscope.reporting import text
from energyscope.reporting.charts import benchmark as charts
from energyscope.reporting.charts.benchmark import Bar
from energyscope.reporting.data.benchmark import BenchmarkData, Precision, Prediction
from energyscope.reporting.data.benchmark_words import (
    POINTS,
    change_of,
    change_text,
    judged_on,
    place_text,
    quality_text,
)
from energyscope.reporting.data.impact_words import limited_text
from energyscope.reporting.figure import Figure, Table
from energyscope.runs.intervals import Interval

INNER = "Thick: that of the difference from the baseline, both on the same examples."


def quality_figure(data: BenchmarkData) -> Figure | None:
    """Draw accuracy or perplexity as dots; None where nothing was predicted."""
    if not data.predictions or data.metric is None:
        return None
    accurate = data.metric == "accuracy"
    bars = [_quality_bar(item, data) for item in data.predictions]
    name, better = data.metric.capitalize(), "more" if accurate else "less"
    summary = charts.described(bars, name, "%" if accurate else "")
    unit = f" ({POINTS})" if accurate else ""
    return Figure(
        name="benchmark-quality",
        section="benchmark",
        title=name,
        caption=f"{judged_on(data)}{better.capitalize()} is better. Thin: each "
        f"value's 95 % interval. {INNER if any(bar.inner for bar in bars) else ''}".rstrip(),
        summary=summary,
        chart=charts.dots(bars, f"{name} (%)" if accurate else name, summary),
        table=Table(["precision", data.metric, f"change against the baseline{unit}", "KL (nats)", "same answers"],
                    [_quality_row(item) for item in data.predictions]),
    )  # fmt: skip


def paired_limits(item: Prediction, shown: Interval) -> tuple[float, float] | None:
    """Return the limits of the difference from the baseline, laid around the value as it is ``shown``."""
    change = change_of(item)
    if change is None or change.low is None or change.high is None:
        return None
    return shown.value - change.below, shown.value + change.above


def drawn_quality(item: Prediction) -> tuple[Interval, tuple[float, float] | None]:
    """Return the quality with its limits, and the paired limits around it, as they are drawn.

    None of them leaves what can be: 0 to 100 % for an accuracy, at least 1 for a perplexity.
    """
    accurate = item.metric == "accuracy"
    least, most = (0.0, 100.0) if accurate else (1.0, math.inf)
    shown = item.value.scaled(100.0 if accurate else 1.0)

    def within(value: float) -> float:
        return min(max(value, least), most)

    drawn = Interval(shown.value, *(None if end is None else within(end) for end in (shown.low, shown.high)))
    inner = paired_limits(item, shown)
    return drawn, inner and (within(inner[0]), within(inner[1]))


def _quality_bar(item: Prediction, data: BenchmarkData) -> Bar:
    shown, inner = drawn_quality(item)
    places = 1 if item.metric == "accuracy" else min(text.places(shown) + 1, 3)
    return Bar(
        precision=item.precision, title=item.title, value=shown.value, low=shown.low, high=shown.high,
        label=f"{shown.value:,.{places}f}", said=quality_text(item.value, item.metric),
        inner=inner, baseline=item.precision == data.baseline,
    )  # fmt: skip


def _quality_row(item: Prediction) -> list[str]:
    return [
        item.title, quality_text(item.value, item.metric),
        change_text(item) if item.difference else "\u2013",
        limited_text(item.kl, "kl") if item.kl else "\u2013",
        text.percent_with_limits(item.agreement) if item.agreement else "\u2013",
    ]  # fmt: skip


def size_figure(data: BenchmarkData) -> Figure | None:
    """Draw the size of the model and the peak memory; None where no size is known."""
    known = [(item, _peak(data, item)) for item in data.precisions if item.size_mb is not None]
    if not known:
        return None
    most = max(value for item, peak in known for value in (item.size_mb, peak) if value is not None)
    divisor, unit = (1e3, "GB") if most >= 1e3 else (1.0, "MB")
    bars = [_size_bar(item, peak, data, divisor) for item, peak in known]
    split = any(peak is not None for _, peak in known)
    summary = charts.described(bars, "Size of the model" + (" / peak memory" if split else ""), unit)
    title = [f"Memory ({unit})", "slim model, pale peak"] if split else [f"Size of the model ({unit})"]
    return Figure(
        name="benchmark-size",
        section="benchmark",
        title="Size and peak memory" if split else "Size",
        caption=_size_caption(data, split=split),
        summary=summary,
        chart=charts.bars(bars, title, summary),
        table=Table(["precision", "model", "peak allocated", "stored as"],
                    [[item.title, _megabytes(item.size_mb), _megabytes(peak), item.dtype]
                     for item, peak in known]),
    )  # fmt: skip


def _size_caption(data: BenchmarkData, *, split: bool) -> str:
    peak = f"Slim bars: weights and buffers; pale: the most memory allocated. {place_text(data)}"
    return (peak if split else "Weights and buffers. ") + "1 MB is 10\u2076 bytes."


def _size_bar(item: Precision, peak: float | None, data: BenchmarkData, divisor: float) -> Bar:
    size = (item.size_mb or 0.0) / divisor
    behind = None if peak is None else peak / divisor
    return Bar(
        precision=item.name, title=item.title, value=size, low=None, high=None,
        label=charts.values_label(size, behind), said=f"{_megabytes(item.size_mb)}, peak {_megabytes(peak)}",
        behind=behind, baseline=item.name == data.baseline,
    )  # fmt: skip


def _peak(data: BenchmarkData, item: Precision) -> float | None:
    """Return the peak memory at the first batch size and length, MB."""
    cell = next((cell for cell in data.first if cell.precision == item.name), None)
    return None if cell is None or cell.peak_allocated_gb is None else cell.peak_allocated_gb * 1e3


def _megabytes(value: float | None) -> str:
    return text.UNKNOWN if value is None else f"{text.number(value)} MB"
