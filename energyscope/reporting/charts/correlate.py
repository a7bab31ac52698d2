"""Energy against impact: a point for each leaf component, with both intervals and the quadrants' limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.charts import naming, theme
from energyscope.reporting.charts.theme import Magnitude
from energyscope.reporting.data.correlate import UNDECIDED, CorrelationData, Point, impact_title
from energyscope.runs.intervals import Interval

_MOST_NAMES, _MOST_TRIED = 12, 60
_PAD = 0.05  # of an axis' length, free at both ends


def scatter(data: CorrelationData, description: str, word: str = "Energy") -> Any:
    """Draw the scatter; points whose interval crosses a limit are hollow, since their quadrant is undecided.

    Those of an energy below grade C are crosses.
    """
    alt = theme.altair()
    divisor, unit = text.scale_of(max(abs(point.energy.value) for point in data.points), "mJ")
    threshold = None if data.energy_threshold_mj is None else data.energy_threshold_mj / divisor
    across = _ruler([point.energy.scaled(1 / divisor) for point in data.points], threshold)
    up = _ruler([point.impact for point in data.points], data.impact_threshold)
    title = f"{word} per forward pass ({unit})"
    x = alt.X("energy:Q", title=title, scale=across.scale(), axis=across.axis())
    y = alt.Y("impact:Q", title=impact_title(data.impact), scale=up.scale(), axis=up.axis())
    kinds = sorted({point.kind for point in data.points})
    palette = alt.Scale(domain=kinds, range=[theme.colour(kind) for kind in kinds])
    legend = alt.Legend(
        orient="bottom",
        columns={"expr": f"width < {naming.NARROW_PX} ? 2 : 5"},
        symbolType="stroke",
        symbolOpacity=1,
        symbolStrokeWidth=4,
    )
    records = [_record(point, divisor, across, up) for point in data.points]
    base = theme.compact(records).encode(color=alt.Color("kind:N", title=None, scale=palette, legend=legend))
    sideways = base.mark_rule().encode(x=alt.X("energy_low:Q"), x2="energy_high:Q", y=y)
    upright = base.mark_rule().encode(x=x, y=alt.Y("impact_low:Q"), y2="impact_high:Q")
    points = base.mark_point(size=75, strokeWidth=2).encode(
        x=x,
        y=y,
        fill=alt.Fill("kind:N", title=None, scale=palette, legend=legend),
        fillOpacity=alt.condition(f"datum.quadrant == '{UNDECIDED}'", alt.value(0.0), alt.value(0.9)),
        opacity=theme.faded(),
        tooltip=_tooltip(),
    )
    if any(point.invalid for point in data.points):
        points = points.encode(shape=alt.condition("datum.invalid", alt.value("cross"), alt.value("circle")))
    rules = [rule.encode(opacity=theme.faded(0.55)) for rule in (sideways, upright)]
    corners = _corners(data, (across, threshold), (up, data.impact_threshold))
    lines = [*_thresholds((across, threshold), (up, data.impact_threshold)), *_intervals(records, across, up)]
    names = _names(data.points, records, (across, up), corners, lines)
    layers = [*_limits(alt, data, divisor), *_written(alt, corners), *rules, points, *_labels(alt, names, x, y)]
    return theme.finish(theme.linked(alt.layer(*layers), kinds), description, naming.HEIGHT)


@dataclass(frozen=True)
class _Ruler:
    """An axis with given ends; values are drawn no further than those."""

    size: Magnitude
    low: float
    high: float

    def scale(self) -> Any:
        domain, constant = [self.low, self.high], self.size.constant
        if self.size.type == "symlog":
            return theme.altair().Scale(domain=domain, nice=False, type="symlog", constant=constant)
        return theme.altair().Scale(domain=domain, nice=False, type=self.size.type)

    def axis(self) -> Any:
        if self.size.type == "log":
            ticks = theme.log_ticks(self.low, self.high)
            return theme.altair().Axis(values=ticks, format=theme.PLAIN, labelExpr=theme.LABEL, labelOverlap=True)
        return self.size.axis()

    def share(self, value: float) -> float:
        """Return where a value lies, from 0 to 1."""
        low, high = self.size.position(self.low), self.size.position(self.high)
        return (self.size.position(value) - low) / (high - low) if high > low else 0.5


def _ruler(values: Sequence[Interval], threshold: float | None) -> _Ruler:
    """Return an axis over values, their limits and a threshold, with room at its ends."""
    shown = [item.value for item in values]
    size = theme.magnitude(shown)
    limits = [limit for item in values for limit in (item.low, item.high) if limit is not None]
    ends = [*shown, *([] if threshold is None else [threshold])]
    if size.type == "log":
        low, high = theme.log_domain([end for end in ends if end > 0], limits)
    else:
        low, high = min([*ends, *limits]), max([*ends, *limits])
    first, last = size.position(low), size.position(high)
    room = (last - first) * _PAD or abs(first) * _PAD or 1.0
    begins = 0.0 if size.type == "linear" and 0 <= low <= (high - low) * 0.3 else size.value(first - room)
    return _Ruler(size, begins, size.value(last + room))


def _record(point: Point, divisor: float, across: _Ruler, up: _Ruler) -> dict[str, Any]:
    energy, impact = point.energy.scaled(1 / divisor), point.impact
    return {
        "component": point.component,
        "kind": point.kind,
        "energy": energy.value,
        "energy_low": energy.value if energy.low is None else max(energy.low, across.low),
        "energy_high": energy.value if energy.high is None else energy.high,
        "impact": impact.value,
        "impact_low": impact.value if impact.low is None else max(impact.low, up.low),
        "impact_high": impact.value if impact.high is None else impact.high,
        "energy_said": text.with_limits(point.energy, "mJ") + (", below grade C" if point.invalid else ""),
        "impact_said": text.with_limits(impact, ""),
        "quadrant": point.quadrant,
        **({"invalid": True} if point.invalid else {}),
    }


def _tooltip() -> list[Any]:
    alt = theme.altair()
    said = [alt.Tooltip("energy_said:N", title="energy"), alt.Tooltip("impact_said:N", title="impact")]
    return [alt.Tooltip("component:N"), alt.Tooltip("kind:N"), *said, alt.Tooltip("quadrant:N")]


def _limits(alt: Any, data: CorrelationData, divisor: float) -> list[Any]:
    drawn = []
    if data.energy_threshold_mj is not None:
        line = alt.Chart(theme.rows([{"energy": data.energy_threshold_mj / divisor}]))
        drawn.append(line.mark_rule(style=theme.FAINT_LINE).encode(x="energy:Q"))
    if data.impact_threshold is not None:
        line = alt.Chart(theme.rows([{"impact": data.impact_threshold}]))
        drawn.append(line.mark_rule(style=theme.FAINT_LINE).encode(y="impact:Q"))
    return drawn


def _corners(
    data: CorrelationData, across: tuple[_Ruler, float | None], up: tuple[_Ruler, float | None]
) -> list[dict[str, Any]]:
    """Return what stands in the quadrants' corners: which one it is, and how many components lie in it."""
    (wide, at), (high, over) = across, up
    if at is None or over is None:
        return []
    found = []
    for right in (False, True):
        for top in (False, True):
            words = f"{'high' if right else 'low'} energy, {'high' if top else 'low'} impact"
            count = len(data.quadrants.get(words, []))
            first, second = words.split(", ")
            share = 1 - wide.share(at) if right else wide.share(at)
            found.append({"corner_x": wide.high if right else wide.low, "corner_y": high.high if top else high.low,
                          "share": share, "long": f"{words}: {count}", "first": f"{first},",
                          "second": f"{second}: {count}", "on_right": right, "on_top": top})  # fmt: skip
    return found


