"""Every chart of a run with its title, its caption and the numbers behind it.

The report shows them side by side; written to files they are the figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from energyscope.reporting import text
from energyscope.reporting.benchmark_figures import benchmark_figures
from energyscope.reporting.charts import flow, profile
from energyscope.reporting.choices_figures import choices_figures
from energyscope.reporting.correlation_figures import correlation_figures
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.energy import Cell, kind_sentence
from energyscope.reporting.data.flow import FlowNode
from energyscope.reporting.data.scenes import SceneData
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.generation_figures import generation_figures
from energyscope.reporting.impact_figures import impact_figures
from energyscope.reporting.scene_figures import growth_figure, intensity_figure
from energyscope.reporting.trust_figures import trust_figures

HOLLOW = " Hollow bars are values below grade C, which are not to be relied on."


def figures(data: ReportData) -> list[Figure]:
    """Draw every chart for which the run has data, in the order of the report."""
    return [
        *benchmark_figures(data.benchmark),
        *generation_figures(data.generation),
        *_energy(data),
        *(figure for scene in data.further for figure in _of_scene(scene)),
        *_over_scenes(data),
        *choices_figures(data.choices),
        *impact_figures(data.impact),
        *correlation_figures(data.correlation, _word(data)),
        *trust_figures(data.trust, _word(data)),
    ]


def _energy(data: ReportData) -> list[Figure]:
    if data.energy is None:
        return []
    found = [_by_kind(data)] if data.energy.kinds else []
    if data.flow is not None and data.flow.children:
        found.append(_flow(data.flow, _word(data)))
    if len(data.energy.layers) > 1:
        found.append(_by_layer(data))
    if any(cell.energy for cell in data.energy.cells) and any(cell.kind != "layer" for cell in data.energy.cells):
        found.append(_heatmap(data))
    return found


def _of_scene(scene: SceneData) -> list[Figure]:
    """Draw a scene after the first, in its own section; of means over the layers, only the kinds."""
    found = [_by_kind(scene)] if scene.energy.kinds else []
    if scene.flow is not None and scene.flow.children and scene.layers != "kinds":
        found.append(_flow(scene.flow, _word(scene)))
    if scene.own_layers and len(scene.energy.layers) > 1:
        found.append(_by_layer(scene))
    return [replace(one, name=f"{scene.anchor}-{one.name}", section=scene.anchor) for one in found]


def _over_scenes(data: ReportData) -> list[Figure]:
    found = [growth_figure(data.growth, _word(data))] if data.growth else []
    power = intensity_figure(data.intensity, _word(data), modelled=data.modelled)
    return found + ([power] if power else [])


def _word(data: ReportData | SceneData) -> str:
    return "Modelled energy" if data.modelled else "Energy"


def _by_kind(data: ReportData | SceneData) -> Figure:
    kinds = data.energy.kinds if data.energy else []
    summary = f"{_word(data)} by kind of component: " + "; ".join(
        f"{entry.kind} {kind_sentence(entry)}" for entry in kinds[:6]
    )
    split = any(entry.static_mj is not None for entry in kinds)
    caption = "Leaf components added up by kind, then glue and what is unexplained: together, the measured model. "
    caption += "Pale is static energy, solid is dynamic. " if split else ""
    rows = [
        [entry.kind, str(entry.count), text.with_limits(entry.energy, "mJ"), text.percent_with_limits(entry.share),
         text.quantity(entry.static_mj, "mJ"), text.quantity(entry.dynamic_mj, "mJ")]
        for entry in kinds
    ]  # fmt: skip
    return Figure(
        name="energy-by-kind",
        section="profile",
        title=f"{_word(data)} by kind of component",
        caption=caption + "Whiskers are 95 % intervals.",
        summary=summary,
        chart=profile.by_kind(kinds, summary, _word(data)),
        table=Table(["kind", "components", "energy", "share of the model", "static", "dynamic"], rows),
        notes=[*_missing_notes(data), *_invalid_notes(data)],
    )


def _missing_notes(data: ReportData | SceneData) -> list[str]:
    missing = data.energy.missing if data.energy else []
    if not missing:
        return []
    names = ", ".join(missing[:4]) + (", ..." if len(missing) > 4 else "")
    return [f"Without a value, and in no sum: {text.count(len(missing), 'component')} ({names})."]


def _invalid_notes(data: ReportData | SceneData) -> list[str]:
    rows = data.energy.kinds if data.energy else []
    weak = [f"{entry.invalid} of {entry.kind}" for entry in rows if entry.invalid]
    return [f"\u2020 Below grade C, and in the sums: {text.listed(weak)}; the table says why."] if weak else []


def _flow(root: FlowNode, word: str) -> Figure:
    rows = [
        ["\u2003" * node.depth + node.kind, str(node.count), text.with_limits(node.energy, "mJ"),
         text.percent(node.energy.value / root.energy.value if root.energy.value > 0 else None)]
        for node in root.walk()
    ]  # fmt: skip
    top = ", ".join(f"{child.kind} {text.quantity(child.energy.value, 'mJ')}" for child in root.children)
    summary = f"{word} flow from the model ({text.quantity(root.energy.value, 'mJ')}) to {top}"
    excess = [node for node in root.walk() if node.excess_mj > 0]
    notes = [
        f"The parts and the glue of {node.kind} add up to {text.quantity(node.excess_mj, 'mJ')} more than its own "
        "measurement (negative unexplained energy): outlined in red below it."
        for node in excess
    ]
    return Figure(
        name="energy-flow",
        section="profile",
        title=f"{word} flow",
        caption="From the whole model to its parts, layers added up. Every box was measured in its own right; "
        "glue was measured by bypassing the parts; unexplained energy is what is left. Nothing is scaled to fit.",
        summary=summary,
        chart=flow.sankey(root, summary),
        table=Table(["component", "components", "energy", "share of the model"], rows),
        notes=notes,
    )


def _by_layer(data: ReportData | SceneData) -> Figure:
    layers = data.energy.layers if data.energy else []
    rows = [[cell.component, text.with_limits(cell.energy, "mJ"), _measured(cell)] for cell in layers]
    values = sorted(cell.energy.value for cell in layers if cell.energy)
    summary = (
        f"{_word(data)} of each of {len(values)} layers, from {text.quantity(values[0], 'mJ')} "
        f"to {text.quantity(values[-1], 'mJ')}"
    )
    caption = _layers_caption(layers)
    return Figure(
        name="energy-by-layer",
        section="profile",
        title=f"{_word(data)} of each layer",
        caption=caption + (HOLLOW if any(cell.invalid for cell in layers) else ""),
        summary=summary,
        chart=profile.by_layer(layers, summary, _word(data)),
        table=Table(["layer", "energy", "measured"], rows),
    )


def _layers_caption(layers: list[Cell]) -> str:
    if not any(cell.reused for cell in layers):
        return "Each layer measured as a whole, by itself."
    if all(cell.origin == layers[0].origin for cell in layers):
        return "Means over the layers, shown for each."
    return "Some layers measured as a whole, by themselves; each other one shows the layer that stands in for it."


def _measured(cell: Cell) -> str:
    return (cell.origin or "on this layer") + (", invalid" if cell.invalid else "")


def _heatmap(data: ReportData) -> Figure:
    cells = data.energy.cells if data.energy else []
    table = _by_row_and_layer(
        (cell.row, cell.layer, text.with_limits(cell.energy, "mJ") + (" (not its own)" if cell.reused else ""))
        for cell in cells
    )
    largest = max(
        (cell for cell in cells if cell.energy), key=lambda cell: cell.energy.value if cell.energy else 0
    )
    summary = (
        f"{_word(data)} of each component of each layer; the largest is {largest.component} with "
        f"{text.with_limits(largest.energy, 'mJ')}"
    )
    caption = "Blocks and the parts inside them, layer by layer."
    if any(cell.reused for cell in cells):
        caption += " A stroke across a cell marks a mean, or the value of another layer."
    if any(cell.invalid for cell in cells):
        caption += " A cross marks a value below grade C, which is not to be relied on."
    return Figure(
        name="energy-heatmap",
        section="profile",
        title=f"{_word(data)} by layer and component",
        caption=caption,
        summary=summary,
        chart=profile.heatmap(cells, summary, _word(data)),
        table=table,
    )


def _by_row_and_layer(cells: Iterable[tuple[str, int | None, str]]) -> Table:
    """Lay cells out as the heatmap does: a row for each component, a column for each layer."""
    found: dict[str, dict[int | None, str]] = {}
    for row, layer, content in cells:
        found.setdefault(row, {})[layer] = content
    layers = sorted({layer for row in found.values() for layer in row if layer is not None})
    columns = ["component", *(f"layer {layer}" for layer in layers)]
    return Table(columns, [[row, *(of.get(layer, "\u2013") for layer in layers)] for row, of in found.items()])
