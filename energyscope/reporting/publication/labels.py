"""Text among the marks of a chart: in a column it has less room than in the report, and print has no tooltips."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from energyscope.reporting.publication import lettering

_SIZE, _HALF_HEIGHT, _POINT = 12.0, 8.0, 5.0  # of text and of points, in the charts' pixels
_MARGINS_PX = 8.0  # what is left free around a panel
_MATRIX_NAMES_PX, _WIDE_CELL_PX = 90.0, 34.0
_AXES_PX = 60.0  # of the width, about what the vertical axis takes

Box = tuple[float, float, float, float]  # left, top, right, bottom


def thin(spec: dict[str, Any], width: float, height: float) -> None:
    """Drop, from a specification of points with names, the names that would cover another one or a point.

    Names are the records with ``label``; the layers that draw them say where (``align``, ``dx``, ``dy``). Those
    that come first are kept.
    """
    datasets = spec.get("datasets") or {}
    texts = [layer for layer in spec.get("layer", []) if _names(spec, layer)]
    if not texts:
        return
    name = _data_name(spec, texts[0])
    x, y = (_Axis(texts[0]["encoding"][axis], datasets) for axis in ("x", "y"))
    plot = (width - _AXES_PX, height)
    points = [
        (x.share(record) * plot[0], (1 - y.share(record)) * plot[1])
        for key, records in datasets.items()
        for record in records
        if key != name and x.has(record) and y.has(record)
    ]
    taken: list[Box] = [(px - _POINT, py - _POINT, px + _POINT, py + _POINT) for px, py in points]
    kept = []
    for record in datasets[name]:
        at = (x.share(record) * plot[0], (1 - y.share(record)) * plot[1])
        box = _box(str(record["label"]), at, right=bool(record.get("right")), down=int(record.get("down", -1)))
        if not any(_meet(box, other) for other in taken):
            taken.append(box)
            kept.append(record)
    datasets[name] = kept


def make_room(spec: dict[str, Any], width: float) -> None:
    """Lengthen a linear horizontal scale with given ends until what is written right of the marks fits.

    Such texts are aligned left; where they begin, and what they say, are fields of their records.
    """
    scales = [
        scale
        for layer in spec.get("layer", [])
        if isinstance(scale := layer.get("encoding", {}).get("x", {}).get("scale"), dict)
        and len(scale.get("domain", [])) == 2
        and scale.get("type", "linear") == "linear"
    ]
    if not scales:
        return
    low, high = scales[0]["domain"]
    datasets = spec.get("datasets") or {}
    plot = width - _names_px(spec, width, datasets) - _MARGINS_PX
    for at, said, shift in _written(spec, datasets):
        needed = (lettering.width(said, _SIZE) + shift + 2) / plot
        high = max(high, low + (at - low) / max(1 - needed, 0.2))
    for scale in scales:
        scale["domain"] = [low, high]


def _written(
    spec: dict[str, Any], datasets: dict[str, list[dict[str, Any]]]
) -> Iterator[tuple[float, str, float]]:
    """Yield where each text that is aligned left begins, what it says, and by how many pixels it is shifted."""
    for layer in spec["layer"]:
        mark, encoding = layer.get("mark"), layer.get("encoding", {})
        if not isinstance(mark, dict) or mark.get("type") != "text" or mark.get("align") != "left":
            continue
        for record in datasets.get(_data_name(spec, layer), []):
            at, said = (record.get(encoding.get(channel, {}).get("field")) for channel in ("x", "text"))
            if isinstance(at, int | float) and isinstance(said, str):
                yield float(at), said, float(mark.get("dx", 0))


def _names_px(spec: dict[str, Any], width: float, datasets: dict[str, list[dict[str, Any]]]) -> float:
    """Return how wide the names along a chart's vertical axis are."""
    channels = [layer.get("encoding", {}).get("y", {}) for layer in spec.get("layer", [])]
    fields = {channel.get("field") for channel in channels if channel.get("type") in {"nominal", "ordinal"}}
    names = {
        str(record[key]) for records in datasets.values() for record in records for key in fields & set(record)
    }
    longest = max((lettering.width(name, _SIZE) for name in names), default=0.0)
    return min(longest, width_of_names(width)) + 6


