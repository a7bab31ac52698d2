"""The benchmark's precisions in the plane: quality (or energy) against latency, and sweeps over shapes."""

from __future__ import annotations

from collections.abc import Callable

from energyscope.reporting import text
from energyscope.reporting.charts import benchmark_plane as charts
from energyscope.reporting.charts.benchmark_plane import Spot, Step
from energyscope.reporting.data.benchmark import BenchmarkCell, BenchmarkData
from energyscope.reporting.data.benchmark_words import FOREIGN, clipped, energy_word, quality_text, shape_text
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.quality_figures import INNER, drawn_quality
from energyscope.runs.intervals import Interval

TRADEOFF, SWEEP = "benchmark-tradeoff", "benchmark-sweep"
HOLLOW = " Hollow points: the energy is below grade C, which says nothing of the latency."


def plane_figures(data: BenchmarkData) -> list[Figure]:
    """Draw the trade-off of at least two precisions, and a sweep for each dimension that has several values."""
    found = [_quality_tradeoff(data) if data.predictions else _energy_tradeoff(data)]
    found += [_sweep(data, *what) for what in _SWEEPS]
    return [figure for figure in found if figure is not None]


def _latencies(data: BenchmarkData) -> tuple[float, str]:
    """Return the divisor of seconds and the unit in which the first cells' latencies are best read."""
    most = max((cell.latency_s.value for cell in data.first if cell.latency_s), default=1.0)
    divisor, unit = text.scale_of(most * 1e6, "us")
    return divisor / 1e6, unit


def _quality_tradeoff(data: BenchmarkData) -> Figure | None:
    divisor, unit = _latencies(data)
    metric = data.metric or ""
    pairs = [
        (cell, cell.latency_s, item)
        for cell in data.first
        if cell.latency_s and (item := data.prediction(cell.precision)) is not None
    ]
    if len(pairs) < 2:
        return None
    spots = [
        Spot(cell.precision, cell.marked_title, latency.scaled(1 / divisor), shown,
             f"{_latency(latency)}; {quality_text(item.value, metric)}", inner=inner)
        for cell, latency, item in pairs
        for shown, inner in [drawn_quality(item)]
    ]  # fmt: skip
    name = metric.capitalize()
    corner = "Upper left is better" if metric == "accuracy" else "Lower left is better"
    summary = f"{name} against latency: " + "; ".join(f"{spot.title} {spot.said}" for spot in spots)
    title = f"{name} (%)" if metric == "accuracy" else name
    return Figure(
        name=TRADEOFF,
        section=TRADEOFF,
        title=f"{name} against latency",
        caption=f"{corner}. At {shape_text(data.shapes[0])}. Thin: each value's 95 % interval. "
        f"{INNER if any(spot.inner for spot in spots) else ''}".rstrip() + clipped(item for _, item, _ in pairs),
        summary=summary,
        chart=charts.plane(spots, (_marked(f"Latency per inference ({unit})", data), title), summary),
        table=Table(["precision", "latency", metric],
                    [[cell.title, _latency(latency), quality_text(item.value, metric)]
                     for cell, latency, item in pairs]),
    )  # fmt: skip


def _marked(title: str, data: BenchmarkData) -> str | list[str]:
    """Return the title of an axis, with a second line that explains marked names where there are any."""
    return [title, FOREIGN] if data.foreign else title


def _latency(item: Interval) -> str:
    return text.amount(item.scaled(1e6), "us")


