"""The top of the report of a run of which only the benchmark was measured: what its baseline takes."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.data.benchmark import BenchmarkCell, BenchmarkData, precision_title
from energyscope.reporting.data.headline import Metric, grade_tone, metric


def benchmark_headline(data: BenchmarkData | None) -> list[Metric]:
    """Return what an inference of the baseline takes at the first batch size and length, and what takes least."""
    if data is None:
        return []
    cells = data.first
    base = next((cell for cell in cells if cell.precision == data.baseline), cells[0])
    title = precision_title(base.precision)
    word = "Modelled energy" if data.modelled else "Energy"
    tokens = base.batch_size * base.sequence_length
    shape = f"batch {base.batch_size}, {base.sequence_length:,} tokens"
    found = [metric(f"{word} per inference, {title}", base.energy_mj, "mJ", shape)]
    if base.energy_mj:
        each = base.energy_mj.scaled(1000 / tokens)
        found.append(metric(f"{word} per 1,000 tokens, {title}", each, "mJ", f"{tokens:,} tokens an inference"))
    latency = base.latency_s.scaled(1e6) if base.latency_s else None
    found.append(metric(f"Latency, {title}", latency, "us"))
    found.append(metric("Stated power" if data.modelled else "Mean power", base.power_w, "W", title))
    found += _least(cells, base, data)
    note = "A is best; what does not reach C is invalid"
    return [
        *found,
        Metric("Quality grade", base.quality, f"of {title}'s energy", note, tone=grade_tone(base.quality)),
    ]


def _least(cells: list[BenchmarkCell], base: BenchmarkCell, data: BenchmarkData) -> list[Metric]:
    """Return the precision whose energy is least against the baseline's, where that is known and less."""
    graded = [(cell.energy_ratio, cell) for cell in cells if cell.quality != "invalid" and cell is not base]
    known = [(ratio, cell) for ratio, cell in graded if ratio is not None]
    if not known:
        return []
    ratio, cell = min(known, key=lambda pair: pair[0].value)
    if ratio.high is None or ratio.high >= 1:
        return []
    word = "Least modelled energy" if data.modelled else "Least energy"
    detail = f"{text.amount(ratio, '')} of {precision_title(base.precision)}'s"
    return [Metric(word, precision_title(cell.precision), detail, text.amount(cell.energy_mj, "mJ"))]
