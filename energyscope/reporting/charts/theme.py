"""Colours, and what all charts have in common. The colours stay apart for colour-blind readers.

The hues are Okabe and Ito's (Color Universal Design, 2008), one for each family of components; the members of
a family differ in lightness, and every chart names them as well. The themes differ only in ink and paper; the
one named ``paper`` is for print, with the font that vl-convert carries, which has Arial's widths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.errors import RunError

_LOG_ROOM = 10.0
Theme = Literal["light", "dark", "paper"]

KIND_COLOURS = {
    "model": "#7b8794",
    "layer": "#93a1ad",
    "embedding": "#cc79a7",
    "rotary": "#a9668b",
    "norm": "#009e73",
    "attention": "#0a7abf",
    "attention.qkv": "#0a7abf",
    "attention.query": "#2f8fcd",
    "attention.key": "#56b4e9",
    "attention.value": "#8ccaf0",
    "attention.core": "#56b4e9",
    "attention.output": "#4a76b8",
    "attention.cache": "#7d6fd0",
    "mlp": "#e69f00",
    "mlp.up": "#e69f00",
    "mlp.gate": "#f0b93d",
    "mlp.down": "#c48200",
    "mlp.activation": "#f2cf6b",
    "router": "#8b6bb5",
    "experts": "#a98bd0",
    "lm_head": "#d55e00",
    "pooler": "#e88a4d",
    "classifier": "#d55e00",
    "other": "#9a9a9a",
    "glue": "#8f8f8f",
    "unexplained": "#b9b9b9",
    "not attributed": "#a79f8b",
}
PRECISION_COLOURS = {
    "fp32": "#6b7885",
    "fp16": "#0a7abf",
    "bf16": "#56b4e9",
    "fp16-autocast": "#009e73",
    "fp8": "#8b6bb5",
    "int8": "#e69f00",
    "int8-static": "#b07400",
    "nf4": "#d55e00",
    "fp4": "#cc79a7",
}
EXCESS_COLOUR = "#c8102e"
METHOD_COLOURS = ("#0a7abf", "#e69f00", "#009e73", "#cc79a7", "#d55e00")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
PRINT_FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"
_INK = {"light": "#1d2733", "dark": "#e6ebf0", "paper": "#000000"}
_FAINT = {"light": "#5a6775", "dark": "#a3afbb", "paper": "#262626"}
_GRID = {"light": "#e3e8ed", "dark": "#313b46", "paper": "#dddddd"}
_AXIS = {"light": _GRID["light"], "dark": _GRID["dark"], "paper": "#8c8c8c"}  # print loses pale hairlines
_BACKGROUND = {"light": "#ffffff", "dark": "#14181d", "paper": "#ffffff"}

# Marks name one of these styles instead of a colour where they must follow the theme.
INK_TEXT, INK_LINE, FAINT_LINE, FAINT_TEXT = "ink-text", "ink-line", "faint-line", "faint-text"


def altair() -> Any:
    """Import Altair where charts are drawn: measuring works without it.

    Raises:
        RunError: it is not installed.

    """
    try:
        import altair as alt
    except ImportError as error:
        raise RunError("drawing charts needs altair and vl-convert-python: pip install energyscope-llm") from error
    return alt


def colour(kind: str) -> str:
    """Return a kind's colour; a kind that we do not know has its family's, or grey."""
    return KIND_COLOURS.get(kind) or KIND_COLOURS.get(kind.partition(".")[0]) or KIND_COLOURS["other"]


def precision_colour(name: str) -> str:
    """Return a precision's colour; one that we do not know is grey."""
    return PRECISION_COLOURS.get(name, KIND_COLOURS["other"])


def config(theme: Theme) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a theme; the page's own background shows through."""
    ink, faint, grid = _INK[theme], _FAINT[theme], _GRID[theme]
    return {
        "background": "transparent",
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": faint,
            "titleColor": faint,
            "gridColor": grid,
            "domainColor": _AXIS[theme],
            "tickColor": _AXIS[theme],
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelLimit": 230,
        },
        "legend": {
            "labelColor": faint,
            "titleColor": faint,
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "labelFontSize": 12,
            "labelLimit": 260,
            "offset": 8,
        },
        "header": {"labelColor": ink, "titleColor": faint},
        "style": {
            INK_TEXT: {"color": ink, "fontSize": 12},
            FAINT_TEXT: {"color": faint, "fontSize": 11},
            INK_LINE: {"color": ink, "strokeWidth": 1.4},
            FAINT_LINE: {"color": faint, "strokeWidth": 1, "strokeDash": [5, 4]},
        },
    }


