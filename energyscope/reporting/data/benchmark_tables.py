"""The benchmark's numbers as tables of text: every metric of every cell, and how each precision was made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from energyscope.reporting import text
from energyscope.reporting.data.benchmark import BenchmarkCell, BenchmarkData, Precision, precision_title
from energyscope.reporting.data.benchmark_method import method_sentence, settings_sentence, subtitle_parts
from energyscope.reporting.data.benchmark_pass_words import twice_said
from energyscope.reporting.data.benchmark_words import (
    NOT_THE_KERNELS,
    POINTS,
    change_text,
    energy_word,
    judged_on,
    legend,
    quality_text,
    said,
    shape_text,
)
from energyscope.reporting.data.impact_words import limited_text
from energyscope.reporting.figure import Table
from energyscope.runs.intervals import Interval

DASH = "\u2013"
REMEDY = "More trials (--trials), longer ones (--num-iters) or a quieter machine narrow an interval."


@dataclass(frozen=True)
class BenchmarkPage:
    """What the report writes beside the charts; ``tables`` are one for each batch size and length, with titles.

    ``speeds`` has the speed-ups and energy ratios of all batch sizes and lengths, None where there is only one.
    ``twice`` holds the profile's energy against the benchmark's; it is empty where they are of other passes.
    """

    said: list[str]
    twice: str
    legend: str
    unpredicted: str
    skipped: list[tuple[str, str]]
    tables: list[tuple[str, Table]]
    speeds: Table | None
    reasons: list[str]
    precisions: Table
    how: str
    judged: str
    method: str
    subtitle: list[str]
    foreign: str


def benchmark_page(data: BenchmarkData) -> BenchmarkPage:
    """Gather the sentences and tables of the report's section."""
    return BenchmarkPage(
        said=said(data),
        twice=twice_said(data.twice),
        legend=legend(data),
        unpredicted="" if data.predictions else _unpredicted(data),
        skipped=[(precision_title(name), reason) for name, reason in data.skipped],
        tables=[(f"At {shape_text(shape)}", cells_table(data, shape)) for shape in data.shapes],
        speeds=speeds_table(data) if len(data.shapes) > 1 and data.baseline else None,
        reasons=reasons(data),
        precisions=precisions_table(data),
        how=settings_sentence(data),
        judged=judged_on(data),
        method=method_sentence(data),
        subtitle=subtitle_parts(data),
        foreign=f"* {NOT_THE_KERNELS[:1].upper()}{NOT_THE_KERNELS[1:]}." if data.foreign else "",
    )


def _unpredicted(data: BenchmarkData) -> str:
    start = "RANDOM WEIGHTS: no accuracy or perplexity" if data.random else "No accuracy or perplexity"
    reason = f": {data.predictions_reason}" if data.predictions_reason else ""
    return f"{start}{reason}".rstrip(".") + "."


def cells_table(data: BenchmarkData, shape: tuple[int, int]) -> Table:
    """Return all metrics of one batch size and length: a row for each metric, a column for each precision."""
    cells = data.at(shape)
    rows = [
        [name, *(_value(cell, key, unit, factor, data) for cell in cells)]
        for name, key, unit, factor in _metrics(data)
        if any(getattr(cell, key) is not None for cell in cells)
    ]
    rows += [[name, *map(write, cells)] for name, write in _PLAIN]
    if data.predictions:
        rows += _predictions(data, cells)
    return Table(["", *(cell.marked_title for cell in cells)], rows)


def _metrics(data: BenchmarkData) -> list[tuple[str, str, str, float]]:
    word, joule = energy_word(data), "modelled joule" if data.modelled else "joule"
    return [
        ("Latency, mean", "latency_s", "us", 1e6),
        ("Latency, median", "median_latency_s", "us", 1e6),
        ("Latency, p95", "p95_latency_s", "us", 1e6),
        ("Latency, p99", "p99_latency_s", "us", 1e6),
        ("Speed-up", "speedup", "", 1.0),
        ("Sequences per second", "throughput", "", 1.0),
        ("Tokens per second", "tokens_per_s", "", 1.0),
        ("Stated power" if data.modelled else "Mean power", "power_w", "W", 1.0),
        (f"{word} per inference", "energy_mj", "mJ", 1.0),
        ("of it dynamic (without idle power)", "dynamic_energy_mj", "mJ", 1.0),
        (f"{word} against the baseline", "energy_ratio", "", 1.0),
        (f"Inferences per {joule}", "inferences_per_joule", "", 1.0),
        (f"Tokens per {joule}", "tokens_per_joule", "", 1.0),
        (f"{word} \u00d7 delay", "energy_delay_product_js", "mJ\u00b7s", 1e3),
    ]


