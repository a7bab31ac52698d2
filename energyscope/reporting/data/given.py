"""Values with limits as the documents of a run hold them: ``{"value", "low", "high"}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from energyscope.runs.intervals import Interval, finite, interval


def given(entry: object) -> Interval | None:
    """Return an entry of a document as an interval; None where it is null or holds no number."""
    if not isinstance(entry, Mapping):
        return None
    return interval(entry.get("value"), entry.get("low"), entry.get("high"))


def whole(entry: object) -> int | None:
    """Return a count of a document; None where it is missing."""
    number = finite(entry)
    return None if number is None else int(number)


def section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a document; an empty one where it is missing or null."""
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def entries(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the entries of a list in a document; none where it is missing or null."""
    return [entry for entry in document.get(name) or [] if isinstance(entry, Mapping)]
