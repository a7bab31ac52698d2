"""The report as plain data: what is said and drawn, before any of it becomes HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.reporting.data.benchmark import BenchmarkData, benchmark_data
from energyscope.reporting.data.benchmark_tables import BenchmarkPage, benchmark_page
from energyscope.reporting.data.closure import ClosureRow, closure_sentences, closures
from energyscope.reporting.data.correlate import CorrelationData, correlation_data
from energyscope.reporting.data.devices import DeviceRow, device_rows
from energyscope.reporting.data.efficiency import EfficiencyRow, efficiency_rows, efficiency_sentences
from energyscope.reporting.data.energy import EnergyData, energy_data
from energyscope.reporting.data.execution import TRIGGERED, Execution, execution_of
from energyscope.reporting.data.faithful import ReplayRow, replay_rows, replay_sentences
from energyscope.reporting.data.findings import energy_findings
from energyscope.reporting.data.flow import FlowNode, energy_flow
from energyscope.reporting.data.headline import Banner, Metric, banners, headline
from energyscope.reporting.data.impact import ImpactData, impact_data
from energyscope.reporting.data.method import Fact, environment, limitations, method_facts
from energyscope.reporting.data.passes import PassRow, drift_sentence, effort, passes
from energyscope.reporting.data.simpler import SimplerRow, simpler_rows, simpler_sentences
from energyscope.reporting.data.stages import why_missing
from energyscope.runs.tree import EnergyTree, energy_tree

if TYPE_CHECKING:
    from energyscope.runs.store import Run

MOST_FINDINGS = 5


@dataclass(frozen=True)
class Trust:
    """What says how far the numbers may be relied on: rows for tables, and sentences that read them.

    Lists are empty where a run has nothing to say, as runs of older versions do not.
    """

    closures: list[ClosureRow]
    closure_said: list[str]
    replay: list[ReplayRow]
    replay_said: list[str]
    simpler: list[SimplerRow]
    simpler_said: list[str]
    passes: list[PassRow]
    passes_said: list[str]


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows; a part is None where its stage did not run (``missing`` says why)."""

    name: str
    modelled: bool
    execution: Execution
    banners: list[Banner]
    headline: list[Metric]
    findings: list[str]
    benchmark: BenchmarkData | None
    benchmark_page: BenchmarkPage | None
    benchmark_missing: str
    energy: EnergyData | None
    flow: FlowNode | None
    efficiency: list[EfficiencyRow]
    efficiency_said: list[str]
    devices: list[DeviceRow]
    impact: ImpactData | None
    correlation: CorrelationData | None
    trust: Trust
    method: list[Fact]
    limitations: list[str]
    environment: list[Fact]
    missing: dict[str, str]


def report_data(run: Run) -> ReportData:
    """Gather what the report of a run shows."""
    tree = energy_tree(run.energy) if run.energy is not None and not run.energy.empty else None
    energy = energy_data(tree, run.energy) if tree is not None and run.energy is not None else None
    correlation = correlation_data(run.correlation) if run.correlation else None
    findings = energy_findings(tree, run) if tree else []
    findings += correlation.findings if correlation else []
    efficient = efficiency_rows(tree) if tree else []
    benchmark = benchmark_data(run)
    return ReportData(
        name=run.name,
        modelled=run.modelled,
        execution=execution_of(run),
        banners=banners(run),
        headline=headline(run, tree),
        findings=findings[:MOST_FINDINGS],
        benchmark=benchmark,
        benchmark_page=benchmark_page(benchmark) if benchmark else None,
        benchmark_missing=why_missing(run.document, "benchmark"),
        energy=energy,
        flow=energy_flow(tree) if tree and tree.root and tree.model_energy else None,
        efficiency=efficient,
        efficiency_said=efficiency_sentences(efficient),
        devices=device_rows(tree, run.document) if tree else [],
        impact=impact_data(run.impact, tree) if run.impact is not None and not run.impact.empty else None,
        correlation=correlation,
        trust=_trust(run, tree),
        method=method_facts(run, tree),
        limitations=limitations(run, tree),
        environment=environment(run),
        missing={stage: why_missing(run.document, stage) for stage in ("profile", "ablate", "correlate")},
    )


def _trust(run: Run, tree: EnergyTree | None) -> Trust:
    closed, replay = closures(run.document), replay_rows(run.document)
    replayed = execution_of(run).sampling != TRIGGERED  # which is itself the simplest of methods
    simpler = (
        simpler_rows(tree) if tree and replayed and not run.modelled else []
    )  # modelled, all are time x watts
    taken = passes(run.document)
    said = [drift_sentence(run.document)] if taken else []
    spent = effort(run.document, tree).sentence if tree else ""
    return Trust(
        closures=closed,
        closure_said=closure_sentences(closed),
        replay=replay,
        replay_said=replay_sentences(replay),
        simpler=simpler,
        simpler_said=simpler_sentences(simpler),
        passes=taken,
        passes_said=[*said, *([spent] if spent else [])],
    )
