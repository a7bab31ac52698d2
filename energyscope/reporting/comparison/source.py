"""What a comparison is about: the baseline, and each other run against it at the workloads that both measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from energyscope.comparison.basis import DYNAMIC, ENERGY, SHARE_OF_WORK, TOTAL, WORK, Basis, Measure
from energyscope.comparison.compare import Comparison, PairComparison, compare
from energyscope.comparison.conditions import BOARD, EXECUTION, MODEL, PRECISION, RunComparison, value_of
from energyscope.comparison.difference import ENERGIES, LEADS, Difference, compared
from energyscope.comparison.parts import mostly_invalid
from energyscope.comparison.whole import BenchmarkComparison, CellComparison, GenerationComparison
from energyscope.intervals import Interval
from energyscope.reporting.run.parts import blocks, is_noisy
from energyscope.reporting.run.report import MeasuredWorkload, Report, execution_name, precision_name
from energyscope.reporting.section import Page
from energyscope.reporting.table import Row
from energyscope.runs.phases import PhaseName
from energyscope.runs.store import Run

_LONGEST = 18  # letters of a name that may head a column


@dataclass(frozen=True)
class SameWorkload:
    """A workload that two runs measured: their comparison, and what each has of it."""

    pair: PairComparison
    sides: tuple[MeasuredWorkload, MeasuredWorkload]

    @property
    def label(self) -> str:
        """What it is called where there is little room, such as ``decode at 1,024``."""
        workload = self.sides[0]
        context = f" at {workload.context:,}" if workload.context else ""
        return f"{workload.phase}{context}" + (
            f", {execution_name(workload.execution)}" if PhaseName.of(workload.name).execution else ""
        )

    @property
    def basis(self) -> Basis:
        """What it is compared by."""
        return self.pair.basis

    @cached_property
    def blocks(self) -> list[Difference]:
        """The differences of blocks, overhead and what is unexplained; the largest change first.

        Of their energy, or of their work where that is what is compared.
        """
        measure = WORK if self.basis == DYNAMIC else None
        return sorted(
            self._by_block("mJ", measure, self.pair.names()),
            key=lambda item: -abs(item.change.value) if item.change else 1.0,
        )

    @cached_property
    def shares(self) -> dict[str, Difference]:
        """The differences of the blocks' shares of the model's work, by kind; empty where energy is compared."""
        if self.basis == TOTAL:
            return {}
        items = self._by_block("share", SHARE_OF_WORK, self.pair.names((BOARD,)))
        return {str(item.kind): item for item in items}

    def _by_block(self, unit: str, measure: Measure | None, obstacles: Sequence[str]) -> Iterator[Difference]:
        """Yield a difference for each block; without a measure, that of all energy."""
        rows = [{row["kind"]: row for row in blocks(side.tree, modelled=False).rows} for side in self.sides]
        drift = (measure or ENERGY).drift
        whole = drift(*([side.tree.root] if side.tree.root else [] for side in self.sides))
        for kind in dict.fromkeys([*rows[0], *rows[1]]):
            (first, weak), (second, weaker) = (
                _block(side[kind], measure) if kind in side else (None, False) for side in rows
            )
            nodes = [side[kind]["nodes"] for side in rows if "nodes" in side.get(kind, {})]
            own = drift(*nodes) if len(nodes) == 2 else whole
            item = compared(kind, unit, (first, second), obstacles, (weak, weaker), drift=own)
            yield replace(item, kind=kind)


@dataclass(frozen=True)
class Sides:
    """The names of two runs; ``key`` is the other one's value in the page's dimension ``other``."""

    key: str
    names: tuple[str, str]

    @property
    def heads(self) -> tuple[str, str]:
        """The names of both runs as they head columns."""
        return self.names if max(map(len, self.names)) <= _LONGEST else ("Baseline", "Other")


@dataclass(frozen=True)
class Against(Sides):
    """One other run against the baseline."""

    reports: tuple[Report, Report]
    pairs: Sequence[PairComparison]
    generation: GenerationComparison | None
    benchmark: BenchmarkComparison | None

    @property
    def dimension(self) -> str:
        """The dimension of the page's state that says which of its workloads is shown."""
        return f"phase-{self.key}"

    @property
    def phases(self) -> list[tuple[str, str]]:
        """The switch between its workloads: values and labels."""
        return [(str(place), workload.sides[0].label) for place, workload in enumerate(self.workloads)]

    @property
    def modelled(self) -> bool:
        """Whether joules of either run are time x watts."""
        return any(report.modelled for report in self.reports)

    @cached_property
    def shared_workloads(self) -> list[SameWorkload]:
        """The workloads at which whole models can be compared, the costliest of the baseline first."""
        shared = []
        for pair in self.pairs:
            first, second = _workload(self.reports[0], pair.scene), _workload(self.reports[1], pair.other_scene)
            if first and second and any(item.change for item in pair.whole):
                shared.append(SameWorkload(pair, (first, second)))
        return sorted(shared, key=lambda workload: -workload.sides[0].cost)

    @cached_property
    def workloads(self) -> list[SameWorkload]:
        """The workloads of which both runs have components; else all."""
        shared = self.shared_workloads
        return [workload for workload in shared if all(side.detailed for side in workload.sides)] or shared

    @property
    def cells(self) -> Sequence[CellComparison]:
        """The cells that both benchmarks have."""
        return self.benchmark.cells if self.benchmark else ()

    @property
    def cells_basis(self) -> Basis:
        """What benchmarks are compared by."""
        return self.benchmark.basis if self.benchmark else TOTAL

    @cached_property
    def cell(self) -> CellComparison | None:
        """The cell that takes the baseline least energy per inference."""
        leads = [(item.baseline.value, place) for place, cell in enumerate(self.cells)
                 if (item := energy_of(cell.rows, self.cells_basis)) and item.baseline]  # fmt: skip
        return self.cells[min(leads)[1]] if leads else None

    @property
    def first_comparison(self) -> RunComparison:
        """The comparison of the runs where their energy is compared first."""
        return self.workloads[0].pair if self.workloads else (self.cell and self.benchmark) or self.pairs[0]

    @property
    def rows(self) -> Sequence[Difference]:
        """What the whole model takes there."""
        return self.workloads[0].pair.whole if self.workloads else self.cell.rows if self.cell else ()

    @property
    def lead(self) -> Difference | None:
        """The energy of the whole model there."""
        return energy_of(self.rows, self.first_comparison.basis)

    def every(self) -> Iterator[RunComparison]:
        """Yield all its comparisons."""
        yield from self.pairs
        yield from (comparison for comparison in (self.generation, self.benchmark) if comparison is not None)


