"""The first screen of a comparison: what changed, by how much, whether that is shown, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from energyscope import format as fmt
from energyscope.comparison.basis import DYNAMIC, Basis
from energyscope.comparison.conditions import BOARD, DEVICE
from energyscope.comparison.difference import (
    LATENCY,
    LEADS,
    PER_INFERENCE,
    PER_PASS,
    PER_STEP,
    POWER,
    WORK,
    Difference,
)
from energyscope.comparison.whole import SCORES, CellComparison
from energyscope.intervals import Interval, finite, serialize
from energyscope.reporting.comparison import differences
from energyscope.reporting.comparison.source import Against, ComparedRuns
from energyscope.reporting.page import sentence
from energyscope.reporting.run.answer import RANDOM_WEIGHTS, Chip, Stat
from energyscope.reporting.run.report import Report, execution_name, precision_name
from energyscope.reporting.section import Figure
from energyscope.reporting.table import Table
from energyscope.runs.method import execution_of
from energyscope.runs.store import Run

_PER = {PER_PASS: "forward pass", PER_STEP: "decode step", PER_INFERENCE: "inference"}
_IMPLIED = (BOARD, "device.power_limit_w", "driver", "sensor.meter", "sensor.watts")  # by another device
_MOST_BARS = 9
RANDOM, MODELLED = "random weights", "MODELLED"
_WARNED = {
    RANDOM: RANDOM_WEIGHTS,
    MODELLED: "No power sensor was read: every joule is time x stated watts.",
}


@dataclass(frozen=True)
class ComparisonAnswer:
    """What a reader gets of one other run against the baseline in ten seconds."""

    against: Against

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The numbers of the sentences, and what they hang on."""
        against, lead, comparison = self.against, self.against.lead, self.against.first_comparison
        obstacles = {condition.field: condition.name for condition in comparison.obstacles}
        sizes = [finite(report.part("model").get("parameters")) for report in against.reports]
        items = against.workloads[0].pair.normalised if against.workloads else ()
        per_parameter = next((item.relative for item in items if item.name.endswith("per parameter")), None)
        per = next((_PER[item.name] for item in against.rows if item.name in _PER), "")
        precision = precision_name(against.cell.precision) if against.cell and not against.workloads else ""
        return {
            "lead": lead,
            "baseline": against.names[0],
            "other": against.names[1],
            "unit": f"{precision} {per}".strip() if lead else None,
            "work": bool(lead and lead.name == WORK),
            "eager_total": comparison.basis == DYNAMIC,
            "modelled": [
                name for name, report in zip(against.names, against.reports, strict=True) if report.modelled
            ],
            "stages": [_stages(report.run) for report in against.reports],
            "obstacles": sorted(
                comparison.names(_IMPLIED if DEVICE in obstacles else ()),
                key=lambda name: name == obstacles.get(BOARD),
            ),
            "board": list(obstacles) == [BOARD],
            "factor": comparison.boards.factor if comparison.boards else None,
            "remaining": self.remaining,
            "boards_unknown": BOARD in obstacles
            and DEVICE not in obstacles
            and not comparison.boards
            and not any(report.part("device").get("spread") for report in against.reports),  # which carry none
            "eager": all(execution_of(report.document) == "eager" for report in against.reports),
            "differ": {note.field: note for pair in against.every() for note in pair.notes},
            "same": against.reports[0].run.path.resolve() == against.reports[1].run.path.resolve(),
            "sizes": sizes[1] / sizes[0] if sizes[0] and sizes[1] else None,
            "per_parameter": per_parameter,
            "halves": [fmt.relative(energy) for energy in (lead.baseline, lead.other)] if lead else [],
        }

    @cached_property
    def sentence(self) -> str:
        """What takes less or more, and whether that is shown."""
        return sentence("compare/answer.txt.j2", facts=self.facts)

    @cached_property
    def cause(self) -> str:
        """What differs between the runs, and what that means."""
        return sentence("compare/cause.txt.j2", facts=self.facts)

    @cached_property
    def remaining(self) -> Interval | None:
        """What is left of the ratio of energies once the factor of the boards is divided out."""
        lead, boards = self.against.lead, self.against.first_comparison.boards
        return boards.remaining(lead.relative) if boards and lead else None

    @cached_property
    def trust(self) -> str:
        """How far the verdict can be relied on."""
        return sentence("compare/trust.txt.j2", facts=self.facts)

    @cached_property
    def stats(self) -> list[Stat]:
        """Energy, its ratio, those of time and power, and the scores."""
        lead, rows = self.against.lead, {item.name: item for item in self.against.rows if item.relative}
        if lead is None:
            return []
        what = "Modelled energy" if self.against.modelled else "Work" if self.facts["work"] else "Energy"
        errors = " and ".join(fmt.measured(energy, "mJ") for energy in (lead.baseline, lead.other))
        ratio = "Work ratio" if self.facts["work"] else "Energy ratio"
        stats = [Stat(f"{what} per {self.facts['unit']}", both(lead, "mJ"), hint=errors),
                 Stat.of(ratio, lead.relative, "ratio")]  # fmt: skip
        ratios = ((LATENCY, "Time ratio"), (POWER, "Power ratio"))
        stats += [Stat.of(title, rows[name].relative, "ratio") for name, title in ratios if name in rows]
        scores = [name for name in SCORES if name in rows]
        stats += [
            Stat(name.capitalize(), both(rows[name], "share" if name == "accuracy" else "")) for name in scores
        ]
        return stats[:5]

    def record(self) -> dict[str, Any]:
        """Return the answer for a machine; ``remaining`` is the ratio without the factor of the boards."""
        other = self.against.reports[1].run.name
        told = {"sentence": self.sentence, "cause": self.cause, "trust": self.trust}
        return {"other": other, **told, "remaining": serialize(self.remaining)}

    def whole(self, place: int = 0) -> Table:
        """Return what the whole model takes at a workload, then the energy at others and of a generation."""
        against = self.against
        shown = against.workloads[place] if against.workloads else None
        rows = [differences.row(item) for item in (shown.pair.whole if shown else against.rows)]
        rows += [differences.row(item, name=f"{energy_title(workload.basis)}, {workload.label}")
                 for workload in against.shared_workloads
                 for item in workload.pair.whole
                 if workload is not shown and item.name in LEADS[workload.basis]]  # fmt: skip
        rows += [differences.row(item) for item in (against.generation.rows[:1] if against.generation else ())]
        return differences.table(against, rows, "Whole model")

    def parts(self, place: int = 0) -> Table:
        """Return what changed, the largest change first: blocks, else precisions of the benchmark."""
        against = self.against
        if against.workloads:
            workload = against.workloads[place]
            rows = [differences.row(item, workload.shares.get(str(item.kind))) for item in workload.blocks]
            return differences.table(against, rows, f"{energy_title(workload.basis)} by block", "Block")
        rows = precision_rows(against)
        rows.sort(key=lambda row: -abs(row["ratio"].value - 1) if row["ratio"] else 1.0)
        return differences.table(against, rows, f"{energy_title(against.cells_basis)} by precision", "Precision")


