"""Which cells of a document of laws have a whole model whose energy is below grade C."""

from __future__ import annotations

from collections.abc import Collection

from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import WHOLE, Found

Shapes = Collection[tuple[object, object]]  # batch sizes and tokens


def invalid_shapes(document: Found, one: Found) -> set[tuple[object, object]]:
    """Return the shapes of which all cells of a group are graded invalid: points do not say whose they are.

    ``one`` is a group, or anything else that says in some of `names.FIELDS` which cells it is of.
    """
    sources = [source for source in document.get("sources") or () if _is_of(source, one)]
    good = {_shape(source) for source in sources if source.get("quality") != "invalid"}
    return {_shape(source) for source in sources} - good


def is_weak(point: Found, shapes: Shapes) -> bool:
    """Tell whether a point, or a row, is of one of these shapes."""
    return _shape(point) in shapes


def is_weak_whole(subject: Found, point: Found, shapes: Shapes) -> bool:
    """Tell whether a point is the whole model's and of one of these shapes: of parts, no grade is known here."""
    return subject["subject"] == WHOLE and is_weak(point, shapes)


def _is_of(source: Found, one: Found) -> bool:
    return all(str(source[name]) == str(one[name]) for name in names.FIELDS if name in source and name in one)


def _shape(one: Found) -> tuple[object, object]:
    return one.get("batch_size"), one.get("tokens")
