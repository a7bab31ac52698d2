"""The charts of how far the numbers may be relied on."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.charts import trust
from energyscope.reporting.data.simpler import METHODS
from energyscope.reporting.data.trust import Trust
from energyscope.reporting.figure import Figure, Table


def trust_figures(data: Trust, word: str) -> list[Figure]:
    """Draw what simpler methods would have said, and the anchors, where there are at least two."""
    found = [_simpler(data)] if data.simpler else []
    if sum(row.anchor is not None for row in data.passes) > 1:
        found.append(_anchors(data, word))
    return found


def _simpler(data: Trust) -> Figure:
    rows = [
        [row.kind, text.with_limits(row.energy, "mJ"),
         *(cell for method in METHODS for cell in (text.quantity(row.value(method), "mJ"),
                                                   text.signed_percent(row.apart(method))))]
        for row in data.simpler
    ]  # fmt: skip
    return Figure(
        name="simpler-methods",
        section="simpler",
        title="Simpler methods, kind by kind",
        caption="Bands are this method's 95 % intervals. Attribution by time gives each component the model's "
        "energy times its share of the time. The plain difference reads the counter at the start and the end of "
        "the same long replay windows; without replay it would be further off.",
        summary="What simpler methods would have said of each kind. " + " ".join(data.simpler_said),
        chart=trust.simpler(data.simpler, "What simpler methods would have said of each kind"),
        table=Table(
            [
                "kind",
                "this method [95 %]",
                "by time",
                "difference",
                "plain difference of the counter",
                "difference",
            ],
            rows,
        ),
    )


def _anchors(data: Trust, word: str) -> Figure:
    rows = [
        [str(row.index), text.with_limits(row.anchor, "mJ"), text.quantity(row.idle_w, "W"),
         text.quantity(row.clock_mhz, "MHz"), text.quantity(row.temperature_c, "\u00b0C")]
        for row in data.passes
    ]  # fmt: skip
    summary = f"The whole model at each of {text.count(len(rows), 'pass', 'passes')}. {data.passes_said[0]}"
    return Figure(
        name="anchors",
        section="passes",
        title="The whole model at each pass",
        caption="The model is measured again beside each pass over its components: a drift here is a drift of the "
        "device. The dashed line is the mean; the axis does not begin at zero.",
        summary=summary,
        chart=trust.anchors(data.passes, summary, word),
        table=Table(["pass", "whole model", "idle power before", "clock", "temperature"], rows),
    )