def energy_title(basis: Basis) -> str:
    """Return what that is called by which runs are compared."""
    return "Work" if basis == DYNAMIC else "Energy"


def precision_rows(against: Against) -> list[dict[str, Any]]:
    """Return the energy, or work, of one inference in each cell that both benchmarks have."""
    several = len({(cell.batch_size, cell.sequence_length) for cell in against.cells}) > 1

    def name(cell: CellComparison) -> str:
        shape = f", {cell.batch_size} x {cell.sequence_length}" if several else ""
        return f"{precision_name(cell.precision)}{shape}"

    return [
        differences.row(item, name=name(cell), kind=cell.precision, cell=cell)
        for cell in against.cells
        for item in cell.rows
        if item.name in LEADS[against.cells_basis]
    ]


def figures(source: ComparedRuns) -> list[Figure]:
    """Return the ratios of blocks and those of whole models, a view for each other run and workload."""
    parts, wholes = [], []
    for against in source.others:
        for place in range(max(len(against.workloads), 1)):
            when = {"other": against.key} | ({against.dimension: str(place)} if against.workloads else {})
            answer = ComparisonAnswer(against)
            parts += differences.ratios(answer.parts(place).head(_MOST_BARS), when, kinds=True)
            wholes += differences.ratios(answer.whole(place), when)
    by = "block" if source.others[0].workloads else "precision"
    basis = source.others[0].first_comparison.basis
    every = [
        Figure("compare-parts", f"{energy_title(basis)} ratio by {by}", parts,
               "Largest change first; whiskers: 95 % intervals. Hollow: not shown."),
        Figure("compare-whole", "Ratios of the whole model", wholes,
               "Ratio to the baseline. Green: better; red: worse. Hollow: not shown."),
    ]  # fmt: skip
    return [figure for figure in every if figure.views]


def chips(source: ComparedRuns) -> list[Chip]:
    """Return what was measured, how and where; what differs between the runs is marked."""
    reports = source.reports
    values = (
        [_device(report) for report in reports],
        [str(report.part("model").get("name") or "") for report in reports],
        [report.precision for report in reports],
        [execution_name(report.part("settings").get("execution") or "eager") for report in reports],
    )
    flags = {
        RANDOM: [report.random for report in reports],
        MODELLED: [report.modelled for report in reports],
    }
    return chips_of(source.names, values, flags)


def chips_of(
    names: Sequence[str], values: Iterable[Sequence[str]], flags: Mapping[str, Sequence[bool]]
) -> list[Chip]:
    """Return a chip for each of the ``values`` of runs, and for each of the ``flags`` that one of them has."""
    every = []
    for of_runs in values:
        if any(of_runs):
            different = list(dict.fromkeys(value or fmt.UNKNOWN for value in of_runs))
            text = " \u2192 ".join(different[:3]) + " \u2026" * (len(different) > 3)
            every.append(Chip(text, "differs" if len(different) > 1 else ""))
    for word, of_flag in flags.items():
        flagged = [name for name, flag in zip(names, of_flag, strict=True) if flag]
        if flagged:
            text = word if all(of_flag) else f"{word}: {fmt.listed(flagged, 2)}"
            every.append(Chip(text, "warn", _WARNED[word]))
    return every


def _device(report: Report) -> str:
    """Return on what a model lay, and on how many of them where it is spread."""
    device = report.part("device")
    count = len(device.get("spread") or ()) or 1
    return f"{count} x " * (count > 1) + str(device.get("name") or device.get("type") or "")


def _stages(run: Run) -> list[str]:
    """Return the stages in which a run measured energy."""
    profiled = run.energy is not None and not run.energy.empty
    results = {"profile": profiled, "benchmark": run.benchmark, "generation": run.generation}
    return [name for name, result in results.items() if result]


def both(item: Difference, unit: str) -> str:
    """Write the values of both runs."""
    values = [side.value if side else None for side in (item.baseline, item.other)]
    return " \u2192 ".join(fmt.quantity(value, unit) for value in values)
