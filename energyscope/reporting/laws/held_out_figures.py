"""The chart of which law foretells: errors of left-out cells by subject, law and way of leaving out."""

from __future__ import annotations

from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.reporting.figure import Figure
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import BATCH, CELL, LENGTH, TWO_TERM, Found
from energyscope.reporting.laws.law_tables import held_out_table
from energyscope.reporting.laws.plot import palette
from energyscope.runs.intervals import finite

_SHAPES = {LENGTH: "circle", BATCH: "square", CELL: "triangle-up"}
_PITCH, _ROOM = 16, 34
_CUT = 100.0  # per cent: where the axis ends


def held_out_figure(group: Found, place: str) -> Figure | None:
    """Draw the median error of left-out cells; None where no cell could be left out."""
    records: list[dict[str, Any]] = [
        {"subject": names.subject_name(subject["subject"]), "law": _family(str(one["law"])),
         "way": _way(one["by"]), "median": median * 100,
         "said": f"{text.percent(median)}, worst {text.percent(finite(one.get('worst')))}"}
        for subject in group.get("subjects") or ()
        if subject.get("role") != "residual"
        for one in subject.get("held_out") or ()
        if (median := finite(one.get("median"))) is not None
    ]  # fmt: skip
    if not records:
        return None
    cut = sum(record["median"] > _CUT for record in records)
    summary = "Median relative error of left-out cells, by subject, law and way of leaving out"
    notes = [f"{text.count(cut, 'median')} above {_CUT:.0f} % not drawn: see the numbers."] if cut else []
    return Figure(
        name=f"{place}-held-out",
        section=f"{place}-held-out",
        title="Error of cells that were left out",
        caption="The law is fitted without a length, a batch size or a cell and then asked for it: the median of "
        "the absolute relative errors. Further left is better; dashed: 10 %. Subjects without "
        "FLOPs have their two terms over bytes; glue and unexplained are in the numbers.",
        summary=summary,
        chart=_draw(records, summary),
        table=held_out_table(group),
        notes=notes,
    )


def _family(law: str) -> str:
    """Return a law's name, over bytes the same as over FLOPs: no subject has both."""
    return TWO_TERM if law.startswith(TWO_TERM) else law


def _way(by: str) -> str:
    return {LENGTH: "left out by length", BATCH: "by batch size", CELL: "by cell"}.get(by, f"by {by}")


def _draw(records: list[dict[str, Any]], description: str) -> Any:
    alt = theme.altair()
    subjects = list(dict.fromkeys(record["subject"] for record in records))
    laws = list(dict.fromkeys(record["law"] for record in records))
    ways = [_way(by) for by in _SHAPES if any(record["way"] == _way(by) for record in records)]
    colours = palette(laws)
    end = min(max(12.0, *(record["median"] * 1.05 for record in records)), _CUT)
    x = alt.X(
        "median:Q",
        title="Median error of left-out cells (%)",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(tickCount=5, format=PLAIN),
    )
    row = alt.Y("subject:N", sort=subjects, title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6))
    shapes = {_way(by): shape for by, shape in _SHAPES.items()}
    dots = (
        alt.Chart(theme.rows(records))
        .mark_point(filled=True, size=75, opacity=0.9, clip=True)
        .encode(
            x=x,
            y=row,
            yOffset=alt.YOffset("law:N", sort=laws, scale=alt.Scale(domain=laws, paddingOuter=0.4)),
            color=alt.Color(
                "law:N",
                title=None,
                scale=alt.Scale(domain=laws, range=[colours[law] for law in laws]),
                legend=alt.Legend(orient="top", columns=2, symbolType="circle", symbolOpacity=1),
            ),
            shape=alt.Shape(
                "way:N",
                title=None,
                scale=alt.Scale(domain=ways, range=[shapes[way] for way in ways]),
                legend=alt.Legend(
                    orient="top",
                    columns=2,
                    symbolOpacity=1,
                    symbolStrokeWidth=0,
                    symbolFillColor=theme.colour("model"),
                ),
            ),
            tooltip=[
                "subject:N",
                "law:N",
                alt.Tooltip("way:N", title="way"),
                alt.Tooltip("said:N", title="median"),
            ],
        )
    )
    line = alt.Chart(theme.rows([{"x": 10.0}])).mark_rule(style=theme.FAINT_LINE).encode(x="x:Q")
    return theme.finish(alt.layer(line, dots), description, (_PITCH * len(laws) + 8) * len(subjects) + _ROOM)