def _written(alt: Any, corners: list[dict[str, Any]]) -> list[Any]:
    """Return the corners' words, on one line or two as their quadrant is wide; none where it is too narrow."""
    if not corners:
        return []
    room = "(width * datum.share - 8) / 5.6"
    broken = "[datum.first, datum.second]"
    whole = "(datum.on_top ? datum.long : ['', datum.long])"  # the last of two lines, as the broken words have
    fits = f"{room} > length(datum.long) ? {whole} : {room} > length(datum.second) ? {broken} : ''"
    base = alt.Chart(theme.rows(corners)).transform_calculate(words=fits)
    base = base.encode(x=alt.X("corner_x:Q"), y=alt.Y("corner_y:Q"), text="words:N", opacity=alt.value(0.9))
    return [
        base.transform_filter(
            f"{'' if right else '!'}datum.on_right && {'' if top else '!'}datum.on_top"
        ).mark_text(
            style=theme.FAINT_TEXT,
            fontStyle="italic",
            align="right" if right else "left",
            baseline="top",
            dx=-4 if right else 4,
            dy=3 if top else -28,  # room for two lines
        )
        for right in (False, True)
        for top in (False, True)
    ]


def _thresholds(*axes: tuple[_Ruler, float | None]) -> list[naming.Line]:
    """Return the limits of the quadrants as lines of the plot."""
    (across, energy), (up, impact) = axes
    upright = [] if energy is None else [((across.share(energy), 0.0), (across.share(energy), 1.0))]
    return upright if impact is None else [*upright, ((0.0, up.share(impact)), (1.0, up.share(impact)))]


