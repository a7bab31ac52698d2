"""Why a number is missing, weak or to be read with care: codes with values, put into words where they are shown.

A run file holds a reason as ``code`` or ``code(name=value, ...)``, with values in JSON, and several of them in one
cell with ``"; "`` between. Code decides by `Reason.code`; only people read the words. The modules beside this one
list the words of every code, each in one place.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from energyscope import format as fmt
from energyscope.reasons import (
    benchmark,
    comparison,
    energy,
    figures,
    generation,
    impact,
    planning,
    run,
    scaling,
    serving,
)

__all__ = ["WORDS", "Reason", "join", "read", "reason", "split", "words"]

_TOPICS = (run, energy, benchmark, comparison, generation, impact, planning, scaling, figures, serving)
WORDS: dict[str, str] = {code: text for topic in _TOPICS for code, text in topic.WORDS.items()}
_WRITTEN = re.compile(r"([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?:\((.*)\))?", re.DOTALL)
_NAME = re.compile(r"\s*,?\s*([a-z_][a-z0-9_]*)=")
_DECODER = json.JSONDecoder()
_UNITS = {"percent": "share", "change": "change", "number": ""}  # of values whose words name no unit


class Reason(str):
    """A reason as run files hold it. ``code`` is None of free text, as runs of schema 1 have it."""

    __slots__ = ("code", "values")

    code: str | None
    values: Mapping[str, Any]

    def __new__(cls, text: str, code: str | None = None, values: Mapping[str, Any] | None = None) -> Self:
        """Return a text with its meaning."""
        item = super().__new__(cls, text)
        item.code, item.values = code, values or {}
        return item

    def __getnewargs__(self) -> tuple[Any, ...]:  # for pickle, between processes
        """Return what makes an equal one."""
        return str(self), self.code, self.values

    @property
    def words(self) -> str:
        """What it says, in words; free text says itself."""
        if self.code is None:
            return str(self)
        try:
            return _Words().vformat(WORDS[self.code], (), self.values)
        except (LookupError, TypeError, ValueError):  # a file may hold values of another type
            return str(self)


def reason(code: str, **values: Any) -> Reason:
    """Make a reason of a code that the catalogue lists, with the values that its words name.

    Raises:
        ValueError: there is no such code, or a value is missing or has no place in its words.

    """
    if code not in WORDS:
        raise ValueError(f"no reason {code!r}: add its words to energyscope/reasons")
    if (named := _fields(WORDS[code])) != set(values):
        raise ValueError(f"the words of {code!r} name {sorted(named)}, and the values are {sorted(values)}")
    values = {name: _short(value) for name, value in values.items()}
    inside = ", ".join(f"{name}={_json(value)}" for name, value in values.items())
    return Reason(f"{code}({inside})" if inside else code, code, values)


def read(text: str) -> Reason:
    """Read one reason; what the catalogue does not list stays free text."""
    if isinstance(text, Reason):
        return text
    match = _WRITTEN.fullmatch(text)
    if match is None or match[1] not in WORDS:
        return Reason(text)
    values = _values(match[2] or "")
    known = values is not None and _fields(WORDS[match[1]]) <= set(values)
    return Reason(text, match[1], values) if known else Reason(text)


def split(cell: object) -> list[Reason]:
    """Read the reasons of a table's cell; none of an empty one, whatever a table holds in its place."""
    text = "" if cell is None or cell != cell else str(cell).strip()  # noqa: PLR0124 - NaN differs from itself
    return [read(part) for part in text.split("; ") if part]


def join(reasons: Iterable[str]) -> str:
    """Write reasons as one cell, each once."""
    return "; ".join(dict.fromkeys(reasons))


def words(cell: object) -> str:
    """Put the reasons of a cell into words, with ``"; "`` between."""
    return "; ".join(item.words for item in split(cell))


def _values(written: str) -> dict[str, Any] | None:
    """Read ``name=value, ...``; None where it is something else."""
    values: dict[str, Any] = {}
    place = 0
    while place < len(written):
        name = _NAME.match(written, place)
        if name is None:
            return None
        try:
            values[name[1]], place = _DECODER.raw_decode(written, name.end())
        except ValueError:
            return None
    return values


def _fields(text: str) -> set[str]:
    return {name.partition("[")[0] for _, name, _, _ in string.Formatter().parse(text) if name}


def _short(value: Any) -> Any:
    """Return a value that JSON holds, floats with the digits that somebody reads."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {str(key): _short(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str):
        return [_short(item) for item in value]
    if hasattr(value, "item"):
        return _short(value.item())
    return value if value is None or isinstance(value, int | str | bool) else str(value)


def _json(value: Any) -> str:
    """Write a value in JSON that cannot end its cell: no semicolon stands in it as such."""
    return json.dumps(value, ensure_ascii=False).replace(";", "\\u003b")


class _Words(string.Formatter):
    """Fills words in as `energyscope.format` writes numbers, whatever the file that they come from.

    ``{windows:count window}`` writes ``1 window`` or ``3 windows``, and ``{tokens:count}`` ``1,024``;
    ``{names:list}`` writes ``a, b and c`` and ``{names:list 2}`` ``a, b and 1 more``; ``{share:percent}`` writes
    ``12.7 %`` and ``{change:change}`` ``+12.7 %``; ``{watts:in W}`` writes a value in its unit and
    ``{error:number}`` one without; ``{why:reason}`` puts a reason that is a value into words. What is None is
    ``unknown``.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        """Write one value."""
        kind, _, rest = format_spec.partition(" ")
        if value is None:
            return "unknown"
        if kind == "count":
            return fmt.count(value, rest) if rest else fmt.quantity(value, "count")
        if kind == "list":
            return fmt.listed([str(item) for item in value], int(rest) if rest else len(value))
        if kind in _UNITS or kind == "in":
            return fmt.quantity(value, _UNITS.get(kind, rest))
        if kind == "reason":
            return words(value)
        return str(super().format_field(value, format_spec))
