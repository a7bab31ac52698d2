"""What another precision saves, from the benchmark of the same run, and what it does to the predictions. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.advising import words
from energyscope.advising.said import GOOD, Advice, saved
from energyscope.runs.intervals import Interval, ratio

Cell = Mapping[str, Any]


def precision_advice(own: str, benchmark: Mapping[str, Any] | None) -> list[Advice]:
    """Return a sentence on each precision that saves joules beside the run's ``own``, or one that none does.

    Cells are compared at the run's batch size and length, the first in the benchmark. Against the baseline, the
    benchmark's paired ratio is taken; else the ratio of two cells as if they were independent.
    """
    cells = _same_shape((benchmark or {}).get("cells") or [])
    base = next((cell for cell in cells if cell["precision"] == own), None)
    if benchmark is None or base is None:
        return []
    found = []
    for cell in cells:
        item = _ratio(cell, base, benchmark.get("baseline"))
        if cell is not base and item is not None:
            found.append(_sentence(cell, base, item, _predictions(benchmark, cell["precision"])))
    savers = [one for one in found if one.confident and _saving(one) > 0]
    return savers or _none_saves(found, own)


def _same_shape(cells: Sequence[Cell]) -> list[Cell]:
    shapes = [(cell["batch_size"], cell["sequence_length"]) for cell in cells]
    return [cell for cell, shape in zip(cells, shapes, strict=True) if shape == shapes[0]]


def _ratio(cell: Cell, base: Cell, baseline: str | None) -> Interval | None:
    if base["precision"] == baseline:
        return words.limited(cell["energy_ratio"])
    energies = [words.limited(one["energy_mj"]) for one in (cell, base)]
    return ratio(energies[0], energies[1]) if energies[0] and energies[1] else None


def _sentence(cell: Cell, base: Cell, item: Interval, predictions: str) -> Advice:
    tokens = cell["batch_size"] * cell["sequence_length"]
    energies = [words.joules(_per_token(one, tokens)) for one in (cell, base)]
    shape = f"in passes over {cell['batch_size']} x {cell['sequence_length']} tokens"
    between = f"{energies[0]} against {energies[1]} per token {shape}"
    good = cell["quality"] in GOOD and base["quality"] in GOOD
    if not good or not item.excludes(1.0):
        sentence = (
            f"Whether {cell['precision']} or {base['precision']} takes fewer joules cannot be told: {between}."
        )
        return Advice("precision", sentence, saved(item), confident=False)
    much = f"saves {words.percent(1 - item.value)} of" if item.value < 1 else f"takes {words.ratio(item)} times"
    sentence = (
        f"The precision {cell['precision']} instead of {base['precision']} {much} the joules: {between}; "
        f"{predictions}."
    )
    return Advice("precision", sentence, saved(item), confident=True)


def _per_token(cell: Cell, tokens: int) -> Interval:
    item = words.limited(cell["energy_mj"]) or Interval(float("nan"))
    return item.scaled(1e-3 / tokens)


def _none_saves(found: Sequence[Advice], own: str) -> list[Advice]:
    """Return the advice nearest to a saving, where no precision saves anything that could be told."""
    if not found:
        return []
    best = max(found, key=_saving)
    if not best.confident:
        return [best]
    sentence = f"No precision that was measured saves joules beside {own}. The nearest: {best.sentence}"
    return [Advice("precision", sentence, best.saving, confident=True)]


def _saving(one: Advice) -> float:
    value = None if one.saving is None else one.saving["value"]
    return float("-inf") if value is None else value


def _predictions(benchmark: Mapping[str, Any], precision: str) -> str:
    """Say what a precision does to the predictions, against the benchmark's baseline."""
    baseline = benchmark.get("baseline")
    judged = next((one for one in benchmark.get("predictions") or [] if one["precision"] == precision), None)
    if precision == baseline:
        return "it is what the predictions of the others were compared with"
    if judged is None:
        return "what it does to the predictions was not measured"
    parts = []
    agreement, change = words.limited(judged.get("agreement")), words.limited(judged.get("difference"))
    if agreement is not None:
        parts.append(f"{100 * agreement.value:.1f} % of the predictions are those of {baseline}")
    if change is not None:
        parts.append(f"{judged['metric']} differs by {change.value:+.3g}{_span(change)}")
    return " and ".join(parts) or "how it changes the predictions is not known"


def _span(item: Interval) -> str:
    return "" if item.low is None or item.high is None else f" [{item.low:+.3g}, {item.high:+.3g}]"