def width_of_names(width: float) -> float:
    """Return the most that names along an axis may take of a panel this wide, pixels; longer ones are cut."""
    return min(230.0, width * 0.44)


def write_out(spec: dict[str, Any], width: float) -> None:
    """Write the numbers of a matrix with both their digits where its cells are wide enough, and a real minus.

    The report's records hold them ``short``, for a telephone, and as ``said`` in full.
    """
    datasets = spec.get("datasets") or {}
    for layer in spec.get("layer", []):
        encoding = layer.get("encoding", {})
        if encoding.get("text", {}).get("field") != "short":
            continue
        records = datasets.get(_data_name(spec, layer), [])
        columns = {record.get(encoding["x"]["field"]) for record in records}
        wide = (width - _MATRIX_NAMES_PX) / max(len(columns), 1) >= _WIDE_CELL_PX
        encoding["text"]["field"] = "said" if wide else "short"
        for record in records:
            record |= {key: str(record.get(key, "")).replace("-", "\u2212") for key in ("said", "short")}


def set_off(spec: dict[str, Any], paper: str) -> None:
    """Put a halo in the colour of the paper behind texts, where lines may cross them; not over coloured cells."""
    layers = spec.get("layer", [])
    marks = [layer["mark"] if isinstance(layer["mark"], dict) else {"type": layer["mark"]} for layer in layers]
    if any(mark["type"] == "rect" for mark in marks):
        return
    found = []
    for layer, mark in zip(layers, marks, strict=True):
        if mark["type"] == "text":
            encoding = {key: value for key, value in layer["encoding"].items() if key not in {"color", "opacity"}}
            halo = {"fill": paper, "stroke": paper, "strokeWidth": 3.5, "strokeJoin": "round"}
            found.append({**layer, "mark": {**mark, **halo}, "encoding": encoding})
        found.append(layer)
    spec["layer"] = found


class _Axis:
    """Where a record lies along an axis, from 0 to 1, over all records that are drawn."""

    def __init__(self, channel: dict[str, Any], datasets: dict[str, list[dict[str, Any]]]) -> None:
        self.field = channel["field"]
        scale = channel.get("scale") or {}
        self.type, self.constant = scale.get("type", "linear"), scale.get("constant", 1.0)
        places = [self._place(record) for records in datasets.values() for record in records if self.has(record)]
        self.low, self.high = min(places), max(places)

    def has(self, record: dict[str, Any]) -> bool:
        return isinstance(record.get(self.field), int | float)

    def share(self, record: dict[str, Any]) -> float:
        return (self._place(record) - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def _place(self, record: dict[str, Any]) -> float:
        value = float(record[self.field])
        if self.type == "log":
            return math.log(value)
        if self.type == "symlog":
            return math.copysign(math.log1p(abs(value) / self.constant), value)
        return value


def _data_name(spec: dict[str, Any], layer: dict[str, Any]) -> str:
    """Return the name of a layer's data, which may be that of the whole chart."""
    return str((layer.get("data") or spec.get("data") or {}).get("name"))


def _names(spec: dict[str, Any], layer: dict[str, Any]) -> bool:
    mark = layer.get("mark")
    records = (spec.get("datasets") or {}).get(_data_name(spec, layer)) or []
    return isinstance(mark, dict) and mark.get("type") == "text" and any("right" in record for record in records)


def _box(label: str, at: tuple[float, float], *, right: bool, down: int) -> Box:
    """Return where a name stands: above its point (``down`` -1), level or below, to its left with ``right``."""
    x, y = at[0] + (-8 if right else 8), at[1] + 8 * down
    wide = lettering.width(label, _SIZE)
    left = x - wide if right else x
    return left, y - _HALF_HEIGHT, left + wide, y + _HALF_HEIGHT / 2


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
