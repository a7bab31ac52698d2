"""All that a run found, for the terminal, with what qualifies it: the end of `energyscope benchmark`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.data.energy import EnergyData, KindEnergy, share_of
from energyscope.reporting.data.scenes import DECODE
from energyscope.reporting.terminal_benchmark import benchmark_summary
from energyscope.reporting.terminal_impact import impact_summary
from energyscope.reporting.terminal_inference import advice_lines, growth_sentences, inference_summary
from energyscope.reporting.terminal_text import Dotted
from energyscope.runs import schema
from energyscope.runs.intervals import Interval, total
from energyscope.runs.tree import EnergyTree, Node, energy_tree

if TYPE_CHECKING:
    from energyscope.runs.store import Run

_NOTHING = Interval(0.0)
MOST_KINDS, MOST_COMPONENTS = 12, 8


def run_summary(run: Run) -> RenderableType:
    """Return what a run found: banners, headline, kinds, largest components, findings, the report's path."""
    data = report_data(run)
    parts: list[RenderableType] = [
        Text.assemble((f" {banner.title} ", "bold black on yellow"), " ", banner.text) for banner in data.banners
    ]
    parts.append(Text.assemble((f"{data.execution.title}. ", "bold"), (data.execution.text, "dim")))
    if data.headline:
        parts.append(_headline(data))
    if run.benchmark is not None:
        parts.append(benchmark_summary(run))
    parts += inference_summary(data)
    if data.energy is not None:
        parts.append(_kinds(data.energy, data))
    if run.energy is not None and not run.energy.empty:
        parts.append(_components(energy_tree(run.energy), data))
    step = next((scene for scene in data.further if scene.phase == DECODE), None)
    if step is not None:
        parts.append(_components(step.tree, data, f"Largest components, {step.short}"))
    parts += [*growth_sentences(data), *advice_lines(data.choices)]
    if data.impact is not None:
        parts += impact_summary(data.impact)
    parts += [
        Text(sentence, style="dim")
        for stage, sentence in data.missing.items()
        if not shown(data).get(stage, True) and "not asked for" not in sentence
    ]
    parts += _trust(data)
    parts += [Text(f"{index}. {sentence}") for index, sentence in enumerate(data.findings, 1)]
    report = run.path / schema.REPORT_FILE
    parts.append(
        Text(f"Report: {report}" if report.is_file() else f"Run: {run.path}", style="bold", overflow="fold")
    )
    return Group(*parts)


def shown(data: ReportData) -> dict[str, object]:
    """Return what each stage left, None where it left nothing."""
    return {
        "profile": data.energy, "ablate": data.impact, "correlate": data.correlation,
        "generate": data.generation, "alternatives": data.choices,
    }  # fmt: skip


def _trust(data: ReportData) -> list[RenderableType]:
    """Say how far the numbers may be relied on: closure, replay against the model, simpler methods, drift."""
    trust = data.trust
    said = [
        *trust.closure_said,
        *trust.replay_said,
        *trust.simpler_said,
        *data.efficiency_said,
        *trust.passes_said,
    ]
    return [Text(f"- {sentence}", style="dim") for sentence in said]


def _table(title: str) -> Table:
    return Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _headline(data: ReportData) -> Table:
    table = _table(data.name)
    table.show_header = False
    table.add_column("what")
    table.add_column("value", justify="right", style="bold")
    table.add_column("detail", style="dim", overflow="fold")
    for metric in data.headline:
        detail = "; ".join(part for part in (metric.detail, metric.note) if part)
        table.add_row(Text(metric.label), Text(metric.value), Text(detail))
    return table


def _word(data: ReportData) -> str:
    return "MODELLED energy" if data.modelled else "energy"


def _kinds(energy: EnergyData, data: ReportData) -> Table:
    table = _table("By kind of component")
    table.add_column("kind")
    table.add_column("number", justify="right")
    for name in (f"{_word(data)} [95 % interval]", "share of the model"):
        table.add_column(name, justify="right")
    components = [entry for entry in energy.kinds if entry.role == "component"]
    rest = [entry for entry in energy.kinds if entry.role != "component"]  # never left out: how well it adds up
    for entry in components[:MOST_KINDS]:
        table.add_row(*_kind(entry))
    left = components[MOST_KINDS:]
    if left:
        energy_of = total(entry.energy for entry in left)
        shown = text.with_limits(energy_of, "mJ"), text.percent_with_limits(share_of(energy_of, energy.model))
        count = sum(entry.count for entry in left)
        table.add_row(f"{text.count(len(left), 'more kind')}, in the report", str(count), *shown)
    for entry in rest:
        table.add_row(*_kind(entry))
    return table


def _kind(entry: KindEnergy) -> tuple[Text, str, str, str]:
    shown = text.with_limits(entry.energy, "mJ"), text.percent_with_limits(entry.share)
    return Text(entry.kind), str(entry.count), *shown


def _components(tree: EnergyTree, data: ReportData, title: str = "Largest components") -> Table:
    """List the largest leaves; the instances that share one value over the layers take one line."""
    groups: dict[str, list[Node]] = {}
    for node in tree.leaves:
        if node.energy is not None:
            groups.setdefault(node.source, []).append(node)
    largest = sorted(groups.items(), key=lambda item: -(item[1][0].energy or _NOTHING).value)
    table = _table(title)
    table.add_column("component", overflow="fold")
    table.add_column("kind")
    for name in (_word(data), "share", "quality"):
        table.add_column(name, justify="right")
    for name, nodes in largest[:MOST_COMPONENTS]:
        first = nodes[0]
        each = f"(each of {len(nodes)})" if len(nodes) > 1 else ""  # as one measurement stands for all of them
        table.add_row(
            Dotted(name, each),
            Text(first.kind),
            text.with_limits(first.energy, "mJ"),
            text.percent(first.number("share_of_total")),
            Text(str(first.row.get("quality"))),
        )
    return table
