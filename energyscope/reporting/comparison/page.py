"""All that the page of a comparison shows, as plain data: what the template only has to lay out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from energyscope.reporting import text
from energyscope.reporting.comparison import conditions
from energyscope.reporting.comparison.benchmark_blocks import BenchmarkBlock, benchmark_blocks
from energyscope.reporting.comparison.depth_figures import depth_figures
from energyscope.reporting.comparison.figures import change_figure, ratio_figure
from energyscope.reporting.comparison.findings import findings
from energyscope.reporting.comparison.pareto import pareto_figures
from energyscope.reporting.comparison.shares import share_figures
from energyscope.reporting.comparison.source import Source
from energyscope.reporting.comparison.tables import DifferenceRow, all_columns, all_rows, difference_rows
from energyscope.reporting.comparison.words import reasons_in_short, value_text
from energyscope.reporting.data.headline import Banner, Metric
from energyscope.reporting.differences import by_how_much
from energyscope.reporting.figure import Figure
from energyscope.reporting.rows import Column, TableCell
from energyscope.runs.compare import GenerationComparison, PairComparison
from energyscope.runs.compare_difference import Difference

_OPEN = 3  # comparisons, up to which all stand open
_MOST_METRICS = 6
_BEST_KNOWN = (
    "energy per forward pass",
    "energy per decode step",
    "energy per generated token",
    "energy per inference",
)


@dataclass(frozen=True)
class Block:
    """One comparison's place in a section: what stands in its way, its chart and its table."""

    title: str
    other: str
    obstacles: tuple[str, ...]
    notes: list[str]
    figures: list[Figure]
    rows: list[DifferenceRow]
    folded: bool = False


@dataclass(frozen=True)
class ComparisonPage:
    """The whole page."""

    title: str
    baseline: str
    names: list[str]
    runs: list[conditions.RunLink]
    banners: list[Banner]
    headline: list[Metric]
    findings: list[str]
    whole: list[Block]
    generations: list[Block]
    benchmarks: list[BenchmarkBlock]
    changes: list[Figure]
    depth_blocks: list[Block]
    depth: list[Figure]
    shares: list[Figure]
    normalised: list[Block]
    pareto: list[Figure]
    conditions: list[conditions.Condition]
    columns: list[Column]
    components: list[list[TableCell]]
    modelled: bool

    @property
    def figures(self) -> list[Figure]:
        """All charts, in the order of the page."""
        blocks = [*self.whole, *self.generations, *self.normalised]
        inside = [figure for block in blocks for figure in block.figures]
        inside += [figure for block in self.benchmarks for figure in block.figures]
        return [*inside, *self.changes, *self.shares, *self.depth, *self.pareto]


def comparison_page(source: Source, folder: Path) -> ComparisonPage:
    """Lay a comparison out; ``folder`` is where the page will stand, for its links."""
    changes = [change_figure(source, pair, index) for index, pair in enumerate(source.pairs)]
    return ComparisonPage(
        title=_title(source),
        baseline=source.names[0],
        names=source.names,
        runs=conditions.links(source, folder),
        banners=_banners(source),
        headline=_headline(source),
        findings=findings(source),
        whole=_whole(source),
        generations=_generations(source),
        benchmarks=benchmark_blocks(source),
        changes=[figure for figure in changes if figure],
        depth_blocks=[
            _block(source, pair, pair.depth) for pair in source.pairs if any(item.change for item in pair.depth)
        ],
        depth=depth_figures(source),
        shares=share_figures(source),
        normalised=_normalised(source),
        pareto=pareto_figures(source),
        conditions=conditions.conditions_table(source),
        columns=all_columns(source),
        components=all_rows(source),
        modelled=source.modelled,
    )


def _title(source: Source) -> str:
    others = source.names[1:]
    said = others[0] if len(others) == 1 else text.count(len(others), "run")
    return f"{said} against {source.names[0]}"


