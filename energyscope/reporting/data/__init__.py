"""The report as plain data: what is said and drawn, before any of it becomes HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.reporting.data.benchmark import BenchmarkData, benchmark_data
from energyscope.reporting.data.benchmark_tables import BenchmarkPage, benchmark_page
from energyscope.reporting.data.choices import ChoicesData, choices_data
from energyscope.reporting.data.columns import EnergyView, energy_views
from energyscope.reporting.data.correlate import CorrelationData, correlation_data
from energyscope.reporting.data.devices import DeviceRow, device_rows
from energyscope.reporting.data.efficiency import EfficiencyRow, efficiency_rows, efficiency_sentences
from energyscope.reporting.data.energy import EnergyData, energy_data
from energyscope.reporting.data.execution import Execution, execution_of
from energyscope.reporting.data.findings import energy_findings
from energyscope.reporting.data.flow import FlowNode, energy_flow
from energyscope.reporting.data.generation import GenerationData, generation_data
from energyscope.reporting.data.growth import Growth, growth
from energyscope.reporting.data.headline import Banner, Metric, banners, headline
from energyscope.reporting.data.headline_benchmark import benchmark_headline
from energyscope.reporting.data.headline_scenes import headline_rates, scenes_headline
from energyscope.reporting.data.icicle import IcicleNode, energy_icicle
from energyscope.reporting.data.impact import ImpactData, impact_data
from energyscope.reporting.data.intensity import IntensityPoint, intensity_points
from energyscope.reporting.data.launching import Launching, alone_in, launchings
from energyscope.reporting.data.measures import Measure, measures
from energyscope.reporting.data.method import Fact, environment, limitations, method_facts
from energyscope.reporting.data.remedy import remedy
from energyscope.reporting.data.scaling import ScalingData, scaling_data
from energyscope.reporting.data.scenes import SceneData, scenes_data, scenes_findings
from energyscope.reporting.data.stages import why_missing
from energyscope.reporting.data.trust import Trust, trust_of
from energyscope.runs.tree import energy_tree

if TYPE_CHECKING:
    from energyscope.runs.store import Run

MOST_FINDINGS = 5
STAGES, LATER_STAGES = ("profile", "ablate", "correlate"), ("generate", "alternatives")


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows; a part is None where its stage did not run (``missing`` says why).

    Of a run with several ``scenes``, the parts of the profile (``energy``, ``flow``, ``icicle``, ``views``,
    ``measures``, ``efficiency``, ``trust``) are those of the first; ``energy.rows`` are of all. ``remedy``, the
    last of the findings, says what to do where most rows are below grade C; it is empty where they are not.
    """

    name: str
    modelled: bool
    execution: Execution
    banners: list[Banner]
    headline: list[Metric]
    findings: list[str]
    remedy: str
    benchmark: BenchmarkData | None
    benchmark_page: BenchmarkPage | None
    benchmark_missing: str
    energy: EnergyData | None
    flow: FlowNode | None
    icicle: IcicleNode | None
    views: list[EnergyView]
    measures: list[Measure]
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
    scenes: list[SceneData]
    launching: list[Launching]
    alone_in: list[str]
    growth: Growth | None
    intensity: list[IntensityPoint]
    generation: GenerationData | None
    choices: ChoicesData | None
    scaling: ScalingData | None

    @property
    def further(self) -> list[SceneData]:
        """The scenes after the first whose components were measured."""
        return [scene for scene in self.scenes[1:] if scene.detailed]


def report_data(run: Run) -> ReportData:
    """Gather what the report of a run shows."""
    tree = energy_tree(run.energy) if run.energy is not None and not run.energy.empty else None
    energy = energy_data(tree, run.energy) if tree is not None and run.energy is not None else None
    weak = {node.name for node in tree.nodes if node.invalid} if tree else set()
    correlation = correlation_data(run.correlation, weak) if run.correlation else None
    scenes = scenes_data(run)
    generation = generation_data(run, scenes)
    grown, launched = growth(scenes), launchings(scenes)
    several = len(scenes) > 1
    findings = (
        scenes_findings(scenes, grown, launched) if several else energy_findings(tree, run).said if tree else []
    )
    findings += correlation.findings if correlation else []
    what_to_do = remedy(run)
    last = [what_to_do] if what_to_do else []
    efficient = efficiency_rows(tree) if tree else []
    benchmark = benchmark_data(run)
    return ReportData(
        name=run.name,
        modelled=run.modelled,
        execution=execution_of(run),
        banners=banners(run),
        headline=scenes_headline(run, scenes, generation, launched)
        if several
        else [
            *([] if tree or generation else benchmark_headline(benchmark)),
            *headline(run, tree),
            *headline_rates(generation),
        ],
        findings=[*findings[: MOST_FINDINGS - len(last)], *last],
        remedy=what_to_do,
        benchmark=benchmark,
        benchmark_page=benchmark_page(benchmark) if benchmark else None,
        benchmark_missing=why_missing(run.document, "benchmark"),
        energy=energy,
        flow=energy_flow(tree) if tree and tree.root and tree.model_energy else None,
        icicle=energy_icicle(tree) if tree else None,
        views=energy_views(tree) if tree else [],
        measures=measures(tree, modelled=run.modelled) if tree else [],
        efficiency=efficient,
        efficiency_said=efficiency_sentences(efficient),
        devices=device_rows(tree, run.document) if tree else [],
        impact=impact_data(run.impact, tree) if run.impact is not None and not run.impact.empty else None,
        correlation=correlation,
        trust=trust_of(run, tree),
        method=method_facts(run, tree),
        limitations=limitations(run, tree, [scene.tree for scene in scenes]),
        environment=environment(run),
        missing={stage: why_missing(run.document, stage) for stage in _stages(run)},
        scenes=scenes,
        launching=launched,
        alone_in=alone_in(scenes),
        growth=grown,
        intensity=intensity_points(scenes, tree),
        generation=generation,
        choices=choices_data(run),
        scaling=scaling_data(run),
    )


def _stages(run: Run) -> tuple[str, ...]:
    """Return the stages that a report has a place for; older runs know nothing of the later ones."""
    known = run.document.get("stages") or {}
    return *STAGES, *(stage for stage in LATER_STAGES if stage in known)