def print_config(theme: Theme) -> dict[str, Any]:
    """Return a theme's configuration for files: a font that is there, and one size of text, the axes'."""
    found = {**config(theme), "font": PRINT_FONT}
    found["style"] = {**found["style"], FAINT_TEXT: {"color": _FAINT[theme], "fontSize": 12}}
    return found


def ink(theme: Theme) -> str:
    """Return the colour of text."""
    return _INK[theme]


def background(theme: Theme) -> str:
    """Return the colour of the paper, which a file needs and a page has."""
    return _BACKGROUND[theme]


def rows(values: list[dict[str, Any]]) -> Any:
    """Make a chart's data of records; unlike a data frame it knows no limit of rows."""
    return altair().Data(values=values)


def finish(chart: Any, description: str, height: float) -> Any:
    """Give a chart its description for screen readers, its height, and the width of where it stands."""
    sized = chart.properties(width="container", height=height, description=description)
    return sized.properties(autosize=altair().AutoSizeParams(type="fit-x", contains="padding"), padding=4)


def spec(chart: Any) -> dict[str, Any]:
    """Return a chart as a Vega-Lite specification without a theme; data that layers share are held once.

    The specification is not validated here, which would take seconds for a large run: the tests do that.
    """
    specification: dict[str, Any] = chart.to_dict(validate=False)
    specification.pop("config", None)
    datasets: dict[str, Any] = {}
    for part in (specification, *specification.get("layer", [])):
        values = (part.get("data") or {}).get("values")
        if values is not None:
            name = next((known for known, held in datasets.items() if held == values), f"data{len(datasets)}")
            datasets[name] = values
            part["data"] = {"name": name}
    return {**specification, "datasets": datasets}


@dataclass(frozen=True)
class Magnitude:
    """An axis for values of very different size: linear, logarithmic, or linear only around zero.

    ``ticks`` are None where the scale's own will do; ``constant`` is where a ``symlog`` scale turns linear.
    """

    type: Literal["linear", "log", "symlog"]
    ticks: list[float] | None
    constant: float = 1.0

    def scale(self) -> Any:
        """Return the Altair scale."""
        alt = altair()
        if self.type == "linear":
            return alt.Scale(zero=False, nice=True, padding=12)
        if self.type == "log":
            return alt.Scale(type="log", nice=False, padding=14)
        return alt.Scale(type="symlog", constant=self.constant, nice=False, padding=14)

    def axis(self) -> Any:
        """Return the Altair axis with ticks that can be read."""
        alt = altair()
        return alt.Axis(values=self.ticks, format="~g") if self.ticks else alt.Axis(tickCount=6, format="~g")

    def position(self, value: float) -> float:
        """Return where a value lies along the axis, up to a shift and a factor."""
        if self.type == "linear":
            return value
        if self.type == "log":
            return math.log(value)
        return math.copysign(math.log1p(abs(value) / self.constant), value)


def magnitude(values: list[float]) -> Magnitude:
    """Choose an axis: linear where the values lie within a factor of thirty, else by their sign."""
    sizes = sorted(abs(value) for value in values if value)
    if not sizes or sizes[-1] / sizes[0] <= 30:
        return Magnitude("linear", None)
    if min(values) > 0:
        return Magnitude("log", log_ticks(sizes[0], sizes[-1]))
    smallest = max(sizes[len(sizes) // 10], sizes[-1] * 1e-4)
    positive = _powers(smallest, sizes[-1])
    ticks = [-tick for tick in reversed(positive)] + [0.0, *positive]
    return Magnitude("symlog", [tick for tick in ticks if min(values) <= tick <= max(values)], smallest)


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten between two sizes; the powers alone where that is too many."""
    ticks = [power * factor for power in _powers(low, high) for factor in (1, 2, 5)]
    inside = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    return inside if len(inside) <= 10 else [tick for tick in _powers(low, high) if low <= tick <= high]


def log_domain(values: Sequence[float], limits: Sequence[float | None]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis for positive values and the limits of their intervals.

    A limit at or below 0 has no place on it: `on_log` draws such an interval from the lower end, which leaves room
    for that; an interval that reaches down by more than a factor of `_LOG_ROOM` is cut off there as well.
    """
    known = [limit for limit in limits if limit is not None]
    lowest = min(values)
    low = max(min([lowest, *(limit for limit in known if limit > 0)]), lowest / _LOG_ROOM)
    cut = any(limit < low for limit in known)
    return (low / 2 if cut else low), max([*values, *known])


def on_log(limit: float | None, domain: tuple[float, float]) -> float | None:
    """Return where a limit is drawn on a logarithmic axis: no lower than the axis begins."""
    return None if limit is None else max(limit, domain[0])


def _powers(low: float, high: float) -> list[float]:
    """Return the powers of ten from just below one size to just above another."""
    return [10.0**exponent for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