def _intervals(records: list[dict[str, Any]], across: _Ruler, up: _Ruler) -> list[naming.Line]:
    """Return the intervals of the points as lines of the plot."""
    found: list[naming.Line] = []
    for record in records:
        x, left, right = (across.share(record[f"energy{end}"]) for end in ("", "_low", "_high"))
        y, bottom, top = (up.share(record[f"impact{end}"]) for end in ("", "_low", "_high"))
        found += [((left, y), (right, y)), ((x, bottom), (x, top))]
    return found


def _names(
    points: Sequence[Point],
    records: list[dict[str, Any]],
    axes: tuple[_Ruler, _Ruler],
    corners: list[dict[str, Any]],
    lines: list[naming.Line],
) -> list[dict[str, Any]]:
    """Choose the points to name: the largest, then the most unequal, as long as their names meet nothing."""
    across, up = axes
    spots = [(across.share(record["energy"]), up.share(record["impact"])) for record in records]
    order = sorted(range(len(points)), key=lambda index: -sum(spots[index]))[:3]
    order += sorted(range(len(points)), key=lambda index: -abs(spots[index][0] - spots[index][1]))
    chosen = [index for index in dict.fromkeys(order) if points[index].quadrant != UNDECIDED]
    words = [naming.corner(one["on_right"], one["on_top"], one["long"], one["share"]) for one in corners]
    taken = [[*(boxes[at] for boxes in words), *drawn] for at, drawn in enumerate(naming.lines(lines))]
    titles = _titles(points)
    return [
        {"energy": records[name.index]["energy"], "impact": records[name.index]["impact"],
         "kind": points[name.index].kind, "component": points[name.index].component,
         "label": titles[name.index], "right": name.right, "down": name.down, "from_px": name.from_px}
        for name in naming.named(spots, titles, chosen[:_MOST_TRIED], _MOST_NAMES, taken)
    ]  # fmt: skip


def _labels(alt: Any, names: list[dict[str, Any]], x: Any, y: Any) -> list[Any]:
    named = alt.Chart(theme.rows(names)).transform_filter("width >= datum.from_px")
    named = named.encode(x=x, y=y, text="label:N", opacity=theme.faded_text())
    return [
        named.transform_filter(f"{'' if right else '!'}datum.right && datum.down == {down}").mark_text(
            style=theme.FAINT_TEXT,
            align="right" if right else "left",
            baseline="middle",
            dx=-naming.ACROSS if right else naming.ACROSS,
            dy=down * naming.DOWN,
        )
        for right in (False, True)
        for down in (-1, 0, 1)
        if any((name["right"], name["down"]) == (right, down) for name in names)
    ]


def _titles(points: Sequence[Point]) -> list[str]:
    """Return what the points are called: kind and layer, and the component's own name where several share them."""
    titles = [point.kind if point.layer is None else f"{point.kind} {point.layer}" for point in points]
    many = Counter(titles)
    return [
        title if many[title] == 1 else f"{title} ({point.component.rpartition('.')[2]})"
        for title, point in zip(titles, points, strict=True)
    ]
