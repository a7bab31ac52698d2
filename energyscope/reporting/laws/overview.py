"""The whole model of every group in one chart."""

from __future__ import annotations

from collections.abc import Mapping

from energyscope.reporting import text
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import (
    Found,
    fitted,
    item,
    line_over,
    measured_groups,
    shows_growth,
    whole_of,
    worked,
)
from energyscope.reporting.laws.plot import Curve, Dot, Plot, draw, flat_said, hollow_said, palette
from energyscope.reporting.laws.weak_cells import invalid_shapes, is_weak

_MOST = 8


def overview_figure(document: Found, board_names: Mapping[str, str]) -> Figure | None:
    """Draw every group's whole model over FLOPs with its two-term law; None for fewer than two groups."""
    groups = [one for one in measured_groups(document) if (whole := whole_of(one)) and worked(whole)]
    if len(groups) < 2:
        return None
    labels = names.labels(groups, board_names)
    shown = list(zip(groups, labels, strict=True))[:_MOST]
    word = names.energy_word(document)
    points = [
        (group, label, point, energy, is_weak(point, weak))
        for group, label in shown
        for weak in [invalid_shapes(document, group)]
        for point in worked(whole_of(group) or {})
        if (energy := item(point["energy_mj"]))
    ]
    work, work_unit = text.scale_of(max(point["flops"] for _, _, point, _, _ in points), "FLOP")
    divisor, unit = text.scale_of(max(energy.value for *_, energy, _ in points), "mJ")
    dots = [
        Dot(label, point["flops"] / work, energy.scaled(1 / divisor),
            graded(text.with_limits(energy, "mJ"), bad), names.shape_name(point, group.get("phase")), weak=bad)
        for group, label, point, energy, bad in points
        if energy.value > 0
    ]  # fmt: skip
    curves = [curve for group, label in shown if (curve := _curve(group, label, work, divisor))]
    lines = "; lines: E0 + k \u00d7 FLOPs" if curves else ""
    flat = [label for group, label in shown if (law := _law(group)) and not shows_growth(law)]
    summary = f"{word} of the whole model over FLOPs, by group: {text.listed(labels, 8)}"
    more = f" The first {_MOST} of {len(groups)} groups." if len(groups) > _MOST else ""
    return Figure(
        name="overview",
        section="overview",
        title=f"{word} of the whole model, by group",
        caption=f"Both axes logarithmic{lines}.{more}{flat_said(flat)}{hollow_said(dots)}",
        summary=summary,
        chart=draw(
            Plot(
                (f"FLOPs of a pass ({work_unit})", f"{word} ({unit})"),
                palette([label for _, label in shown]),
                dots,
                curves,
                y="log",
                height=340,
            ),
            summary,
        ),
        table=Table(["group", "cell", "energy [95 %]"], [[dot.series, dot.at, dot.said] for dot in dots]),
    )


def _curve(group: Found, label: str, work: float, divisor: float) -> Curve | None:
    """Return a group's two-term line; none where k may be 0."""
    law = _law(group)
    said = line_over(law, worked(whole_of(group) or {})) if law and shows_growth(law) else []
    return Curve(label, tuple((flops / work, energy / divisor) for flops, energy in said)) if said else None


def _law(group: Found) -> Found | None:
    return fitted((whole_of(group) or {}).get("two_term"))
