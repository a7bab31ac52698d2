"""How runs differ, for the terminal: generations first, then whole models and components."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.runs.compare import Comparison, Difference, GenerationComparison, PairComparison
from energyscope.runs.compare_difference import NO_INTERVAL
from energyscope.runs.intervals import Interval

MOST_DIFFERENCES = 15
_MOST_PLACES = 6
_STYLES = {"less": "green", "more": "red", "no difference shown": "", "not comparable": "yellow"}
_BETTER_LARGER = {"tokens per joule", "accuracy"}
_OPPOSITE = {"green": "red", "red": "green"}


def comparison_table(comparison: Comparison) -> RenderableType:
    """Return what stands in the way, then the differences of every run from the baseline."""
    parts: list[RenderableType] = [Text(said, style="bold yellow") for said in comparison.unfinished]
    parts += [Text(f"warning: {said}", style="yellow") for said in comparison.warnings]
    said: set[tuple[str, str]] = set()  # notes that stand above already
    for generation in comparison.generations:
        parts += _heading(generation, ", a whole generation", said)
        parts.append(_differences("Generation", generation.rows))
    for pair in comparison.pairs:
        parts += _heading(pair, f", {pair.scene}" if pair.scene else "", said)
        if pair.whole:
            parts.append(_differences("Whole model", pair.whole))
        if pair.parts:
            parts.append(_parts(pair))
    return Group(*parts, *_unmeasured(comparison.pairs))


def _heading(
    pair: PairComparison | GenerationComparison, at: str, said: set[tuple[str, str]]
) -> list[RenderableType]:
    notes = [note for note in pair.notes if (pair.other, note) not in said]
    said |= {(pair.other, note) for note in notes}
    return [
        Text(f"{pair.other} against {pair.baseline} (baseline){at}", style="bold"),
        *(Text(f"not comparable in joules: {obstacle}", style="yellow") for obstacle in pair.obstacles),
        *(Text(note, style="dim") for note in notes),
    ]


def _unmeasured(pairs: Sequence[PairComparison]) -> list[Text]:
    """Say once what neither of two runs has, whatever the number of moments."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for pair in pairs:
        if pair.unmeasured:
            found.setdefault((pair.other, pair.unmeasured), []).append(pair.scene or "")
    return [
        Text(
            f"not measured in {other} nor in the baseline"
            + (f" ({', '.join(scenes)})" if any(scenes) else "")
            + f": {', '.join(names)}",
            style="dim",
        )
        for (other, names), scenes in found.items()
    ]


def _parts(pair: PairComparison) -> Table:
    by = "component" if pair.alignment == "component" else "kind, added up over its components"
    shown = pair.largest[:MOST_DIFFERENCES]
    table = _differences(f"Largest differences by {by}", shown)
    if len(pair.parts) > len(shown):
        table.caption = f"{len(pair.parts) - len(shown)} smaller ones not shown"
    return table


def _differences(title: str, differences: Sequence[Difference]) -> Table:
    """Return a table that fits 80 columns: the two values in one, the limits below their difference."""
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what", overflow="fold", ratio=1)
    table.add_column("baseline \u2192 other", justify="right", no_wrap=True)
    table.add_column("difference [95 %]", justify="right", no_wrap=True)
    table.add_column("verdict", min_width=10)
    for item in differences:
        values = f"{_value(item.baseline, item.unit)}\n\u2192 {_value(item.other, item.unit)}"
        table.add_row(_name(item), values, _change(item), _verdict(item))
    return table


def _name(item: Difference) -> Text:
    """Write what is compared; a value that stands for several components, or comes from another, says so."""
    said = [f"each of {item.count}"] if item.count > 1 else []
    said += [item.origin] if item.origin else []
    return Text.assemble(item.name, (f" ({', '.join(said)})" if said else "", "dim"))


def _value(item: Interval | None, unit: str) -> str:
    return text.UNKNOWN if item is None else text.quantity(item.value, unit)


def _change(item: Difference) -> str:
    """Write the difference in the unit of the baseline, so that a small one does not change its unit."""
    if item.change is None or item.baseline is None:
        return text.UNKNOWN
    divisor, unit = text.scale_of(item.baseline.value, item.unit)
    change = item.change.scaled(1 / divisor)
    percent = None if item.relative is None else _signed((item.relative.value - 1) * 100, 1)
    places = text.places(change)
    while percent != "0" and places < _MOST_PLACES and _signed(change.value, places) == "0":
        places += 1  # below wide limits, a change that is no rounding error must not read as none
    written = f"{_signed(change.value, places)} {unit}".rstrip()
    relative = "" if percent is None else f" ({percent} %)"
    return f"{written}{relative}" + (f"\n{text.limits(change, '')}" if change.known else "")


def _signed(value: float, places: int) -> str:
    """Write a number with its sign; one that rounds to zero has none."""
    written = f"{value:+.{places}f}"
    return "0" if float(written) == 0 else written


def _verdict(item: Difference) -> Text:
    said = "cannot be told: no interval" if item.reason == NO_INTERVAL else item.verdict
    style = _STYLES[item.verdict]
    return Text(said, style=_OPPOSITE.get(style, style) if item.name in _BETTER_LARGER else style)
