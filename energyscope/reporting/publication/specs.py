"""A chart of the report as a specification for print: no tooltips, a width of its own, legends that fit it."""

from __future__ import annotations

import re
from typing import Any

from energyscope.reporting.charts import theme
from energyscope.reporting.publication import labels

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SYMBOL_PX, _LEGEND_SHARE = 34, 0.74  # a legend's symbol with its margins; of a panel, what axis labels leave
_LEAST_FONT = 11.0
_TICK_PX = 58  # of a panel's width, for each tick of its horizontal axis
_NEAR_ZERO = 0.35  # of the largest value
_POINT_SHARE = 0.6  # of a point's area on a screen, so that short intervals show beside it
CHARACTER_PX = 6.4  # mean width of a character of 12 pixels, on the safe side


def specification(
    chart: Any, width: float, height: float | None, paper: str, *, fill: bool = False
) -> dict[str, Any]:
    """Return a chart's Vega-Lite specification, ``width`` pixels wide in all.

    ``height`` is that of the plot; with ``fill`` that of the whole, axes and legends included. ``paper`` is the
    colour behind it.
    """
    spec: dict[str, Any] = printable(theme.expanded(theme.spec(chart)))
    spec.pop("description", None)  # the sheet has one
    spec["width"] = round(width)
    if height is not None:
        spec["height"] = round(height)
    spec["autosize"] = {"type": "fit" if fill else "fit-x", "contains": "padding"}
    spec["padding"] = {"left": 1, "top": 2, "right": 6, "bottom": 1}
    labels.thin(spec, width, height or float(spec.get("height", 300)))
    labels.make_room(spec, width)
    _from_zero(spec)
    labels.write_out(spec, width)
    for view in (spec, *spec.get("layer", [])):
        _for_print(view, width)
    labels.set_off(spec, paper)
    return spec


def printable(value: Any) -> Any:
    """Replace characters that no XML file may hold, wherever text stands: names come from models."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("?", value)
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable(item) for item in value]
    return value


def _for_print(view: dict[str, Any], width: float) -> None:
    encoding = view.get("encoding", {})
    encoding.pop("tooltip", None)
    for channel in encoding.values():
        if isinstance(channel, dict) and isinstance(channel.get("legend"), dict):
            _fit_legend(channel, width)
        if isinstance(channel, dict):
            _plain_numbers(channel)
    _thin_ticks(encoding.get("x", {}), width)
    _show_shapes(encoding)
    mark = view.get("mark")
    if not isinstance(mark, dict):
        return
    if mark.get("type") == "text" and mark.get("fontSize", 12) < _LEAST_FONT:
        mark["fontSize"] = _LEAST_FONT
    if mark.get("type") == "point" and not str(mark.get("shape")).startswith("M"):  # those are hatches
        mark["size"] = mark.get("size", 60) * _POINT_SHARE


def _plain_numbers(channel: dict[str, Any]) -> None:
    """Write the ticks of linear scales out: ``~g`` makes 5e+2 of 500 where ticks have one digit."""
    scale = channel.get("scale")
    if isinstance(scale, dict) and scale.get("type", "linear") != "linear":
        return
    for guide in (channel.get("axis"), channel.get("legend")):
        if isinstance(guide, dict) and guide.get("format") == "~g":
            guide["format"] = ",~f"


def _thin_ticks(channel: dict[str, Any], width: float) -> None:
    axis = channel.get("axis")
    if isinstance(axis, dict) and "tickCount" in axis:
        axis["tickCount"] = min(axis["tickCount"], max(3, int(width / _TICK_PX)))


def _from_zero(spec: dict[str, Any]) -> None:
    """Begin a linear horizontal axis at zero where it would begin near it, or below it without a reason."""
    views = [spec, *spec.get("layer", [])]
    channels = [view.get("encoding", {}).get(name) or {} for view in views for name in ("x", "x2")]
    fields = {channel["field"] for channel in channels if "field" in channel}
    values = [
        value
        for records in (spec.get("datasets") or {}).values()
        for record in records
        for key in fields & set(record)
        if isinstance(value := record[key], int | float)
    ]
    if not values or min(values) < 0 or min(values) > _NEAR_ZERO * max(values):
        return
    for channel in channels:
        scale = channel.get("scale")
        if isinstance(scale, dict) and scale.get("zero") is False and scale.get("type", "linear") == "linear":
            channel["scale"] = {"zero": True, "nice": True}


def _show_shapes(encoding: dict[str, Any]) -> None:
    """Let a legend of colours show shapes too, where they follow the same field: print may be grey."""
    colour, shape = encoding.get("color"), encoding.get("shape")
    if not isinstance(colour, dict) or not isinstance(shape, dict) or colour.get("field") != shape.get("field"):
        return
    if isinstance(colour.get("legend"), dict):
        shape |= {"legend": colour["legend"], "title": colour.get("title")}
        shape["scale"] = {**(shape.get("scale") or {}), "domain": colour["scale"]["domain"]}


def _fit_legend(channel: dict[str, Any], width: float) -> None:
    """Give a legend as many columns as fit above or below the plot, and a gradient no wider than that."""
    legend, scale = channel["legend"], channel.get("scale")
    if legend.get("orient") not in {"top", "bottom"}:
        return
    room = width * _LEGEND_SHARE
    if "gradientLength" in legend:
        given, fits = legend["gradientLength"], round(room * 0.7)
        legend["gradientLength"] = min(given, fits) if isinstance(given, int) else fits
        ends = scale.get("domain") if isinstance(scale, dict) else None
        if isinstance(scale, dict) and ends and len(ends) == 2 and "type" not in scale and "values" not in legend:
            legend |= {"values": [ends[0], sum(ends) / 2, ends[1]], "format": ",~f"}
        legend.setdefault("tickCount", 3)
    names = [str(name) for name in scale.get("domain", [])] if isinstance(scale, dict) else []
    if names and channel.get("type") == "nominal":
        longest = max(map(len, names)) * CHARACTER_PX + _SYMBOL_PX
        legend["columns"] = max(1, min(len(names), int(room / longest)))


def configuration(name: theme.Theme, width: float) -> dict[str, Any]:
    """Return a theme's configuration for a panel of this width (pixels): axis labels leave room for the plot."""
    found = theme.print_config(name)
    found["axis"] = {
        **found["axis"],
        "labelLimit": round(labels.width_of_names(width)),
        "labelFlush": False,
        "labelSeparation": 4,
    }
    found["legend"] = {**found["legend"], "symbolSize": 55}
    return found
