"""The records that a chart draws, and the specification that carries them to a page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from energyscope.errors import RunError

_MANY = 60  # records: fewer are held one by one


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


def rows(values: list[dict[str, Any]]) -> Any:
    """Make a chart's data of records; unlike a data frame it knows no limit of rows."""
    return _rows_class()(values=values)


@cache
def _rows_class() -> Any:
    """Return Altair's data without the copies that it makes at every step: of a thousand records, seconds."""

    class Rows(altair().Data):  # type: ignore[misc]
        def __deepcopy__(self, memo: dict[int, Any]) -> Rows:
            return self

        def to_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {"values": self._kwds["values"]}

    return Rows


def compact(records: list[dict[str, Any]]) -> Any:
    """Return an Altair chart of records, of which many are held by columns: a page may hold thousands.

    Words that recur are held once; the chart's first transforms make the records of it again.
    """
    alt = altair()
    if len(records) < _MANY:
        return alt.Chart(rows(records))
    names = list(dict.fromkeys(name for record in records for name in record))
    columns: dict[str, list[Any]] = {name: [record.get(name) for record in records] for name in names}
    words = {f"{name}_words": list(dict.fromkeys(columns[name])) for name in names if _recurs(columns[name])}
    coded = [name for name in names if f"{name}_words" in words]
    for name in coded:
        at = {word: index for index, word in enumerate(words[f"{name}_words"])}
        columns[name] = [at[word] for word in columns[name]]
    chart = alt.Chart(rows([{**columns, **words}])).transform_flatten(names)
    return chart.transform_calculate(**{name: f"datum.{name}_words[datum.{name}]" for name in coded})


def _recurs(values: Sequence[Any]) -> bool:
    """Whether values are words, or nothing, of which most occur more than once."""
    written = all(value is None or isinstance(value, str | bool) for value in values)
    return written and len(set(values)) <= len(values) / 2


def expanded(specification: dict[str, Any]) -> dict[str, Any]:
    """Return a specification with the records of `compact` data written out, for those who read or change them."""
    datasets = {name: _records(held) for name, held in (specification.get("datasets") or {}).items()}

    def plain(part: dict[str, Any]) -> dict[str, Any]:
        kept = [step for step in part.get("transform", []) if not _of_compact(step)]
        return {**{key: value for key, value in part.items() if key != "transform"},
                **({"transform": kept} if kept else {})}  # fmt: skip

    found = {**plain(specification), "datasets": datasets}
    return {**found, "layer": [plain(layer) for layer in found["layer"]]} if "layer" in found else found


def _of_compact(step: dict[str, Any]) -> bool:
    return "flatten" in step or str(step.get("calculate")).startswith(f"datum.{step.get('as')}_words[")


def _records(held: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(held) != 1 or not any(isinstance(value, list) for value in held[0].values()):
        return held
    columns = {name: values for name, values in held[0].items() if f"{name.removesuffix('_words')}_words" != name}
    words = {name: held[0][f"{name}_words"] for name in columns if f"{name}_words" in held[0]}
    read = {
        name: [words[name][at] for at in values] if name in words else values for name, values in columns.items()
    }
    return [
        {name: value for name, value in zip(read, row, strict=True) if value is not None}
        for row in zip(*read.values(), strict=True)
    ]


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
    return {**specification, "datasets": {name: [*map(dict, held)] for name, held in datasets.items()}}