def _energy_tradeoff(data: BenchmarkData) -> Figure | None:
    pairs = [
        (cell, cell.latency_s, cell.energy_mj)
        for cell in data.first
        if cell.latency_s and cell.energy_mj is not None
    ]
    if len(pairs) < 2:
        return None
    divisor, unit = _latencies(data)
    joules, joule_unit = text.scale_of(max(energy.value for _, _, energy in pairs), "mJ")
    spots = [
        Spot(cell.precision, cell.marked_title, latency.scaled(1 / divisor), energy.scaled(1 / joules),
             f"{_latency(latency)}; {text.amount(energy, 'mJ')}", cell.invalid)
        for cell, latency, energy in pairs
    ]  # fmt: skip
    word = energy_word(data)
    summary = f"{word} against latency: " + "; ".join(f"{spot.title} {spot.said}" for spot in spots)
    hollow = HOLLOW if any(spot.weak for spot in spots) else ""
    return Figure(
        name=TRADEOFF,
        section=TRADEOFF,
        title=f"{word} against latency",
        caption=f"Lower left is better. At {shape_text(data.shapes[0])}; 95 % intervals.{hollow}"
        + clipped(item for _, *both in pairs for item in both),
        summary=summary,
        chart=charts.plane(
            spots,
            (_marked(f"Latency per inference ({unit})", data), f"{word} per inference ({joule_unit})"),
            summary,
        ),
        table=Table(["precision", "latency", "energy"],
                    [[cell.title, _latency(latency), text.amount(energy, "mJ")]
                     for cell, latency, energy in pairs]),
        notes=_no_predictions(data),
    )  # fmt: skip


def _no_predictions(data: BenchmarkData) -> list[str]:
    return [f"No predictions: {data.predictions_reason}."] if data.predictions_reason else []


def _latency_of(cell: BenchmarkCell) -> Interval | None:
    return None if cell.latency_s is None else cell.latency_s.scaled(1e6)


def _tokens_of(cell: BenchmarkCell) -> Interval | None:
    return None if cell.invalid else cell.tokens_per_joule


_Value = Callable[[BenchmarkCell], Interval | None]
# along: 0 for batch sizes, 1 for lengths; the other one stays at its first value
_SWEEPS: tuple[tuple[int, str, _Value, str], ...] = (
    (0, "latency", _latency_of, "us"),
    (0, "tokens-per-joule", _tokens_of, ""),
    (1, "latency", _latency_of, "us"),
    (1, "tokens-per-joule", _tokens_of, ""),
)


def _sweep(data: BenchmarkData, along: int, what: str, value: _Value, unit: str) -> Figure | None:
    fixed = data.shapes[0][1 - along]
    found = [
        (cell, item)
        for cell in data.cells
        if cell.shape[1 - along] == fixed and (item := value(cell)) is not None and item.value > 0
    ]
    if len({cell.shape[along] for cell, _ in found}) < 2:
        return None
    divisor, name = text.scale_of(max(item.value for _, item in found), unit)
    steps = [
        Step(
            cell.precision,
            cell.marked_title,
            cell.shape[along],
            item.scaled(1 / divisor),
            text.amount(item, unit),
        )
        for cell, item in found
    ]
    axis, over = (("Batch size", "batch size"), ("Length (tokens)", "length"))[along]
    held = text.count(fixed, "token") if along == 0 else f"batch {fixed}"
    latency = what == "latency"
    title = f"Latency per inference ({name})" if latency else _tokens_title(data)
    summary = f"{title} over the {over}, at {held}"
    return Figure(
        name=f"{SWEEP}-{('batch', 'length')[along]}-{what}",
        section=SWEEP,
        title=f"{'Latency' if latency else 'Tokens per joule'} by {over}",
        caption=f"At {held}; 95 % intervals. {'Less' if latency else 'More'} is better."
        + clipped(item for _, item in found),
        summary=summary,
        chart=charts.sweep(steps, (_marked(axis, data), title), summary),
        table=_by_step(steps, over),
    )


def _tokens_title(data: BenchmarkData) -> str:
    return "Tokens per modelled joule" if data.modelled else "Tokens per joule"


def _by_step(steps: list[Step], over: str) -> Table:
    places = sorted({step.along for step in steps})
    rows = []
    for title in dict.fromkeys(step.title for step in steps):
        said = {step.along: step.said for step in steps if step.title == title}
        rows.append([title, *(said.get(place, text.UNKNOWN) for place in places)])
    return Table(["precision", *(f"{over} {place:,}" for place in places)], rows)
