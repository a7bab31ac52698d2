"""What groups, shapes, subjects and laws are called on the page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.reporting import text
from energyscope.reporting.laws.document import DECODE, WHOLE, Found

METHOD = "method"
FIELDS = ("model", "phase", "precision", "execution", "kv_cache", "board", "meter", "weights", METHOD)
_MAIN = FIELDS[:-3]  # named even where nothing varies
_SUFFIXED = {"kv_cache": "KV cache", "weights": "weights", "meter": "meter"}
_EXECUTIONS = {"cuda-graph": "CUDA graph"}
_SUBJECTS = {WHOLE: "whole model", "mlp": "MLP", "lm_head": "LM head"}
_THOUSANDS = re.compile(r"(?<![\w.,-])\d{4,}(?![\w-]|[.,]\d)")  # no part of a name, a date or a fraction
_PER_CENT = re.compile(r"(?<=\d)%")
WAYS = {"length": "lengths", "batch": "batch sizes", "cell": "cells", "model": "models"}


def boards(document: Found) -> dict[str, str]:
    """Return each board's name as a reader knows it: its device, numbered where several boards are of one type."""
    device: dict[str, str] = {}
    for one in (*(document.get("sources") or ()), *(document.get("groups") or ())):
        board = one.get("board")
        if board is not None:
            device.setdefault(str(board), str(one.get("device") or board))
    named: dict[str, str] = {}
    for board, name in device.items():
        alike = [other for other in device if device[other] == name]
        named[board] = name if len(alike) == 1 else f"{name} ({alike.index(board) + 1})"
    return named


def value_of(field: str, value: object, board_names: Mapping[str, str]) -> str:
    """Return a field's value in words."""
    if value is None:
        return "unknown"
    if field == "board":
        return board_names.get(str(value), str(value))
    if field == METHOD:
        return f"method {value}"
    if field in _SUFFIXED:
        return f"{value} {_SUFFIXED[field]}"
    return _EXECUTIONS.get(str(value), str(value))


def varying(items: Sequence[Found]) -> list[str]:
    """Return the fields in which items differ where they have them, in the order of `FIELDS`.

    The method of measuring only where nothing else tells items apart: executions may have one each.
    """
    values = {field: {str(one[field]) for one in items if one.get(field) is not None} for field in FIELDS}
    found = [field for field in FIELDS if len(values[field]) > 1]
    others = {tuple(str(one.get(field)) for field in found if field != METHOD) for one in items}
    alone = METHOD in found and len(others) < len({tuple(str(one.get(field)) for field in found) for one in items})
    return [field for field in found if field != METHOD or alone]


def labels(items: Sequence[Found], board_names: Mapping[str, str]) -> list[str]:
    """Name each item by the fields in which they differ; by model, phase, precision and execution if in none."""
    fields = varying(items)
    if not fields:
        return [full_label(one, board_names) for one in items]
    return [
        ", ".join(value_of(field, one[field], board_names) for field in fields if one.get(field) is not None)
        for one in items
    ]


def full_label(one: Found, board_names: Mapping[str, str]) -> str:
    """Name one item by all that sets it apart; its KV cache only where it has one."""
    shown = [field for field in _MAIN if one.get(field) is not None]
    return ", ".join(value_of(field, one[field], board_names) for field in shown)


def subject_name(subject: object) -> str:
    """Return a subject's name in words."""
    return _SUBJECTS.get(str(subject), str(subject).replace("_", " "))


def kind_name(subject: object) -> str:
    """Return a subject's name as a run's page has it: the kind of its components, or the whole model."""
    return _SUBJECTS[WHOLE] if subject == WHOLE else str(subject)


def subject_start(subject: object) -> str:
    """Return a subject's name where a sentence begins with it."""
    name = subject_name(subject)
    return name[:1].upper() + name[1:]


def shape_name(point: Mapping[str, Any], phase: object) -> str:
    """Return a batch size and a length in words, such as ``"4 x 1,024 tokens"``."""
    batch, tokens = int(point["batch_size"]), int(point["tokens"])
    if phase == DECODE:
        return f"batch {batch:,} at {text.count(tokens, 'token')} of context"
    return f"{batch:,} \u00d7 {text.count(tokens, 'token')}"


def written(told: str) -> str:
    """Write the numbers in a document's own words as the page does: ``"1,024"`` and ``"10 %"``."""
    return _THOUSANDS.sub(lambda found: f"{int(found[0]):,}", _PER_CENT.sub(" %", told))


def span(values: Sequence[object]) -> str:
    """Write numbers as ``"32 to 1,024"`` where there are more than three, else each."""
    numbers = sorted({int(str(value)) for value in values if value is not None})
    if len(numbers) > 3:
        return f"{numbers[0]:,} to {numbers[-1]:,}"
    return text.listed([f"{number:,}" for number in numbers])


def energy_word(document: Found) -> str:
    """Return what joules are called where they begin a title or an axis."""
    return "Modelled energy" if document.get("modelled") else "Energy"


def joules(document: Found) -> str:
    """Return what joules are called inside a sentence."""
    return "modelled joules" if document.get("modelled") else "joules"
