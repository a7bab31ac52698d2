"""Draw a sheet at its physical size: Altair puts its charts together, vl-convert makes files of them.

The page's text is 12 pixels high; at `PX_PER_INCH` that is 7.5 points, and lines and marks shrink with it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Any

from energyscope.errors import RunError
from energyscope.reporting.charts import data, theme
from energyscope.reporting.print.sheets import Panel, Sheet

SINGLE_IN, DOUBLE_IN = 3.5, 7.16  # widths of one column and of two in most journals
PX_PER_INCH, PT_PER_INCH = 115.2, 72.0
_NOTE_PX, _LETTER_PX, _BOLD_PX = 11, 5.3, 7.2  # height of the notes; mean widths of a letter of notes and titles
_GAP_PX, _AROUND_PX, _LEAST_PX = 22, 90.0, 60.0  # between panels, of a panel beside its plot, of a plot
_LABELS = 0.5  # of a panel's width: the most that the names beside its plot take
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # in no XML file
_SIZES = re.compile(r"\b(width|height)\b")
_EXPRESSIONS = frozenset({"expr", "calculate", "filter"})
_OWN_SCALES = ("color", "fill", "stroke", "shape", "opacity", "fillOpacity", "strokeDash")


def draw(sheet: Sheet, name: theme.Theme) -> str:
    """Return a sheet as SVG, of which a unit is a point.

    Raises:
        RunError: a library is missing, or a chart cannot be drawn.

    """
    inches = DOUBLE_IN if sheet.wide else SINGLE_IN
    width, alt = inches * PX_PER_INCH, theme.altair()
    parts = [*([_keys(sheet, width)] if sheet.shared else []), *_fitted(sheet, width, name)]
    chart = alt.concat(*parts, columns=1, spacing=_GAP_PX)
    chart = chart.resolve_scale(**dict.fromkeys(_OWN_SCALES, "independent"))
    lines = [line for note in sheet.notes for line in textwrap.wrap(note, int(width / _LETTER_PX))]
    if lines:
        font = {"fontSize": _NOTE_PX, "fontWeight": "normal", "lineHeight": 14}
        chart = chart.properties(title=alt.TitleParams(lines, orient="bottom", anchor="start", offset=12, **font))
    return _in_points(_svg(chart, sheet, name), inches * PT_PER_INCH)


def _fitted(sheet: Sheet, width: float, name: theme.Theme) -> list[Any]:
    """Return the rows, their plots as wide as fills the sheet.

    What stands beside the plots is known when they are drawn: so the rows are, twice. Their first plots begin
    below each other, and the titles of these move to the left.
    """
    plots = [width / len(row) - _AROUND_PX for row in sheet.rows]
    for _ in range(2):
        drawn = [_svg(row, sheet, name) for row in _beside(sheet, plots, width)]
        begins = [_begin(svg) for svg in drawn]
        indents = [max(begins) - begin for begin in begins]
        for at, (row, svg) in enumerate(zip(sheet.rows, drawn, strict=True)):
            panels = sum(panel is not None for panel in row)
            left = width * panels / len(row) - _size(svg)[0] - indents[at]
            plots[at] = max(plots[at] + left / panels, _LEAST_PX)
    return _beside(sheet, plots, width, indents)


def _beside(sheet: Sheet, plots: Sequence[float], width: float, indents: Sequence[float] = ()) -> list[Any]:
    """Return the rows with plots of these widths; titles of first panels begin ``indents`` further to the left."""
    alt = theme.altair()
    letters = iter(ascii_lowercase if sum(map(len, sheet.rows)) > 1 else "")
    rows = []
    for row, plot, indent in zip(sheet.rows, plots, indents or [0.0] * len(plots), strict=True):
        charts = [
            _titled(panel, next(letters, ""), width / len(row), 0.0 if at else -indent, round(plot))
            for at, panel in enumerate(row)
            if panel is not None
        ]
        own = dict.fromkeys(_OWN_SCALES, "independent")
        rows.append(alt.hconcat(*charts, spacing=_GAP_PX).resolve_scale(**own))
    return rows


def _keys(sheet: Sheet, width: float) -> Any:
    alt = theme.altair()
    charts = [panel.chart.to_dict(validate=False) for row in sheet.rows for panel in row if panel]
    colours = dict(pair for chart in charts for pair in _colours(chart))
    legend = data.legend(list(colours), symbolOpacity=1, symbolSize=60, offset=0)
    colour = alt.Color("name:N", sort=list(colours), scale=alt.Scale(range=list(colours.values())), legend=legend)
    marks = alt.Chart(alt.Data(values=[{"name": name} for name in colours])).mark_point(filled=True, size=0)
    return marks.encode(color=colour).properties(width=round(width - _AROUND_PX), height=1)


def _colours(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if _is_legend(value):
            yield from zip(value["scale"]["domain"], value["scale"]["range"], strict=True)
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _colours(item)


def _is_legend(channel: dict[str, Any]) -> bool:
    return isinstance(channel.get("legend"), dict) and "domain" in (channel.get("scale") or {})


def _titled(panel: Panel, letter: str, width: float, dx: float, plot: int) -> Any:
    """Return a panel's chart, its ``plot`` so wide, below its title, whose lines fit the panel's width."""
    alt = theme.altair()
    chart = panel.chart.copy(deep=False)
    chart.autosize = chart.padding = alt.Undefined  # they are the whole sheet's
    title = textwrap.wrap(f"{letter} {panel.title}".strip(), int((width - _GAP_PX) / _BOLD_PX))
    lines = [line for text in panel.lines for line in textwrap.wrap(text, int((width - _GAP_PX) / _LETTER_PX))]
    subtitle = {"subtitle": lines} if lines else {}
    heading = alt.TitleParams(title, **subtitle, frame="bounds", anchor="start", offset=8, dx=round(dx))
    return chart.properties(height=round(panel.height or panel.chart.height), title=heading, width=plot)


def _svg(chart: Any, sheet: Sheet, name: theme.Theme) -> str:
    try:
        import vl_convert
    except ImportError as error:
        raise RunError("figures need vl-convert-python: pip install energyscope-llm") from error
    width = (DOUBLE_IN if sheet.wide else SINGLE_IN) * PX_PER_INCH
    spec = _for_print(chart.to_dict(validate=False), width, bare=sheet.shared)
    version = theme.altair().SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    spec["config"] = theme.printed(name)
    spec["params"] = list(
        {param["name"]: param for param in spec.get("params", [])}.values()
    )  # each chart has its own
    try:
        return str(vl_convert.vegalite_to_svg(spec, vl_version=version, allowed_base_urls=[]))
    except ValueError as error:
        raise RunError(str(error)) from error


def _for_print(value: Any, panel: float, plot: tuple[float, float] = (0, 0), *, bare: bool) -> Any:
    """Return a specification for print: ``width`` in expressions is its chart's, and names have room.

    ``panel`` is the width of the panel that the value is in, with what stands beside its ``plot``; ``bare`` panels
    have no legends of series.
    """
    if isinstance(value, dict):
        panel /= len(value.get("hconcat", "1"))
        if bare and _is_legend(value):
            value = {**value, "legend": None}
        if isinstance(value.get("width"), int | float):
            plot = (value["width"], value.get("height", plot[1]))
        spec = {key: _for_print(item, panel, plot, bare=bare) for key, item in value.items() if key != "tooltip"}
        for key in _EXPRESSIONS & spec.keys():
            if isinstance(spec[key], str):
                spec[key] = _SIZES.sub(lambda size: str(plot[size[1] == "height"]), spec[key])
        return spec | ({"labelLimit": round(panel * _LABELS)} if "labelLimit" in spec else {})
    if isinstance(value, list | tuple):
        return [_for_print(item, panel, plot, bare=bare) for item in value]
    return _UNPRINTABLE.sub("?", value) if isinstance(value, str) else value


def _size(svg: str) -> tuple[float, float]:
    opening = svg[: svg.index(">")]
    width, height = (re.search(rf' {side}="([\d.]+)"', opening) for side in ("width", "height"))
    if width is None or height is None:
        raise RunError("Vega drew a picture without a size")
    return float(width[1]), float(height[1])


def _begin(svg: str) -> float:
    place = re.search(r"translate\(([\d.]+)", svg)
    return float(place[1]) if place else 0.0


def _in_points(svg: str, width: float) -> str:
    """Give a picture its width in points; its view box stays in pixels."""
    across, down = _size(svg)
    sides = f'width="{width:g}" height="{down * width / across:.2f}"'
    return re.sub(r'width="[\d.]+" height="[\d.]+"', sides, svg, count=1)
