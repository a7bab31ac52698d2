"""The figures that follow the joules from the model down: the flow, and the icicle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from energyscope.reporting import text
from energyscope.reporting.charts import flow, icicle
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.flow import FlowNode
from energyscope.reporting.data.icicle import IcicleNode
from energyscope.reporting.data.scenes import SceneData
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.view_figures import COLUMN_SAID, COLUMN_TITLES, with_columns

_INDENT = "\u2003"
_MOST_NAMED = 4


def flow_figure(data: ReportData | SceneData, word: str) -> Figure | None:
    """Draw the flow with its dynamic and static part; None where the model or its parts were not measured."""
    own = _flow(data.flow, word)
    if own is None:
        return None
    views = {
        view.column: _flow(view.flow, f"{COLUMN_TITLES[view.column]} energy", COLUMN_SAID[view.column], view.notes)
        for view in data.views
    }
    return with_columns(own, views)


def _flow(root: FlowNode | None, word: str, said: str = "", notes: Sequence[str] = ()) -> Figure | None:
    if root is None or not root.children:
        return None
    top = ", ".join(f"{child.kind} {text.quantity(child.energy.value, 'mJ')}" for child in root.children)
    summary = f"{word} flow from the model ({text.quantity(root.energy.value, 'mJ')}) to {top}"
    return Figure(
        name="energy-flow",
        section="profile",
        title=f"{word} flow",
        caption=said
        or "From the whole model to its parts, layers added up. A part has its own measurement, or the mean or "
        "the layer that stands in for it, as the table of all components says; glue was measured by bypassing the "
        "parts; unexplained energy is what is left. Nothing is scaled to fit.",
        summary=summary,
        chart=flow.sankey(root, summary),
        table=flow_table(root, "model"),
        notes=[*notes, *flow_notes(root)],
    )


def flow_table(root: FlowNode, whole: str) -> Table:
    """Return a line for each node of a flow, indented by its depth; ``whole`` is what the shares are of."""
    rows = [
        [_INDENT * node.depth + node.kind, str(node.count), _energy(node),
         text.percent(node.energy.value / root.energy.value if root.energy.value > 0 else None)]
        for node in root.walk()
    ]  # fmt: skip
    return Table(["component", "components", "energy", f"share of the {whole}"], rows)


def flow_notes(root: FlowNode) -> list[str]:
    """Say of a flow what exceeds its whole, is below grade C, or has no value."""
    return [*_beyond_notes(root), *_weak_notes(root), *_missing_notes(root)]


def _energy(node: FlowNode) -> str:
    return graded(text.with_limits(node.energy, "mJ"), node.invalid, node.count)


def _beyond_notes(root: FlowNode) -> list[str]:
    named = sorted((node for node in root.walk() if node.excess_mj > 0), key=lambda node: -node.excess_mj)
    if not named:
        return []
    parts = [f"{text.quantity(node.excess_mj, 'mJ')} beyond {node.kind}" for node in named]
    said = "Outlined in red: parts and glue that add up to more than their whole (negative unexplained energy)"
    return [f"{said}: {text.listed(parts, _MOST_NAMED)}.", *_negative_notes(root)]


def _negative_notes(root: FlowNode | IcicleNode) -> list[str]:
    """Name the parts below 0, which have no place of their own in a drawing of joules."""
    below = sorted((node for node in root.walk() if node.energy.value < 0), key=lambda node: node.energy.value)
    named = [f"{_named(node)} ({text.quantity(node.energy.value, 'mJ')})" for node in below]
    said = "Below 0, drawn without extent, and so outlined in red in what it is a part of"
    return [f"{said}: {text.listed(named, _MOST_NAMED)}."] if named else []


def _named(node: FlowNode | IcicleNode) -> str:
    return node.component or node.kind if isinstance(node, IcicleNode) else node.kind


def _missing_notes(root: FlowNode) -> list[str]:
    names = [name for node in root.walk() for name in node.missing]
    if not names:
        return []
    said = "Without a value, so that what it takes is drawn with what is not attributed"
    return [f"{said}: {text.count(len(names), 'component')} ({text.listed(names, _MOST_NAMED)})."]


def _weak_notes(root: FlowNode) -> list[str]:
    kinds: Counter[str] = Counter()  # one may stand below several parents
    for node in root.walk():
        kinds[node.kind] += node.invalid
    weak = [f"{count} of {kind}" for kind, count in kinds.items() if count]
    return (
        [f"\u2020 Below grade C, hollow where all of it is, not to be relied on: {text.listed(weak, len(weak))}."]
        if weak
        else []
    )


def icicle_figure(data: ReportData | SceneData, word: str) -> Figure | None:
    """Draw the icicle with its dynamic and static part; None where the model or its parts were not measured."""
    own = _icicle(data.icicle, data.flow, word)
    if own is None:
        return None
    views = {
        view.column: _icicle(
            view.icicle, view.flow, f"{COLUMN_TITLES[view.column]} energy", COLUMN_SAID[view.column], view.notes
        )
        for view in data.views
    }
    return with_columns(own, views)


def _icicle(
    root: IcicleNode | None, flow_root: FlowNode | None, word: str, said: str = "", notes: Sequence[str] = ()
) -> Figure | None:
    if root is None or flow_root is None:
        return None
    parts = sorted(flow_root.children, key=lambda node: -node.energy.value)
    top = ", ".join(f"{node.kind} {text.quantity(node.energy.value, 'mJ')}" for node in parts[:6])
    own = f"; itself, beside its parts, {text.with_limits(root.own, 'mJ')}" if root.own else ""
    summary = (
        f"{word} from the model ({text.quantity(root.energy.value, 'mJ')}) down, widths in joules: {top}{own}"
    )
    return Figure(
        name="energy-icicle",
        section="profile",
        title=f"{word} from the model down",
        caption=said or _caption(root),
        summary=summary,
        chart=icicle.icicle(root, summary),
        table=Table(["component", "components", "energy", "share of what it is in"], list(_rows(flow_root))),
        notes=[
            *notes,
            *_excess_notes(root),
            *_weak_notes(flow_root),
            *_missing_notes(flow_root),
        ],
    )


def _caption(root: IcicleNode) -> str:
    alone = any(node.kind == "layer" and node.component is not None for node in root.walk())
    layers = "layers one by one in their order" if alone else "layers together"
    return (
        f"Each cell is as wide as its joules and lies below what it is a part of, {layers}, other parts the "
        "largest first. Last, pale and dashed, are glue and what is unexplained or not attributed. Parts too "
        "narrow to be seen stand together in a pale cell. Nothing is scaled to fit."
    )


def _rows(root: FlowNode, parent: FlowNode | None = None) -> Iterator[list[str]]:
    """Yield the tree as a table, layers added up; the values one by one are in the table of all components."""
    of = parent or root
    yield [
        _INDENT * root.depth + root.kind, str(root.count), _energy(root),
        text.percent(root.energy.value / of.energy.value) if of.energy.value > 0 else text.UNKNOWN,
    ]  # fmt: skip
    for child in root.children:
        yield from _rows(child, root)


def _excess_notes(root: IcicleNode) -> list[str]:
    named = sorted((node for node in root.walk() if node.excess_mj > 0), key=lambda node: -node.excess_mj)
    if not named:
        return []
    worst = [f"{node.component or node.kind} ({text.quantity(node.excess_mj, 'mJ')})" for node in named]
    said = (
        "Outlined in red: the parts and the glue add up to more than the component, so that what is below reaches "
        "beyond it, by so much"
    )
    return [f"{said}: {text.listed(worst, _MOST_NAMED)}.", *_negative_notes(root)]
