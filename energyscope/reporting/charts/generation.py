"""A generation over time: power with phases and tokens, energy per token, and a step beside its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.benchmark import PLAIN
from energyscope.reporting.data.agreement import Agreement
from energyscope.reporting.data.generation import StepsRow
from energyscope.reporting.data.power_trace import DECODE, PREFILL, PowerTrace

PHASE_COLOURS = {phase: theme.colour(phase) for phase in (PREFILL, DECODE)}
_DEVICES = theme.METHOD_COLOURS
MOST_TOKENS = 260  # beyond which their marks would only be a grey bar
_MODEL, _LOOP, _TRACED = "model forward", "generate's loop", "traced step"
_PARTS, _WHOLE = "parts", "traced"


def power_trace(trace: PowerTrace, description: str) -> Any:
    """Draw the power of each device in steps, phases as bands behind it, and a short stroke for each token."""
    alt = theme.altair()
    top = max(point.power_w for point in trace.points) * 1.12
    x = {
        "title": "Seconds",
        "scale": alt.Scale(domain=[trace.begin_s, trace.end_s], nice=False),
        "axis": alt.Axis(tickCount=8, grid=False, format="~f"),
    }
    y = {
        "title": "Power (W)",
        "scale": alt.Scale(domain=[0.0, top], nice=False),
        "axis": alt.Axis(tickCount=5),
    }
    layers = [_bands(trace, top, x, y)] if trace.bands else []
    if 0 < len(trace.tokens_s) <= MOST_TOKENS:
        layers.append(_tokens(trace, top, x, y))
    return theme.finish(alt.layer(*layers, _power(trace, x, y)), description, 240)


def _power(trace: PowerTrace, x: dict[str, Any], y: dict[str, Any]) -> Any:
    """Draw a single device in ink, which every theme has, and several in colours with a legend."""
    alt = theme.altair()
    devices = trace.devices
    records = [{**corner, "device": device} for device in devices for corner in _steps(trace, device)]
    base = alt.Chart(theme.rows(records)).encode(x=alt.X("at:Q", **x), y=alt.Y("power:Q", **y))
    if len(devices) == 1:
        return base.mark_line(interpolate="step-after", style=theme.INK_LINE)
    colours = [_DEVICES[index % len(_DEVICES)] for index in range(len(devices))]
    scale, legend = alt.Scale(domain=devices, range=colours), alt.Legend(orient="top", symbolType="stroke")
    lines = base.mark_line(interpolate="step-after", strokeWidth=1.6)
    return lines.encode(stroke=alt.Stroke("device:N", title=None, scale=scale, legend=legend))


def _bands(trace: PowerTrace, top: float, x: dict[str, Any], y: dict[str, Any]) -> Any:
    alt = theme.altair()
    phases = list(PHASE_COLOURS)
    records = [
        {
            "phase": band.phase,
            "begin": round(band.begin_s, 4),
            "end": round(band.end_s, 4),
            "bottom": 0.0,
            "top": top,
        }
        for band in trace.bands
    ]
    colours = alt.Scale(domain=phases, range=[PHASE_COLOURS[phase] for phase in phases])
    legend = alt.Legend(orient="top", symbolOpacity=0.6, symbolType="square")
    return (
        alt.Chart(theme.rows(records))
        .mark_rect(opacity=0.28)
        .encode(
            x=alt.X("begin:Q", **x),
            x2="end:Q",
            y=alt.Y("bottom:Q", **y),
            y2="top:Q",
            color=alt.Color("phase:N", title=None, scale=colours, legend=legend),
            tooltip=["phase:N", alt.Tooltip("begin:Q", format=".3f"), alt.Tooltip("end:Q", format=".3f")],
        )
    )


def _tokens(trace: PowerTrace, top: float, x: dict[str, Any], y: dict[str, Any]) -> Any:
    alt = theme.altair()
    records = [{"at": round(time, 4), "low": 0.0, "high": top * 0.045} for time in trace.tokens_s]
    strokes = alt.Chart(theme.rows(records)).mark_rule(style=theme.INK_LINE, strokeWidth=0.8, opacity=0.75)
    return strokes.encode(
        x=alt.X("at:Q", **x),
        y=alt.Y("low:Q", **y),
        y2="high:Q",
        tooltip=[alt.Tooltip("at:Q", title="token at (s)", format=".3f")],
    )


def _steps(trace: PowerTrace, device: str) -> list[dict[str, float]]:
    """Return the corners of a device's line: a level holds until the next begins."""
    own = [point for point in trace.points if point.device == device]
    corners = [{"at": round(point.begin_s, 4), "power": round(point.power_w, 2)} for point in own]
    return [*corners, {"at": round(own[-1].end_s, 4), "power": round(own[-1].power_w, 2)}]


