"""What is said of a run's own cell beside the law that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.data.scaling_cells import OwnCell, OwnGroup
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import DECODE, TWO_TERM, Found, checked, fitted, item, said_by, whole_of
from energyscope.reporting.laws.law_tables import FEWEST, FORMS
from energyscope.reporting.laws.law_words import breaks_said, held_out_said, law_said
from energyscope.runs.intervals import Interval, difference, finite

LESS = "measured less law"
TOLERANCE = 0.10  # as in `scaling.breaks.TOLERANCE`
_NO_SIGN = re.compile(r"-(?=0(?:\.0+)?[\],])")  # of a limit that is shown as 0
_NAMES = {"two_term": TWO_TERM, "by_bytes": f"{TWO_TERM} in bytes", "constant": "constant"}


def group_said(document: Found, own: OwnGroup) -> list[str]:
    """Say the whole model's law, how the run lies beside it, where it breaks and how it foretells."""
    if own.group.get("reason"):
        return []
    said = [
        law_said(document, own.group, named=False),
        *(_own_said(document, own.group, one) for one in own.cells),
        breaks_said(own.group, names.kind_name),
        *held_out_said(own.group, names.kind_name),
    ]
    return [one for one in said if one]


def unit_of(group: Found) -> str:
    """Return what a cell's energy is of: a pass of the model, or a step of a decode."""
    return "step" if group.get("phase") == DECODE else "pass"


def _own_said(document: Found, group: Found, cell: OwnCell) -> str:
    whole = whole_of(group) or {}
    index = cell.point_in(whole)
    if index is None:
        return ""
    measured, law = item(whole["points"][index]["energy_mj"]), law_of(whole)[index]
    marked = f"{' (MODELLED)' if document.get('modelled') else ''}{' (below grade C)' if cell.invalid else ''}"
    took = f"This run, {cell.name(group)}, took {text.with_limits(measured, 'mJ')}{marked} a {unit_of(group)}."
    if law is None or measured is None:
        return took
    return " ".join([took, *_beside(whole, index, measured, law)])


def _beside(whole: Found, index: int, measured: Interval, law: float) -> list[str]:
    """Say what the two-term law, and the best one if that is another, say of a point that was measured."""
    share = " of the measured" if _is_share(measured) else ""
    less = f"{LESS} is {less_words(measured, law)}{share}"
    known = [f"The {form_name(whole)} law says {text.quantity(law, 'mJ')}: {less}."]
    best = best_of(whole, index)
    if best and best[1] is not None:
        known.append(
            f"The {best[0]} law, with the least error of left-out cells, says {text.quantity(best[1], 'mJ')}: "
            f"{less_words(measured, best[1])}."
        )
    notes = [*far_words(measured, law), *beyond_words(whole, index)]
    return [*known, *(f"{one[:1].upper()}{one[1:]}." for one in notes)]


def form_name(subject: Found) -> str:
    """Return which form the law has that is told of a subject."""
    return next((_NAMES[name] for name in FORMS if fitted(subject.get(name))), "")


def law_of(subject: Found) -> list[float | None]:
    """Return what a subject's law says of each of its points, in mJ; None of a line that nothing checks."""
    points = subject.get("points") or []
    name, law = next(((name, law) for name in FORMS if (law := fitted(subject.get(name)))), ("", None))
    sure = law if name == "constant" or law is None else checked(law)
    return said_by(sure, points)


def best_of(subject: Found, index: int) -> tuple[str, float | None] | None:
    """Return the law with the least error of left-out cells, where it is not `law_of`, and what it says (mJ).

    None: it is that one, or no law could be judged.
    """
    best = subject.get("best")
    if not best or best == form_name(subject):
        return None
    known = {title: subject.get(name) for name, title in _NAMES.items()}
    roofline = fitted(subject.get("roofline"))
    if roofline is not None:
        known[str(roofline.get("law"))] = roofline
    return str(best), said_by(fitted(known.get(str(best))), subject.get("points") or [])[index]


def _is_share(measured: Interval) -> bool:
    return (measured.value if measured.low is None else measured.low) > 0


def less_words(measured: Interval, law: float) -> str:
    """Write what was measured less what a law says, with the limits of the measured.

    As a share of the measured, or in joules where that is not shown to be positive.
    """
    if not _is_share(measured):
        change = difference(measured, Interval(law, law, law))
        return _signed(change, text.with_limits(change, "mJ"))
    ends = sorted(1 - law / end for end in (measured.low, measured.high) if end)
    share = Interval(1 - law / measured.value, *(ends if len(ends) == 2 else (None, None)))
    return _signed(share, text.percent_with_limits(share))


def _signed(change: Interval, said: str) -> str:
    """Write a change with its sign, and none where what is shown of it, or of its limits, is 0."""
    said = _NO_SIGN.sub("", said)
    shown, plain = said.partition(" ")[0], said.removeprefix("-")
    return plain if not shown.strip("-0.") else f"+{said}" if change.value > 0 else said


def far_words(measured: Interval, law: float) -> Sequence[str]:
    """Say of a point that it lies farther from its own law than within what a law is said to hold."""
    far = abs(measured.value - law) > TOLERANCE * abs(measured.value)
    return [f"this run lies more than {text.percent(TOLERANCE)} off the law"] if far else []


def beyond_words(subject: Found, index: int) -> Sequence[str]:
    """Say of a point up to which the two-term law does not foretell all cells that are left out."""
    reach, law = subject.get("reach") or {}, checked(subject.get("two_term"))
    if law is None or reach.get("holds") or int(reach.get("cells") or 0) < FEWEST:
        return []
    end, flops = finite(reach.get("to_flops")), finite(subject["points"][index].get("flops"))
    if end is None or not int(reach.get("within") or 0):
        return [f"left out, not even the {FEWEST} smallest cells are all foretold within 10 %"]
    told = f"left out, cells are foretold within 10 % up to {text.quantity(end, 'FLOP')} only: this run is beyond"
    return [told] if flops and flops > end else []