def _banners(source: Source) -> list[Banner]:
    modelled = [run.name for run in source.runs if run.modelled]
    random = [run.name for run in source.runs if (run.document.get("model") or {}).get("weights") == "random"]
    found = []
    if modelled:
        meant = "No power sensor was read: every joule is time multiplied by stated watts."
        found.append(Banner("MODELLED", f"{_whose(source, modelled)}{meant}"))
    if random:
        meant = "True shapes without trained weights. Energy depends on the values to some degree."
        found.append(Banner("RANDOM WEIGHTS", f"{_whose(source, random)}{meant}"))
    found += [Banner("INCOMPLETE RUN", one) for one in source.comparison.unfinished]
    return found + [Banner("WARNING", one) for one in source.comparison.warnings]


def _whose(source: Source, names: list[str]) -> str:
    return "" if len(names) == len(source.runs) else f"{text.listed(names, 6)}: "


def _headline(source: Source) -> list[Metric]:
    """Return the ratios of whole models that most readers came for."""
    comparison = source.comparison
    found = [(source.title_of(pair), item) for pair in source.pairs for item in pair.whole]
    found += [(source.title_of(one), item) for one in comparison.generations for item in one.rows]
    for benchmark in comparison.benchmarks:
        for cell in benchmark.cells:
            at = f"{cell.precision}{f', {benchmark.other}' if source.several else ''}"
            found += [(at, item) for item in cell.rows]
    chosen = [(at, item) for at, item in found if item.name in _BEST_KNOWN and item.relative]
    return [_metric(source, at, item) for at, item in chosen][:_MOST_METRICS]


def _metric(source: Source, at: str, item: Difference) -> Metric:
    """Return what became of a quantity; where there is no verdict, the two values and why."""
    word = f"modelled {item.name}" if source.all_modelled else item.name
    moment_said = at if source.several else at[:1].lower() + at[1:]  # a run's name stays as it is
    at = moment_said.replace("decode step at", "at")
    label = f"{word[:1].upper()}{word[1:]}{f' ({at})' if at else ''}"
    ends = [value_text(one, item.unit).replace(" ", "\u00a0") for one in (item.baseline, item.other)]
    values = " \u2192 ".join(ends)
    if item.verdict == "not comparable":
        return Metric(label, values, f"no verdict: {reasons_in_short(item)}")
    if item.verdict == "no difference shown":
        return Metric(label, "No difference shown", values)
    value, bracket, rest = (by_how_much(item.relative) if item.relative else text.UNKNOWN).partition(" [")
    limits, _, tail = rest.partition("]")
    return Metric(label, f"{value}{tail}", values, f"95 % interval [{limits}]" if bracket else "")


def _block(
    source: Source,
    one: PairComparison | GenerationComparison,
    found: tuple[Difference, ...],
    figures: tuple[Figure | None, ...] = (),
) -> Block:
    return Block(
        title=source.title_of(one),
        other=one.other,
        obstacles=one.obstacles,
        notes=[note[:1].upper() + note[1:] for note in one.notes],
        figures=[figure for figure in figures if figure],
        rows=difference_rows(found, one.obstacles),
    )


def _whole(source: Source) -> list[Block]:
    found = []
    for index, pair in enumerate(source.pairs):
        title = f"{source.title_of(pair) or 'Whole model'}, ratios"
        figure = ratio_figure(f"whole-{index}", title, pair.whole, pair.baseline, pair.other)
        found.append(_block(source, pair, pair.whole, (figure,)))
    return _folded(found)


def _generations(source: Source) -> list[Block]:
    found = []
    for index, one in enumerate(source.comparison.generations):
        title = f"{source.title_of(one) or 'A whole generation'}, ratios"
        figure = ratio_figure(f"generation-{index}", title, one.rows, one.baseline, one.other)
        found.append(_block(source, one, one.rows, (figure,)))
    return _folded(found)


def _normalised(source: Source) -> list[Block]:
    found = []
    for index, pair in enumerate(source.pairs):
        if pair.normalised:
            figure = ratio_figure(f"work-{index}", "Ratios", pair.normalised, pair.baseline, pair.other)
            block = _block(source, pair, pair.normalised, (figure,) if len(source.pairs) == 1 else ())
            rows = [
                replace(row, reason=reasons_in_short(item) if item.verdict == "not comparable" else "")
                for row, item in zip(block.rows, pair.normalised, strict=True)
            ]
            found.append(replace(block, rows=rows))
    return _folded(found)


def _folded(found: list[Block]) -> list[Block]:
    return [replace(one, folded=True) if len(found) > _OPEN and index else one for index, one in enumerate(found)]
