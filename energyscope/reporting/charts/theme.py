"""Colours, and what all charts have in common. The colours stay apart for colour-blind readers.

The hues are Okabe and Ito's (Color Universal Design, 2008), one for each family of components; the members of
a family differ in lightness, and every chart names them as well. The themes differ only in ink and paper; the
one named ``paper`` is for print, with the font that vl-convert carries, which has Arial's widths.
"""

from __future__ import annotations

from typing import Any, Literal

from energyscope.reporting.charts.axes import LABEL, PLAIN, Magnitude, log_domain, log_ticks, magnitude, on_log
from energyscope.reporting.charts.linking import IN_LAYER, Group, faded, faded_text, linked
from energyscope.reporting.charts.records import altair, compact, expanded, rows, spec

__all__ = [
    "IN_LAYER",
    "LABEL",
    "PLAIN",
    "Group",
    "Magnitude",
    "altair",
    "compact",
    "expanded",
    "faded",
    "faded_text",
    "linked",
    "log_domain",
    "log_ticks",
    "magnitude",
    "on_log",
    "rows",
    "spec",
]

Theme = Literal["light", "dark", "paper"]

KIND_COLOURS = {
    "generation": "#66717d",
    "prefill": "#e4672b",
    "decode": "#6cc0ee",
    "loop": "#6f4fa0",
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
    "attention.core": "#3d55c8",
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
CUT = "cut"  # the outline of marks that touch: the paper shows between them
HALO = "halo"  # behind text that lines cross


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
            CUT: {"stroke": _BACKGROUND[theme], "strokeWidth": 0.8},
            HALO: {
                "color": ink,
                "stroke": _BACKGROUND[theme],
                "strokeWidth": 4,
                "strokeOpacity": 0.6,
                "strokeJoin": "round",
            },
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


def finish(chart: Any, description: str, height: float) -> Any:
    """Give a chart its description for screen readers, its height, and the width of where it stands."""
    sized = chart.properties(width="container", height=height, description=description)
    return sized.properties(autosize=altair().AutoSizeParams(type="fit-x", contains="padding"), padding=4)