@dataclass(frozen=True)
class ComparedRuns:
    """All runs of a comparison, the baseline first."""

    comparison: Comparison

    @classmethod
    def of(cls, runs: Iterable[Run]) -> ComparedRuns:
        """Compare runs."""
        return cls(compare(tuple(runs)))

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, each with a name of its own."""
        return self.comparison.runs

    @cached_property
    def reports(self) -> list[Report]:
        """The runs as their own pages show them."""
        return [Report(run) for run in self.runs]

    @cached_property
    def names(self) -> list[str]:
        """Labels that distinguish the runs: their models, executions or precisions alone, else their names."""
        fields = ((MODEL, str), (EXECUTION, execution_name), (PRECISION, precision_name))
        named = ([title(value_of(run.document, field)) for run in self.runs] for field, title in fields)
        varied = [names for names in named if len(set(names)) > 1]
        alone = len(varied) == 1 and len(set(varied[0])) == len(self.runs)
        return varied[0] if alone else [run.name for run in self.runs]

    @cached_property
    def others(self) -> list[Against]:
        """Every other run against the baseline."""
        generations = {generation.other: generation for generation in self.comparison.generations}
        benchmarks = {benchmark.other: benchmark for benchmark in self.comparison.benchmarks}
        return [
            Against(
                key=str(place),
                names=(self.names[0], self.names[place]),
                reports=(self.reports[0], report),
                pairs=[pair for pair in self.comparison.pairs if pair.other == report.run.name],
                generation=generations.get(report.run.name),
                benchmark=benchmarks.get(report.run.name),
            )
            for place, report in enumerate(self.reports[1:], 1)
        ]

    @property
    def switch(self) -> list[tuple[str, str]]:
        """The switch between other runs: values and labels; empty where there is one."""
        return switch_of(self.others)


def switch_of(others: Sequence[Sides]) -> list[tuple[str, str]]:
    """Return the switch between other runs: values and labels; empty where there is one."""
    return [(sides.key, sides.names[1]) for sides in others] if len(others) > 1 else []


COMPARE: Page[ComparedRuns] = Page("compare")


def energy_of(rows: Iterable[Difference], basis: Basis) -> Difference | None:
    """Return what a whole model is compared by among its differences; all energy where work is not known."""
    known = [item for item in rows if item.change]
    return next((item for names in (LEADS[basis], ENERGIES) for item in known if item.name in names), None)


def _block(row: Row, measure: Measure | None) -> tuple[Interval | None, bool]:
    """Return what a row of blocks has by a measure, and whether that is too noisy."""
    if measure is None:
        return row["energy"], is_noisy(row["energy"])
    nodes = row.get("nodes") or []  # overhead and what is unexplained belong to no component
    value = measure.total(nodes) if nodes else row["work_share" if measure is SHARE_OF_WORK else "work"]
    return value, mostly_invalid(nodes, measure) or bool(value and value.known and is_noisy(value))


def _workload(report: Report, name: str | None) -> MeasuredWorkload | None:
    return next((workload for workload in report.every_workload if name in {None, workload.name}), None)