def _value(cell: BenchmarkCell, key: str, unit: str, factor: float, data: BenchmarkData) -> str:
    item: Interval | None = getattr(cell, key)
    if key == "power_w" and data.modelled and item is not None:
        return f"{text.quantity(item.value * factor, unit)} (stated)"
    return _interval(item, unit, factor)


def _interval(item: Interval | None, unit: str, factor: float) -> str:
    if item is None:
        return DASH
    exact = item.low == item.value == item.high  # as the baseline against itself is
    return text.amount(Interval(item.value * factor) if exact else item.scaled(factor), unit)


def _memory(cell: BenchmarkCell) -> str:
    return DASH if cell.peak_allocated_gb is None else f"{text.number(cell.peak_allocated_gb)} GB"


def _share(value: float | None) -> str:
    return DASH if value is None else text.percent(value)


_PLAIN: tuple[tuple[str, Callable[[BenchmarkCell], str]], ...] = (
    ("Peak memory allocated", _memory),
    ("Spread of the energy over trials", lambda cell: _share(cell.energy_spread)),
    ("Trials", lambda cell: DASH if cell.trials is None else str(cell.trials)),
    ("Grade", lambda cell: cell.quality),
)


def _predictions(data: BenchmarkData, cells: Sequence[BenchmarkCell]) -> list[list[str]]:
    """Return the rows on predictions, which are the same at every batch size and length."""
    found = [data.prediction(cell.precision) for cell in cells]
    metric = data.metric or ""
    unit = f", {POINTS}" if metric == "accuracy" else ""
    return [
        [metric.capitalize(), *(quality_text(item.value, metric) if item else DASH for item in found)],
        [f"Change against the baseline{unit}",
         *(change_text(item) if item and item.difference else DASH for item in found)],
        ["KL from the baseline (nats)",
         *(limited_text(item.kl, "kl") if item and item.kl else DASH for item in found)],
        ["Same answers as the baseline",
         *(text.percent_with_limits(item.agreement) if item and item.agreement else DASH for item in found)],
        ["Examples", *(_examples(item.examples, item.correct) if item else DASH for item in found)],
    ]  # fmt: skip


def _examples(examples: int | None, correct: int | None) -> str:
    if examples is None:
        return DASH
    return f"{examples:,}" + (f" ({correct:,} correct)" if correct is not None else "")


def reasons(data: BenchmarkData) -> list[str]:
    """Return why cells were graded down, the same reason of a precision once, with where that was."""
    found: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for cell in data.cells:
        if cell.reasons:
            found.setdefault((cell.title, cell.quality, cell.reasons), []).append(cell.shape)
    said = [
        f"{title} is {quality}{_where(shapes, len(data.shapes))}: {why}."
        for (title, quality, why), shapes in found.items()
    ]
    return said + ([REMEDY] if any(cell.invalid for cell in data.cells) else [])


def _where(shapes: Sequence[tuple[int, int]], of: int) -> str:
    if of == 1:
        return ""
    return f" at {shape_text(shapes[0])}" if len(shapes) == 1 else f" at {len(shapes)} of {of} shapes"


def speeds_table(data: BenchmarkData) -> Table:
    """Return the speed-up and the energy ratio of each precision at each batch size and length."""
    others = [name for name in data.order if name != data.baseline]
    word = energy_word(data).lower()
    columns = [f"{precision_title(name)}: {what}" for name in others for what in ("speed-up", word)]
    return Table(["at", *columns], [[shape_text(shape), *_ratios(data, shape, others)] for shape in data.shapes])


def _ratios(data: BenchmarkData, shape: tuple[int, int], names: Sequence[str]) -> list[str]:
    found = {cell.precision: cell for cell in data.at(shape)}
    cells = [found.get(name) for name in names]
    pairs = [(cell.speedup, cell.energy_ratio) if cell else (None, None) for cell in cells]
    return [_interval(item, "", 1.0) for pair in pairs for item in pair]


def precisions_table(data: BenchmarkData) -> Table:
    """Return how each precision was made, and those that were skipped with why."""
    rows = [
        [item.title, item.implementation, item.dtype, _count(item), _megabytes(item), _seconds(item),
         "; ".join(item.notes) or DASH]
        for item in data.precisions
    ]  # fmt: skip
    columns = ["precision", "implementation", "weights stored as", "parameters", "size", "loaded in", "notes"]
    return Table(columns, rows)


def _count(item: Precision) -> str:
    return DASH if item.parameters is None else f"{item.parameters:,.0f}"


def _megabytes(item: Precision) -> str:
    return DASH if item.size_mb is None else f"{text.number(item.size_mb)} MB"


def _seconds(item: Precision) -> str:
    return DASH if item.load_seconds is None else text.quantity(item.load_seconds * 1e6, "us")
