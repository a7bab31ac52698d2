"""Whether a file of a run holds what its declaration says. A directory may come from anybody.

A declaration is a class with annotations: a row of a table (`energyscope.runs.schema`) or a part of a document
(`energyscope.runs.documents`). What is unknown is None in a document and an empty cell in a table.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

if TYPE_CHECKING:
    import pandas as pd

LARGEST = sys.float_info.max  # perplexities of broken models come near: no infinity, nothing that is no number
MOST_ITEMS = 2**20  # of a list or an object
MOST_LETTERS = 2**26  # packed examples are one text
MOST_LEVELS = 100  # of objects and lists in one another
# Names mean the same in every file. Energies and times may be below 0: something was subtracted from them.
NOT_NEGATIVE = frozenset({
    "batch_size", "bytes", "calls", "cells", "components", "context_length", "examples", "executed_flops",
    "failed", "flops", "generations", "groups", "iterations", "model_size_mb", "n", "new_tokens", "num_correct",
    "num_parameters", "num_power_samples", "num_samples_accuracy", "parameters", "passes", "prompt_tokens",
    "requests", "sequence_length", "size_bytes", "slots", "ticks", "tokens", "trial", "trials", "unsent", "users",
    "warmup_iterations", "weight_bytes", "windows",
})  # fmt: skip
WORDS = {bool: "true or false", dict: "an object", float: "a number", int: "a whole number", list: "a list",
         str: "a text"}  # fmt: skip


def document_flaw(document: object, kind: Any, place: str = "") -> str | None:
    """Return what is wrong with a value of a document, None where nothing is.

    Args:
        document: what was read: an object, a list or a single value.
        kind: its declaration: a TypedDict or dataclass, a type, ``list[...]``, ``dict[str, ...]``, a union or Any.
            A key that a TypedDict does not require may be missing or null, as may what is in a ``dict``.
        place: where the value is, as ``phases[3].seconds``.

    """
    if isinstance(document, float | int) and not isinstance(document, bool):
        return _number_flaw(document, kind, place)
    if too_much := _size_flaw(document, place):
        return too_much
    fits = [each for each in _kinds(kind) if _is_of(document, each)]
    if not fits:
        return f"{place} is {_shown(document)}, and not {_words(kind)}"
    if isinstance(document, dict):
        flaws = [_object_flaw(document, each, place) for each in fits]
        return None if None in flaws else flaws[0]
    item = next(iter(get_args(fits[0])), Any)
    values = enumerate(document) if isinstance(document, list) else ()
    return _first(document_flaw(value, item, f"{place}[{number}]") for number, value in values)


def table_flaw(frame: pd.DataFrame, row: type, others: Any = Any) -> str | None:
    """Return what is wrong with the cells of a table whose rows are declared, None where nothing is.

    What has a default may be empty, as earlier versions left it. Columns that are not declared are of the kind of
    ``others``.
    """
    hints = _hints(row)
    filled = {
        field.name
        for field in (fields(row) if is_dataclass(row) else ())
        if type(None) not in _kinds(hints[field.name]) and field.default is MISSING
    }
    return _first(
        _column_flaw(frame[name], hints.get(str(name), others), may_be_empty=name not in filled) for name in frame
    )


def texts_of(row: type) -> list[str]:
    """Return the columns of a declared table that hold texts, whatever they look like."""
    return [name for name, kind in _hints(row).items() if str in _kinds(kind)]


def _first(flaws: Iterable[str | None]) -> str | None:
    return next(filter(None, flaws), None)


@cache
def _hints(declared: type) -> Mapping[str, Any]:
    return get_type_hints(declared)


@cache
def _kinds(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union; of another declaration, itself."""
    return get_args(kind) if get_origin(kind) in {Union, types.UnionType} else (kind,)


def _is_of(value: object, kind: Any) -> bool:
    """Tell whether a value, no number, is of a declared kind by itself, whatever it holds."""
    if kind is Any:
        return True
    if isinstance(value, dict):
        return is_typeddict(kind) or is_dataclass(kind) or get_origin(kind) is dict
    if isinstance(value, list):
        return get_origin(kind) is list
    return kind is str if isinstance(value, str) else kind is type(value)


