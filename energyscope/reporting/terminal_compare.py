"""How runs differ, for the terminal: generations first, then whole models and components."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.reporting.comparison.words import untold, value_text, verdict_text
from energyscope.reporting.differences import change_text
from energyscope.reporting.terminal_text import Dotted
from energyscope.runs.compare import Comparison, Difference, GenerationComparison, PairComparison
from energyscope.runs.compare_benchmark import BenchmarkComparison, said_of_shape

MOST_DIFFERENCES = 15
_ALL = "--json and the page have them"
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
    benchmarked = {one.other for one in comparison.benchmarks}
    for pair in comparison.pairs:
        if not pair.whole and not pair.parts and pair.other in benchmarked:
            continue  # its benchmark is all that was measured
        parts += _heading(pair, f", {pair.scene}" if pair.scene else "", said)
        if pair.whole:
            parts.append(_differences("Whole model", pair.whole))
        if pair.normalised:
            parts.append(_differences("For a unit of work", pair.normalised))
        if pair.parts:
            by = "component" if pair.alignment == "component" else "kind, added up over its components"
            parts += _telling(f"Largest differences by {by}", pair.largest)
        if any(item.change for item in pair.depth):
            parts += _telling("One layer, by relative depth", pair.depth)
    for benchmark in comparison.benchmarks:
        parts += _heading(benchmark, ", benchmark", said)
        parts += _benchmark(benchmark)
    return Group(*parts, *_unmeasured(comparison.pairs))


def _heading(
    pair: PairComparison | GenerationComparison | BenchmarkComparison, at: str, said: set[tuple[str, str]]
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


def _benchmark(benchmark: BenchmarkComparison) -> list[RenderableType]:
    """Return a table for each precision and shape that both have, and which only one has."""
    parts: list[RenderableType] = []
    for cell in benchmark.cells:
        where = said_of_shape((cell.precision, cell.batch_size, cell.sequence_length))
        parts.append(_differences(where, cell.rows))
        if cell.implementations:
            parts.append(Text(f"other kernels: {cell.implementations}", style="dim"))
    if not benchmark.cells:
        parts.append(Text("no precision, batch size and length in common", style="yellow"))
    if benchmark.alone:
        parts.append(Text(f"only in one of them: {', '.join(benchmark.alone)}", style="dim"))
    return parts


def _telling(title: str, found: Sequence[Difference]) -> list[RenderableType]:
    """Return a table of the first differences of which something can be told, and how many are not in it."""
    told = [item for item in found if untold(item) is None]
    reasons = Counter(reason for item in found if (reason := untold(item)) is not None)
    parts: list[RenderableType] = []
    if told:
        table = _differences(title, told[:MOST_DIFFERENCES])
        if len(told) > MOST_DIFFERENCES:
            table.caption = f"{len(told) - MOST_DIFFERENCES} smaller ones not shown"
        parts.append(table)
    if reasons:
        parts.append(Text(_rest(title, reasons, alone=not told), style="dim"))
    return parts


def _rest(title: str, reasons: Counter[str], *, alone: bool) -> str:
    """Say in a line of how many differences nothing can be told, why, and where they stand."""
    why = text.listed(
        [reason if len(reasons) == 1 else f"{amount} {reason}" for reason, amount in reasons.items()]
    )
    if alone:
        return f"{title}: nothing can be told of any of {text.count(reasons.total(), 'row')} ({why}); {_ALL}"
    return f"nothing can be told of {text.count(reasons.total(), 'further row')} ({why}); {_ALL}"


def _differences(title: str, differences: Sequence[Difference]) -> Table:
    """Return a table that fits 80 columns: the two values in one, the limits below their difference."""
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what", overflow="fold", ratio=1)
    table.add_column("baseline \u2192 other", justify="right", no_wrap=True)
    table.add_column("difference [95 %]", justify="right", no_wrap=True)
    table.add_column("verdict", min_width=10)
    for item in differences:
        values = f"{value_text(item.baseline, item.unit)}\n\u2192 {value_text(item.other, item.unit)}"
        table.add_row(_name(item), values, Text(_change(item)), _verdict(item))
    return table


def _name(item: Difference) -> Dotted:
    """Write what is compared; a value that stands for several components, or comes from another, says so."""
    said = [f"each of {item.count}"] if item.count > 1 else []
    said += [item.origin] if item.origin else []
    return Dotted(item.name, f"({', '.join(said)})" if said else "")


def _change(item: Difference) -> str:
    change, limits = change_text(item)
    return f"{change}\n{limits}" if limits else change


def _verdict(item: Difference) -> Text:
    style = _STYLES[item.verdict]
    return Text(verdict_text(item), style=_OPPOSITE.get(style, style) if item.name in _BETTER_LARGER else style)
