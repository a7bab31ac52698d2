"""Layers by relative depth: models of different depth on one axis."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.comparison.drawing_plane import Place, plane
from energyscope.reporting.comparison.source import Source, moment
from energyscope.reporting.comparison.words import intervals_said
from energyscope.reporting.figure import Figure, Table
from energyscope.runs.compare_depth import AtDepth, depths
from energyscope.runs.intervals import Interval

_KINDS = {"layer": "one layer", "attention": "the attention of one layer", "mlp": "the MLP of one layer"}


def depth_figures(source: Source) -> list[Figure]:
    """Return a chart for each moment and kind whose layers at least two runs measured by themselves."""
    made = [
        _figure(source, scene, kind, f"depth-{index}-{kind}")
        for index, scene in enumerate(source.scenes)
        for kind in _KINDS
    ]
    return [figure for figure in made if figure]


def _figure(source: Source, scene: str | None, kind: str, name: str) -> Figure | None:
    found = {run: depths(source.trees[run, scene], kind) for run in source.names if (run, scene) in source.trees}
    found = {run: layers for run, layers in found.items() if layers}
    if len(found) < 2:
        return None
    divisor, unit = text.scale_of(max(one.energy.value for layers in found.values() for one in layers), "mJ")
    places = [
        Place(run, Interval(one.depth), one.energy.scaled(1 / divisor), f"layer {one.layer}",
              text.with_limits(one.energy, "mJ"), one.invalid)
        for run, layers in found.items()
        for one in layers
    ]  # fmt: skip
    at = f", {moment(scene)}" if len(source.scenes) > 1 else ""
    title = f"{source.word_before} of {_KINDS[kind]}{at}"
    summary = f"{title}, by relative depth: " + "; ".join(_spoken(run, layers) for run, layers in found.items())
    rows = [[one.series, one.name, text.percent(one.x.value), one.said] for one in places]
    return Figure(
        name=name,
        section="depth",
        title=title,
        caption="Layers that were measured by themselves, each at the middle of its place, "
        f"from the first (0\u00a0%) to the last (100\u00a0%), {intervals_said(one.y for one in places)}."
        f"{' Hollow: below grade C.' if any(one.weak for one in places) else ''}",
        summary=summary,
        chart=plane(
            places,
            list(found),
            ("Relative depth", f"{source.word} ({unit})"),
            summary,
            joined=True,
            span=(0.0, 1.0),
        ),
        table=Table(["run", "layer", "depth", "energy [95 %]"], rows),
    )


def _spoken(run: str, layers: list[AtDepth]) -> str:
    low, high = (pick(one.energy.value for one in layers) for pick in (min, max))
    return f"{run} {text.count(len(layers), 'layer')}, {text.quantity(low, 'mJ')} to {text.quantity(high, 'mJ')}"