def _size_flaw(value: object, place: str) -> str | None:
    if place.count(".") + place.count("[") > MOST_LEVELS:
        return f"{place[:40]}... is nested deeper than anything in a run"
    most = MOST_LETTERS if isinstance(value, str) else MOST_ITEMS
    if isinstance(value, dict | list | str) and len(value) > most:
        return f"{place} has {len(value)} entries or letters, which nothing in a run has"
    return None


def _number_flaw(value: float, kind: Any, place: str) -> str | None:
    kinds = _kinds(kind)
    if not (Any in kinds or float in kinds or (int in kinds and isinstance(value, int))):
        return f"{place} is {_shown(value)}, and not {_words(kind)}"
    if not abs(value) <= LARGEST:
        return f"{place} is {_shown(value)}, which no number of a run is"
    if value < 0 and place.rpartition(".")[2] in NOT_NEGATIVE:
        return f"{place} is {value:g}, which is below 0"
    return None


def _object_flaw(value: Mapping[str, Any], kind: Any, place: str) -> str | None:
    prefix = f"{place}." if place else ""
    if get_origin(kind) is dict:
        item = get_args(kind)[1]
        known = ((name, each) for name, each in value.items() if each is not None)
        return _first(document_flaw(each, item, f"{prefix}{name}") for name, each in known)
    hints = {} if kind is Any else _hints(kind)
    lacking = sorted(_required(kind) - set(value))
    if lacking:
        return f"{place or 'it'} lacks {', '.join(lacking)}"
    strict = hints.keys() if is_dataclass(kind) else _required(kind)
    return _first(
        document_flaw(each, hints.get(name, Any), f"{prefix}{name}")
        for name, each in value.items()
        if each is not None or name in strict
    )


@cache
def _required(kind: Any) -> frozenset[str]:
    """Return the keys that an object must have: of a row's data class, those without a default."""
    if is_dataclass(kind):
        return frozenset(field.name for field in fields(kind) if field.default is MISSING)
    return frozenset(getattr(kind, "__required_keys__", ()))


def _column_flaw(column: pd.Series, kind: Any, *, may_be_empty: bool) -> str | None:
    """Return the first cell of a column that is not of its kind, with its line in the file."""
    import numpy as np
    import pandas as pd

    kinds, name, mixed = set(_kinds(kind)), column.name, column.dtype == object
    known = column.notna()
    flaws: dict[str, Any] = {} if may_be_empty else {"is empty": ~known}
    if kinds & {float, int} or (kind is Any and pd.api.types.is_float_dtype(column)):
        numbers = pd.to_numeric(column, errors="coerce").astype(float)
        truths = column.map(lambda cell: isinstance(cell, bool)) if mixed else column.dtype == bool
        flaws[f"is not {_words(kind)}"] = known & (numbers.isna() | truths)
        if int in kinds and float not in kinds:
            flaws["is not a whole number"] = known & (numbers % 1 != 0)
        flaws["is no number of a run"] = np.isinf(numbers) | (numbers.abs() > LARGEST)
        flaws["is below 0"] = (numbers < 0) & (name in NOT_NEGATIVE)
    elif bool in kinds and column.dtype != bool:
        flaws["is not true or false"] = known & ~column.map(lambda cell: str(cell) in {"True", "False"})
    elif mixed:
        flaws[f"has over {MOST_LETTERS} letters"] = column.map(lambda cell: len(str(cell)) > MOST_LETTERS)
    for what, wrong in flaws.items():
        place = int(np.argmax(wrong.to_numpy(dtype=bool))) if len(column) else 0
        if len(column) and bool(wrong.iloc[place]):
            return f"line {place + 2}: {name} {what} ({_shown(column.iloc[place])})"
    return None


def _words(kind: Any) -> str:
    """Return a declaration in words."""
    named = [WORDS.get(get_origin(each) or each, "an object") for each in _kinds(kind) if each is not type(None)]
    return " or ".join(dict.fromkeys(named))


def _shown(value: object) -> str:
    """Return a value in a few letters."""
    if value is None:
        return "null"
    if isinstance(value, dict | Sequence) and not isinstance(value, str):
        return WORDS[dict] if isinstance(value, dict) else WORDS[list]
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
