"""How the benchmark measured, in sentences: its method, its settings, and what the trials really had."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.data.benchmark import BenchmarkData
from energyscope.reporting.data.benchmark_words import shape_text

_METHOD = (
    "The benchmark ran whole forward passes one by one, the device synchronised after each of them, on inputs "
    "that were on the device before. Its trials were "
    "taken in shuffled blocks, so that a drift meets every precision alike. "
)
_MEASURED = "Energy is that between ticks of the meter's counter, divided by the passes between the same ticks."
_MODELLED = "Energy is MODELLED: time multiplied by the stated watts."


def settings_sentence(data: BenchmarkData) -> str:
    """Return in a sentence how it was measured, as far as the settings say."""
    known = data.settings
    trials, iterations, warm = (known.get(key) for key in ("trials", "num_iters", "warmup_steps"))
    seconds = known.get("trial_seconds")
    parts = []
    if trials:
        each = f"{iterations:,} inferences" if iterations else "many inferences"
        each += f" or about {seconds:g} s, whichever is less" if seconds else ""
        each += _taken(data, iterations)
        parts.append(f"{text.count(trials, 'trial')} of {each} for each precision, batch size and length")
    if warm is not None:
        until = f"after {text.count(warm, 'warm-up step')} and until the latency was stable"
        parts.append(until if warm else "without a warm-up")
    return " ".join(parts) + "." if parts else ""


def _taken(data: BenchmarkData, asked: int | None) -> str:
    """Return how many inferences the trials really had, where that is not what was asked for."""
    if data.iterations is None or data.iterations == (asked, asked):
        return ""
    low, high = data.iterations
    had = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    why = ": a trial lasts at least as long as the meter needs" if asked is None or high > asked else ""
    return f" ({had} each{why})"


def method_sentence(data: BenchmarkData) -> str:
    """Return in words how the benchmark measured."""
    return _METHOD + (_MODELLED if data.modelled else _MEASURED)


def subtitle_parts(data: BenchmarkData) -> list[str]:
    """Return what a run that was only a benchmark compared: how many precisions, at which shapes."""
    precisions = text.count(len(data.order), "precision")
    if len(data.shapes) == 1:
        return [precisions, shape_text(data.shapes[0])]
    batches = text.listed([str(batch) for batch in sorted({shape[0] for shape in data.shapes})], 6)
    lengths = text.listed([str(length) for length in sorted({shape[1] for shape in data.shapes})], 6)
    return [precisions, f"{len(data.shapes)} shapes: batch {batches}, {lengths} tokens"]
