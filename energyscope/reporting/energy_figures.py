"""The figures of where the energy goes: by kind, from the model down, by layer, and by layer and component."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.charts import profile
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.columns import Column, EnergyView
from energyscope.reporting.data.energy import Cell, KindEnergy, kind_sentence
from energyscope.reporting.data.scenes import SceneData
from energyscope.reporting.data.work import parts_said
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.heatmap_figures import heatmap_figure
from energyscope.reporting.tree_figures import flow_figure, icicle_figure
from energyscope.reporting.view_figures import COLUMN_SAID, COLUMN_TITLES, with_columns

HOLLOW = " Hollow bars are values below grade C, which are not to be relied on."
WEAK = "\u2020 Below grade C, and in the sums{}: {}; the table says why."
_LEVELS = (
    "Unexplained is what every parent takes beyond its parts and glue, of all levels; closure is of the model's "
    "own level alone. "
)
_HOLLOW = " (hollow where all of it is)"


def energy_figures(data: ReportData) -> list[Figure]:
    """Draw the profile of a run, or of its first moment."""
    if data.energy is None:
        return []
    word = joules(data)
    found = [_by_kind_figure(data)] if data.energy.kinds else []
    found += [one for one in (flow_figure(data, word), icicle_figure(data, word)) if one is not None]
    if len(data.energy.layers) > 1:
        found.append(_by_layer_figure(data))
    cells = data.energy.cells
    if any(cell.energy for cell in cells) and any(cell.kind != "layer" for cell in cells):
        found.append(heatmap_figure(cells, data.measures, word))
    return found


def scene_energy_figures(scene: SceneData) -> list[Figure]:
    """Draw the profile of a further moment; of means over the layers, only the kinds."""
    word = joules(scene)
    found = [_by_kind_figure(scene)] if scene.energy.kinds else []
    if scene.layers != "kinds":
        found += [one for one in (flow_figure(scene, word), icicle_figure(scene, word)) if one is not None]
    if scene.own_layers and len(scene.energy.layers) > 1:
        found.append(_by_layer_figure(scene))
    return found


def joules(data: ReportData | SceneData) -> str:
    """Return what a run's joules are called at the head of a chart."""
    return "Modelled energy" if data.modelled else "Energy"


def _by_kind_figure(data: ReportData | SceneData) -> Figure:
    kinds = data.energy.kinds if data.energy else []
    missing = data.energy.missing_parts if data.energy else []
    undivided = [entry.kind for entry in kinds if entry.work_mj is None]
    caption = "Leaf components added up by kind, then glue and what is unexplained: together, the measured model. "
    caption += _LEVELS if any(entry.role == "unexplained" and entry.count > 1 for entry in kinds) else ""
    caption += f"{parts_said(undivided)} " if len(undivided) < len(kinds) else ""
    notes = [*_missing_notes(missing), *_invalid_notes(kinds)]
    each = _each(data)
    own = _by_kind(kinds, joules(data), caption + "Whiskers are 95 % intervals.", notes, each)
    return with_columns(own, {view.column: _by_kind_view(view, notes, each) for view in data.views})


def _each(data: ReportData | SceneData) -> str:
    """Return what energies are of: a forward pass or a decode step; of several moments, that of the first."""
    scene = data if isinstance(data, SceneData) else next(iter(data.scenes), None)
    return "step" if scene is not None and scene.unit == "step" else "forward pass"


def _by_kind_view(view: EnergyView, notes: list[str], each: str) -> Figure:
    word = f"{COLUMN_TITLES[view.column]} energy"
    return _by_kind(view.kinds, word, COLUMN_SAID[view.column], [*view.notes, *notes], each, view.column)


def _by_kind(
    kinds: list[KindEnergy], word: str, caption: str, notes: list[str], each: str, column: Column | None = None
) -> Figure:
    summary = f"{word} by kind of component: " + "; ".join(
        f"{entry.kind} {kind_sentence(entry)}" for entry in kinds[:6]
    )
    columns = ["kind", "components", "energy", "share of the model"]
    rows = [
        [entry.kind, str(entry.count), graded(text.with_limits(entry.energy, "mJ"), entry.invalid, entry.count),
         text.percent_with_limits(entry.share)]
        for entry in kinds
    ]  # fmt: skip
    if column is None:
        columns += ["static", "dynamic"]
        for row, entry in zip(rows, kinds, strict=True):
            row += [text.quantity(entry.static_mj, "mJ"), text.quantity(entry.dynamic_mj, "mJ")]
    return Figure(
        name="energy-by-kind",
        section="profile",
        title=f"{word} by kind of component",
        caption=caption,
        summary=summary,
        chart=profile.by_kind(kinds, summary, word, each=each, static=column == "static"),
        table=Table(columns, rows),
        notes=notes,
    )


def _missing_notes(missing: list[str]) -> list[str]:
    if not missing:
        return []
    names = ", ".join(missing[:4]) + (", ..." if len(missing) > 4 else "")
    return [f"Without a value, and in no sum: {text.count(len(missing), 'component')} ({names})."]


def _invalid_notes(kinds: list[KindEnergy]) -> list[str]:
    weak = [f"{entry.invalid} of {entry.kind}" for entry in kinds if entry.invalid]
    hollow = _HOLLOW if any(entry.all_invalid for entry in kinds) else ""
    return [WEAK.format(hollow, text.listed(weak, len(weak)))] if weak else []


def _by_layer_figure(data: ReportData | SceneData) -> Figure:
    own = _by_layer(data.energy.layers if data.energy else [], joules(data))
    views = {
        view.column: _by_layer(view.layers, f"{COLUMN_TITLES[view.column]} energy", COLUMN_SAID[view.column])
        for view in data.views
    }
    return with_columns(own, views)


def _by_layer(layers: list[Cell], word: str, said: str = "") -> Figure:
    rows = [[cell.component, text.with_limits(cell.energy, "mJ"), _measured(cell)] for cell in layers]
    values = sorted(cell.energy.value for cell in layers if cell.energy)
    summary = (
        f"{word} of each of {len(values)} layers, from {text.quantity(values[0], 'mJ')} "
        f"to {text.quantity(values[-1], 'mJ')}"
    )
    return Figure(
        name="energy-by-layer",
        section="profile",
        title=f"{word} of each layer",
        caption=" ".join([_layers_caption(layers), *([said.partition(", and")[0] + "."] if said else [])])
        + (HOLLOW if any(cell.invalid for cell in layers) else ""),
        summary=summary,
        chart=profile.by_layer(layers, summary, word),
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
