"""The table of a run's kinds beside their laws."""

from __future__ import annotations

import re
from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.data.scaling_cells import OwnCell, OwnGroup
from energyscope.reporting.data.scaling_words import (
    best_of,
    beyond_words,
    far_words,
    form_name,
    law_of,
    less_words,
)
from energyscope.reporting.figure import Table
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import TWO_TERM, Found, checked, fitted, item
from energyscope.reporting.laws.law_tables import FORMS, instead_words, terms_words

WEAK = "\u2020 Below grade C, or some of it is, and not to be relied on"
DIFFERENCE = "difference [95\u00a0%]"
_DAGGER, _NONE = "\u2020", "\u2013"
_INSIDE = re.compile(r" (?![\[(])")  # spaces in a number with its limits, but those before these and before words


def kinds_table(own: OwnGroup) -> Table | None:
    """Return what was measured in the run beside each subject's law; None where there is no law at all."""
    several = len(own.cells) > 1
    columns = ["kind", *(["cell"] if several else []), "this run [95 %]", f"{TWO_TERM} law says", DIFFERENCE,
               "best law says", "E0 [95 %]", "k [95 %]", "R\u00b2", "to know"]  # fmt: skip
    rows = []
    for subject in own.group.get("subjects") or ():
        if not any(fitted(subject.get(name)) for name in FORMS):
            continue
        for cell in own.cells:
            name = names.kind_name(subject.get("subject"))
            shape = [cell.name(own.group)] if several else []
            *numbers, best, known = _cells(subject, cell)
            told = [*map(_kept, numbers), text.unbroken(best), *map(_kept, terms_words(subject))]
            rows.append([name, *shape, *told, text.unbroken(known)])
    return Table([*map(text.unbroken, columns)], rows) if rows else None


def shows_difference(table: Table | None) -> bool:
    """Tell whether some kind is set against what its law says."""
    return table is not None and any(row[table.columns.index(DIFFERENCE)] != _NONE for row in table.rows)


def shows_weak(table: Table | None) -> bool:
    """Tell whether the energy of some kind is marked as below grade C."""
    return table is not None and any(_DAGGER in cell for row in table.rows for cell in row)


def _kept(cell: str) -> str:
    """Let a number break before its limits, and before what is in brackets behind it, only."""
    return _INSIDE.sub("\u00a0", cell)


def _cells(subject: Found, cell: OwnCell) -> list[str]:
    """Return what was measured, what the laws say, the difference and what to know of it."""
    index = cell.point_in(subject)
    if index is None:
        return [*[_NONE] * 4, "; ".join(["not among the cells of this law", *_flags(subject)])]
    measured, law = item(subject["points"][index].get("energy_mj")), law_of(subject)[index]
    weak, of = cell.below(subject.get("subject"))
    marked = f" {_DAGGER}" if weak else ""
    known = [*([f"{weak} of {of} below grade C"] if weak and of > 1 else []), *_flags(subject)]
    if measured is not None and law is not None:
        known += far_words(measured, law)
    known += beyond_words(subject, index)
    form = form_name(subject).removeprefix(TWO_TERM)
    return [
        f"{text.with_limits(measured, 'mJ')}{marked}",
        _NONE if law is None else f"{text.quantity(law, 'mJ')}{f' ({form.strip()})' if form else ''}",
        _NONE if measured is None or law is None else less_words(measured, law),
        _best(subject, index),
        "; ".join(known) or _NONE,
    ]


def _best(subject: Found, index: int) -> str:
    """Return what the law with the least error of left-out cells says, where it is another."""
    best = best_of(subject, index)
    if best is None:
        return "the same" if subject.get("best") else _NONE
    name, energy = best
    return name if energy is None else f"{name}: {text.quantity(energy, 'mJ')}"


def _flags(subject: Found) -> Sequence[str]:
    """Return what must be known of a subject's law in all cells."""
    name, law = next((name, law) for name in FORMS if (law := fitted(subject.get(name))))
    unsure = [] if name == "constant" or checked(law) else ["two cells give a line that nothing checks"]
    instead = [] if name == "two_term" else [instead_words(subject)]
    return [*instead, *unsure, *(str(flag) for flag in law.get("flags") or ())]
