"""The report as plain data: what is said and drawn, before any of it becomes HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.reporting.data.correlate import CorrelationData, correlation_data
from energyscope.reporting.data.energy import EnergyData, energy_data
from energyscope.reporting.data.findings import energy_findings
from energyscope.reporting.data.flow import FlowNode, energy_flow
from energyscope.reporting.data.headline import Banner, Metric, banners, headline
from energyscope.reporting.data.impact import ImpactData, impact_data
from energyscope.reporting.data.method import Fact, environment, limitations, method_facts
from energyscope.reporting.data.stages import why_missing
from energyscope.runs.tree import energy_tree

if TYPE_CHECKING:
    from energyscope.runs.store import Run

MOST_FINDINGS = 5


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows; a part is None where its stage did not run (``missing`` says why)."""

    name: str
    modelled: bool
    banners: list[Banner]
    headline: list[Metric]
    findings: list[str]
    energy: EnergyData | None
    flow: FlowNode | None
    impact: ImpactData | None
    correlation: CorrelationData | None
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
    return ReportData(
        name=run.name,
        modelled=run.modelled,
        banners=banners(run),
        headline=headline(run, tree),
        findings=findings[:MOST_FINDINGS],
        energy=energy,
        flow=energy_flow(tree) if tree and tree.root and tree.model_energy else None,
        impact=impact_data(run.impact, tree) if run.impact is not None and not run.impact.empty else None,
        correlation=correlation,
        method=method_facts(run, tree),
        limitations=limitations(run, tree),
        environment=environment(run),
        missing={stage: why_missing(run.document, stage) for stage in ("profile", "ablate", "correlate")},
    )
