"""Colours and what all charts have in common: one grammar for pages, light and dark, and for print.

The hues are Okabe and Ito's (Color Universal Design, 2008). A kind of component has one colour on every chart;
precisions, executions and models have palettes of their own, so that no colour means two things on a page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from energyscope.errors import RunError

Theme = Literal["light", "dark", "paper"]

KINDS = {
    "model": "#7b8794", "layer": "#93a1ad", "embedding": "#cc79a7", "patch_embedding": "#d99bbd",
    "rotary": "#a9668b", "norm": "#009e73", "attention": "#0a7abf", "attention.qkv": "#0a7abf",
    "attention.query": "#2f8fcd", "attention.key": "#56b4e9", "attention.value": "#8ccaf0",
    "attention.core": "#3d55c8", "attention.output": "#4a76b8", "attention.cache": "#7d6fd0",
    "cross_attention": "#3a9d9d", "convolution": "#b07aa1", "mlp": "#e69f00", "mlp.up": "#e69f00",
    "mlp.gate": "#f0b93d", "mlp.down": "#c48200", "mlp.activation": "#f2cf6b", "mixer": "#5d9ac2",
    "mixer.projection": "#8fbcd8", "router": "#8b6bb5", "experts": "#a98bd0", "lm_head": "#d55e00",
    "pooler": "#e88a4d", "classifier": "#d55e00", "overhead": "#8f8f8f", "unexplained": "#b9b9b9",
    "other": "#9a9a9a",
}  # fmt: skip
TITLES = {
    "mlp": "MLP", "lm_head": "LM head", "other": "not attributed", "cross_attention": "cross attention",
    "patch_embedding": "patch embedding",
}  # fmt: skip
PRECISIONS = {
    "fp32": "#5b6b7b", "fp16": "#1f77b4", "bf16": "#17a2a2", "fp16-autocast": "#2ca02c", "fp8": "#6f5aa8",
    "int8": "#bc8f00", "int8-static": "#8c6d1f", "w8a8": "#7a9a3a", "w8a16": "#4f7d4a",
    "int4": "#e07a5f", "nf4": "#c4572e", "fp4": "#b5498f",
}  # fmt: skip
EXECUTIONS = {"eager": "#7a5195", "cuda-graph": "#2f9e8f", "torch-compile": "#bc5090"}
PHASES = {
    "load": "#9aa5b1", "tokenize": "#c9b458", "prefill": "#d1603d", "decode": "#3f7cac", "detokenize": "#95b46a",
    "loop": "#7d6b91", "between": "#c3cad1",
}  # fmt: skip
REMOVALS = {"zero": "#3f7cac", "mean": "#5f9e6e", "resample": "#8d6a9f", "skip": "#5b6b7b"}
SERIES = ("#3f7cac", "#d1603d", "#5f9e6e", "#8d6a9f", "#b8860b", "#5b6b7b", "#c05780", "#2a9d8f")
SAVES, COSTS, UNCLEAR = "#2f8f5b", "#c2553f", "#8a949e"
PALE = 0.38  # how opaque the idle part of a bar is
HOLLOW = 0.12  # and a bar whose value is too noisy

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_PRINT_FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"
_INK = {"light": "#1d2733", "dark": "#e6ebf0", "paper": "#000000"}
_FAINT = {"light": "#566370", "dark": "#a3afbb", "paper": "#262626"}
_GRID = {"light": "#e3e8ed", "dark": "#2b343e", "paper": "#dddddd"}
_PAPER = {"light": "#ffffff", "dark": "#14181d", "paper": "#ffffff"}

# Marks name one of these styles instead of a colour where they must follow the theme.
INK, FAINT, RANGE, GUIDE, CUT, HALO = "ink", "faint", "range", "guide", "cut", "halo"


def altair() -> Any:
    """Import Altair where charts are drawn: measuring works without it.

    Raises:
        RunError: it is not installed.

    """
    try:
        import altair as alt
    except ImportError as error:
        raise RunError("charts need altair and vl-convert-python: pip install energyscope-llm") from error
    return alt


def title_of(kind: str) -> str:
    """Return what a kind of component is called in sentences and charts."""
    return TITLES.get(kind, kind)


def palette(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name: its own as a kind, precision, execution or phase, else one of a series."""
    every = {**KINDS, **PRECISIONS, **EXECUTIONS, **PHASES, **REMOVALS}
    known = {_key(name): colour for name, colour in every.items()}
    names = list(dict.fromkeys(names))
    series = iter(SERIES * (1 + len(names) // len(SERIES)))
    family = {name: KINDS.get(name.partition(".")[0]) for name in names}  # of kinds that are not known
    return {name: known.get(_key(name)) or family[name] or next(series) for name in names}


def _key(name: str) -> str:
    """Fold the ways in which a name is written: "FP16 autocast" and "fp16-autocast", "LM head" and "lm_head"."""
    return name.lower().replace(" ", "-").replace("_", "-")


def is_dark(colour: str) -> bool:
    """Whether white text reads better on a colour than black text (contrast as in WCAG 2)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05


def printed(theme: Theme) -> dict[str, Any]:
    """Return the configuration of a theme for files: with a background, and a font that Vega can measure here."""
    return {**config(theme), "background": _PAPER[theme], "font": _PRINT_FONT}


def config(theme: Theme) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a theme; a page's own background shows through."""
    ink, faint, grid, size = _INK[theme], _FAINT[theme], _GRID[theme], 12
    return {
        "background": _PAPER[theme] if theme == "paper" else "transparent",
        "font": _PRINT_FONT if theme == "paper" else _FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": faint, "titleColor": faint, "gridColor": grid, "domainColor": grid, "tickColor": grid,
            "labelFontSize": size, "titleFontSize": size, "titleFontWeight": "normal", "labelLimit": 230,
        },
        "legend": {
            "labelColor": faint, "titleColor": faint, "titleFontWeight": "normal", "titleFontSize": size,
            "labelFontSize": size, "labelLimit": 260, "offset": 8,
        },
        "title": {
            "color": ink, "fontSize": 13, "fontWeight": 600, "anchor": "start", "subtitleColor": ink,
            "subtitleFontSize": size,
        },
        "header": {"labelColor": ink, "titleColor": faint},
        "style": {
            INK: {"color": ink, "fontSize": size},
            FAINT: {"color": faint, "fontSize": size},
            RANGE: {"color": ink, "strokeWidth": 1.4},
            GUIDE: {"color": faint, "strokeWidth": 1, "strokeDash": [5, 4]},
            CUT: {"stroke": _PAPER[theme], "strokeWidth": 1},
            HALO: {"color": ink, "fontSize": size, "stroke": _PAPER[theme], "strokeWidth": 4, "strokeOpacity": 0.7,
                   "strokeJoin": "round"},
        },
    }  # fmt: skip