def token_energy(rows: Sequence[StepsRow], description: str, word: str) -> Any:
    """Draw the energy of a decode step over the generation: a level for each group of steps, with its interval."""
    alt = theme.altair()
    known = [(row, row.energy) for row in rows if row.energy]
    divisor, unit = text.scale_of(max(energy.value for _, energy in known), "mJ")
    records = [
        {
            "first": row.first - 0.5,
            "last": row.last + 0.5,
            "value": energy.value / divisor,
            "low": None if energy.low is None else energy.low / divisor,
            "high": None if energy.high is None else energy.high / divisor,
            "steps": f"{row.first} to {row.last}",
            "said": text.with_limits(energy, "mJ"),
            "power": text.with_limits(row.power_w, "W"),
            "time": text.with_limits(row.seconds.scaled(1e6) if row.seconds else None, "us"),
        }
        for row, energy in known
    ]
    low, high = known[0][0].first - 0.5, known[-1][0].last + 0.5
    base = alt.Chart(theme.rows(records)).encode(
        x=alt.X("first:Q", title="Step of the generation", scale=alt.Scale(domain=[low, high], nice=False),
                axis=alt.Axis(tickCount=8, grid=False)),
        x2="last:Q",
        tooltip=[alt.Tooltip("steps:N"), alt.Tooltip("said:N", title=word.lower()), "power:N", "time:N"],
    )  # fmt: skip
    upright = {
        "title": f"{word} per step ({unit})",
        "scale": alt.Scale(zero=True, nice=True),
        "axis": alt.Axis(tickCount=5, format=PLAIN),
    }
    colour = PHASE_COLOURS[DECODE]
    layers = []
    if any(energy.known for _, energy in known):
        band = base.transform_filter("datum.low !== null").mark_rect(color=colour, opacity=0.4)
        layers.append(band.encode(y=alt.Y("low:Q", **upright), y2="high:Q"))
    line = base.mark_rule(strokeWidth=2.4, color=theme.colour("attention")).encode(y=alt.Y("value:Q", **upright))
    return theme.finish(alt.layer(*layers, line), description, 200)


def step_parts(found: Agreement, description: str, word: str) -> Any:
    """Draw the model's pass and generate's loop end to end, above the traced step that they should add up to."""
    alt = theme.altair()
    divisor, unit = text.scale_of(max(found.parts.value, found.traced.value), "mJ")
    model, parts, traced = (item.value / divisor for item in (found.model, found.parts, found.traced))
    segments = [
        {"row": row, "part": part, "begin": begin, "end": end, "said": text.with_limits(item, "mJ")}
        for row, part, begin, end, item in (
            (_PARTS, _MODEL, 0.0, model, found.model),
            (_PARTS, _LOOP, model, parts, found.loop),
            (_WHOLE, _TRACED, 0.0, traced, found.traced),
        )
    ]
    names = [_MODEL, _LOOP, _TRACED]
    colours = [theme.colour("model"), theme.colour("loop"), theme.colour("attention")]
    ends = [
        {
            "row": row,
            "low": None if item.low is None else max(item.low / divisor, 0.0),  # where the axis begins
            "high": None if item.high is None else item.high / divisor,
            "edge": (item.high if item.high is not None else item.value) / divisor,
            "label": text.quantity(item.value, "mJ"),
        }
        for row, item in ((_PARTS, found.parts), (_WHOLE, found.traced))
    ]
    right = max(end["edge"] for end in ends if isinstance(end["edge"], float))
    y = alt.Y("row:N", sort=[_PARTS, _WHOLE], title=None, axis=alt.Axis(ticks=False, domain=False, labelPadding=6))
    scale = alt.Scale(domain=[0.0, right * 1.22], nice=False)
    x = alt.X("begin:Q", title=f"{word} per step ({unit})", scale=scale, axis=alt.Axis(tickCount=5, format=PLAIN))
    bars = (
        alt.Chart(theme.rows(segments))
        .mark_bar(height={"band": 0.62}, opacity=0.9)
        .encode(
            x=x,
            x2="end:Q",
            y=y,
            color=alt.Color("part:N", title=None, scale=alt.Scale(domain=names, range=colours),
                            legend=alt.Legend(orient="top", columns=2, symbolOpacity=1)),
            tooltip=["part:N", alt.Tooltip("said:N", title="energy")],
        )
    )  # fmt: skip
    totals = alt.Chart(theme.rows(ends)).encode(y=y)
    errors = totals.transform_filter("datum.low !== null").mark_rule(style=theme.INK_LINE)
    errors = errors.encode(x="low:Q", x2="high:Q")
    labels = totals.mark_text(style=theme.INK_TEXT, align="left", dx=7).encode(x="edge:Q", text="label:N")
    return theme.finish(alt.layer(bars, errors, labels), description, 76)
