"""From a table to a chart's data: records with what tooltips say, held small, and the finished specification."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, ParamSpec

from energyscope.intervals import Interval, finite
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.theme import altair
from energyscope.reporting.table import Column, Table

LIT = "lit"
Arguments = ParamSpec("Arguments")
_LETTER_PX, _SYMBOL_PX = 6.4, 34  # of a legend's names, and what stands before and behind each
_MANY = 60  # records: fewer are held one by one
_FADED = 0.2  # how much of a mark's opacity is left where something else is highlighted
# A component is highlighted with what it is part of and what is part of it; a mark of a kind with its kind.
_MATCHES = (
    f"{LIT} == null || (datum.component != null && {LIT}.components != null"
    f" ? indexof({LIT}.components, datum.component) >= 0 : indexof({LIT}.kinds, datum.kind) >= 0)"
)


def built_unchecked(draw: Callable[Arguments, Any]) -> Callable[Arguments, Any]:
    """Build a chart without Altair's validation of each of its objects, which takes longer than drawing it.

    Tests validate the finished specifications.
    """

    @wraps(draw)
    def unchecked(*args: Arguments.args, **options: Arguments.kwargs) -> Any:
        with altair().utils.schemapi.debug_mode(arg=False):
            return draw(*args, **options)

    return unchecked


def value_of(cell: Any) -> float | None:
    """Return a cell as a number."""
    return finite(cell.value if isinstance(cell, Interval) else cell)


def limits_of(cell: Any) -> tuple[float | None, float | None]:
    """Return the limits of a cell; None where it has none."""
    return (cell.low, cell.high) if isinstance(cell, Interval) and cell.known else (None, None)


def mark(row: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    """Return what the mark of a row is highlighted by, and its tooltip: every column as the table writes it."""
    tips = {f"tip{at}": column.text(row.get(column.key)) for at, column in enumerate(columns)}
    return {**identity(row), **tips}


def tooltip(columns: Sequence[Column]) -> list[Any]:
    """Return the encoding of the tooltips of marks."""
    alt = altair()
    return [alt.Tooltip(f"tip{at}:N", title=column.title) for at, column in enumerate(columns)]


def shown_columns(table: Table, most: int = 8) -> list[Column]:
    """Return the columns of a table that a tooltip has room for."""
    return [column for column in table.filled().columns if column.unit != "reasons"][:most]


def identity(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a mark is highlighted by: its component and its kind."""
    return {key: row[key] for key in ("kind", "component") if row.get(key) is not None}


def faded(opacity: float = 1.0, left: float = _FADED) -> Any:
    """Return the opacity of marks in a `layered` chart: full where nothing, or the mark itself, is highlighted."""
    lit = {"test": _MATCHES, "value": opacity}
    return altair().OpacityValue(round(opacity * left, 3), condition=lit)


def colour_scale(colours: Mapping[str, str]) -> Any:
    """Return the scale of series with their colours."""
    return altair().Scale(domain=list(colours), range=list(colours.values()))


def legend(names: Sequence[str], **options: Any) -> Any:
    """Return a legend above a chart, with as many names in a line as the chart's width has room for."""
    alt = altair()
    each = max(map(len, names), default=0) * _LETTER_PX + _SYMBOL_PX
    columns = alt.ExprRef(f"max(1, floor(width / {each:.0f}))")
    label = f"{json.dumps(theme.TITLES)}[datum.label] || datum.label"
    return alt.Legend(**{"orient": "top", "title": None, "columns": columns, "labelExpr": label, **options})


def layered(layers: Sequence[Any], records: Iterable[Mapping[str, Any]], height: float, *params: Any) -> Any:
    """Return layers as one chart, as wide as its place, that shows what is highlighted on the page.

    The page sets the parameter ``lit`` to null, or to the ``kinds`` and ``components`` that stay as they are.
    """
    alt = altair()
    kinds = sorted({str(record["kind"]) for record in records if record.get("kind")})
    first, *others = layers
    first = first.add_params(alt.param(LIT, value=None), alt.param("kinds", value=kinds), *params)
    autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    return alt.layer(first, *others, width="container", height=height, padding=4, autosize=autosize)


def chart_of(records: list[dict[str, Any]]) -> Any:
    """Return an Altair chart of records; many are stored by columns, since a page may hold thousands.

    Words that recur are stored once; the chart's first transforms restore the records.
    """
    alt = altair()
    if len(records) < _MANY:
        return alt.Chart(_rows_class()(values=records))
    names = list(dict.fromkeys(name for record in records for name in record))
    columns: dict[str, list[Any]] = {name: [record.get(name) for record in records] for name in names}
    coded = [name for name in names if _recurs(columns[name])]
    words = {f"{name}_words": list(dict.fromkeys(columns[name])) for name in coded}
    for name in coded:
        codes = {word: code for code, word in enumerate(words[f"{name}_words"])}
        columns[name] = [codes[word] for word in columns[name]]
    chart = alt.Chart(_rows_class()(values=[{**columns, **words}])).transform_flatten(names)
    return chart.transform_calculate(**{name: f"datum.{name}_words[datum.{name}]" for name in coded})


def _recurs(values: Sequence[Any]) -> bool:
    """Whether values are words, or nothing, of which most occur more than once."""
    words = all(value is None or isinstance(value, str | bool) for value in values)
    return words and len(set(values)) <= len(values) / 2


@cache
def _rows_class() -> Any:
    """Return Altair's data without the copies that it makes at every step: of a thousand records, seconds."""

    class Rows(altair().Data):  # type: ignore[misc]
        def __deepcopy__(self, memo: dict[int, Any]) -> Rows:
            return self

        def to_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {"values": self._kwds["values"]}

    return Rows


def spec(chart: Any) -> dict[str, Any]:
    """Return a chart as a Vega-Lite specification without a theme; data that layers share are stored once.

    It is not validated here, which would take seconds for a large run: tests do that.
    """
    specification: dict[str, Any] = chart.to_dict(validate=False)
    specification.pop("config", None)
    datasets: dict[str, Any] = {}
    for part in (specification, *specification.get("layer", [])):
        values = (part.get("data") or {}).get("values")
        if values is not None:
            name = next((name for name, data in datasets.items() if data == values), f"data{len(datasets)}")
            datasets[name] = values
            part["data"] = {"name": name}
    return {**specification, "datasets": {name: [*map(dict, values)] for name, values in datasets.items()}}
