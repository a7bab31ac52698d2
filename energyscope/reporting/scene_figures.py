"""The charts that need several moments of an inference: what grows with the context, and power by intensity."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.charts import growth as growth_chart
from energyscope.reporting.charts import intensity as intensity_chart
from energyscope.reporting.data.growth import STEP, Growth
from energyscope.reporting.data.intensity import IntensityPoint
from energyscope.reporting.figure import Figure, Table


def growth_figure(found: Growth, word: str) -> Figure:
    """Draw what a decode step is spent on against its context."""
    titles = [STEP, *found.groups]
    contexts = sorted({point.context for point in (*found.points, *found.whole)})
    rows = [
        [f"{context:,}", *(text.with_limits(found.at(group, context), "mJ") for group in titles)]
        for context in contexts
    ]
    summary = f"{word} of a decode step against the tokens in its cache. {' '.join(found.said)}".strip()
    return Figure(
        name="attention-by-context",
        section="context",
        title=f"{word} of a decode step, by the context",
        caption="The means of each kind over the layers, added up; the rest is what the step takes beside them, "
        "glue and unexplained energy included. Bars are 95 % intervals, side by side at each context; on a "
        "logarithmic axis, one that runs down to the lower end reaches further, maybe to 0 or below.",
        summary=summary,
        chart=growth_chart.growth(found, summary, word),
        table=Table(["tokens in the cache", *titles], rows),
        notes=[found.cache] if found.cache else [],
    )


def intensity_figure(points: list[IntensityPoint], word: str, *, modelled: bool) -> Figure | None:
    """Draw power against FLOPs per byte; None on stated watts, or where fewer than two kinds do matrix work."""
    drawn = [point for point in points if point.intensity > 0]
    if modelled or len(drawn) < 2:
        return None
    without = list(dict.fromkeys(point.kind for point in points if point.intensity == 0))
    rows = [
        [point.kind, point.moment, text.number(point.intensity), text.with_limits(point.power_w, "W"),
         text.with_limits(point.energy, "mJ")]
        for point in points
    ]  # fmt: skip
    most = max(drawn, key=lambda point: point.power_w.value)
    least = min(drawn, key=lambda point: point.power_w.value)
    summary = (
        f"Power against arithmetic intensity. Most: {most.kind} ({most.moment}) with "
        f"{text.quantity(most.power_w.value, 'W')} at {text.number(most.intensity)} FLOP/byte; least: "
        f"{least.kind} ({least.moment}) with {text.quantity(least.power_w.value, 'W')} at "
        f"{text.number(least.intensity)}."
    )
    left_out = f" Without matrix work, and not drawn: {text.listed(without, 6)}." if without else ""
    return Figure(
        name="power-intensity",
        section="intensity",
        title="Power against arithmetic intensity",
        caption="Each mark is a kind of component in one moment of the inference, its leaves added up; its area "
        f"grows with its energy. Power is energy over time; lines are 95 % intervals of the energy.{left_out}",
        summary=summary,
        chart=intensity_chart.intensity(drawn, summary, word),
        table=Table(["kind", "moment", "FLOP/byte", "power [95 %]", "energy [95 %]"], rows),
    )
