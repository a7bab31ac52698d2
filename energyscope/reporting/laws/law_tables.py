"""The tables of laws: every subject of a group, and the whole model of every group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from energyscope.reporting import text
from energyscope.reporting.figure import Table
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import (
    BATCH,
    CELL,
    LENGTH,
    Found,
    fitted,
    holds_zero,
    item,
    shows_growth,
    whole_of,
    why,
)

_NONE = "\u2013"
FORMS = ("two_term", "by_bytes", "constant")  # of a subject's law, of which the first that it has is told
NO_GROWTH = "no growth"  # beside, or below, a k whose interval holds 0
NO_TREND = "none told: k may be 0"
FEWEST = 3  # cells, from which a reach can be told


def law_table(group: Found) -> Table:
    """Return E0, k, R2, reach, trend and what must be known of every subject."""
    columns = [
        "subject",
        "E0 [95 %]",
        "k [95 %]",
        "R\u00b2",
        "holds within 10 %",
        "k per doubling",
        "to know",
    ]
    return Table(columns, [_row(one) for one in group.get("subjects") or () if _terms_of(one)])


def lawless(group: Found, name_of: Callable[[object], str] = names.subject_name) -> list[str]:
    """Say which subjects have no law at all, and why, each reason once."""
    found: dict[str, list[str]] = {}
    for one in group.get("subjects") or ():
        if not _terms_of(one):
            found.setdefault(why(one.get("two_term")).rstrip("."), []).append(name_of(one["subject"]))
    return [f"No law for {text.listed(subjects, 20)}: {reason}." for reason, subjects in found.items()]


def _terms_of(subject: Found) -> bool:
    return any(fitted(subject.get(name)) is not None for name in FORMS)


def _row(subject: Found) -> list[str]:
    name, law = names.subject_name(subject.get("subject")), fitted(subject.get("two_term"))
    if law is None:
        return [name, *terms_words(subject), _NONE, _NONE, instead_words(subject)]
    return [
        name,
        *terms_words(subject),
        reach_words(subject.get("reach") or {}),
        trend_words(subject.get("trend") or {}) if shows_growth(law) else NO_TREND,
        "; ".join(str(flag) for flag in law.get("flags") or ()) or _NONE,
    ]


def terms_words(subject: Found) -> list[str]:
    """Return E0, k and R2 of a subject: over FLOPs, without those over bytes, or as a constant energy."""
    two_term, by_bytes, constant = (fitted(subject.get(name)) for name in FORMS)
    if two_term is not None:
        return _terms(two_term, "marginal_pj_per_flop", "pJ/FLOP")
    if by_bytes is not None:
        return _terms(by_bytes, "pj_per_byte", "pJ/byte")
    if constant is not None:
        return [text.with_limits(item(constant.get("energy_mj")), "mJ"), "none: constant", _NONE]
    return [_NONE] * 3


def instead_words(subject: Found) -> str:
    """Say what stands in the place of a law over FLOPs."""
    return "no FLOPs: over bytes" if fitted(subject.get("by_bytes")) is not None else "one work in all cells"


def _terms(law: Found, slope: str, unit: str) -> list[str]:
    r2, growth = law.get("r2"), item(law.get(slope))
    marginal = f"{text.with_limits(growth, unit)}{f' ({NO_GROWTH} shown)' if holds_zero(growth) else ''}"
    return [text.with_limits(item(law.get("fixed_mj")), "mJ"), marginal, _NONE if r2 is None else f"{r2:.3f}"]


def reach_words(reach: Found) -> str:
    """Say over how many cells, from the smallest upwards, the two-term law holds."""
    cells, within = int(reach.get("cells") or 0), int(reach.get("within") or 0)
    if cells < FEWEST:
        return f"cannot be told ({names.written(str(reach.get('reason') or 'too few cells'))})"
    if reach.get("holds"):
        return f"all {text.count(cells, 'cell')}"
    if not within:
        return f"none of {text.count(cells, 'cell')}, from the smallest on"
    limit = reach.get("to_flops")
    to = f", to {text.quantity(limit, 'FLOP')}" if limit else ""
    return f"{within} of {cells}{to}"


def trend_words(trend: Found) -> str:
    """Say how marginal J/FLOP changes with each doubling of the FLOPs."""
    verdict, change = str(trend.get("verdict") or "cannot be told"), item(trend.get("change"))
    if change is None or verdict == "cannot be told":
        return verdict
    low, high = change.low, change.high
    limits = "" if low is None or high is None else f" [{low * 100:.1f}, {high * 100:.1f}]"
    return f"{verdict}: {change.value * 100:+.1f} %{limits}"


def overview_table(groups: Sequence[Found], labels: Sequence[str]) -> Table:
    """Return the whole model's law in every group."""
    columns = ["group", "cells", "E0 [95 %]", "k [95 %]", "R\u00b2", "holds within 10 %", "left out: median"]
    rows = []
    for group, label in zip(groups, labels, strict=True):
        whole = whole_of(group) or {}
        law = fitted(whole.get("two_term"))
        held = (group.get("held_out") or {}).get("whole") or {}
        cells = str(len(group.get("cells") or ()))
        if law is None:
            rows.append([label, cells, *[_NONE] * 3, "no law", _NONE])
            continue
        rows.append([label, cells, *_terms(law, "marginal_pj_per_flop", "pJ/FLOP"),
                     reach_words(whole.get("reach") or {}),
                     _NONE if held.get("median") is None else text.percent(held["median"])])  # fmt: skip
    return Table(columns, rows)


def held_out_table(group: Found) -> Table:
    """Return the median and the worst error of left-out cells, by subject, law and way of leaving out."""
    ways = [way for way in (LENGTH, BATCH, CELL) if any(one["by"] == way for one in _held(group))]
    columns = ["subject", "law", *(f"by {way}: median (worst)" for way in ways)]
    rows = []
    for subject in group.get("subjects") or ():
        held = subject.get("held_out") or ()
        for law in dict.fromkeys(one["law"] for one in held):
            said = {one["by"]: _error(one) for one in held if one["law"] == law}
            chosen = " (chosen)" if law == subject.get("best") else ""
            rows.append([names.subject_name(subject["subject"]), f"{law}{chosen}",
                         *(said.get(way, _NONE) for way in ways)])  # fmt: skip
    return Table(columns, rows)


def _held(group: Found) -> list[Found]:
    return [one for subject in group.get("subjects") or () for one in subject.get("held_out") or ()]


def _error(found: Found) -> str:
    if found.get("median") is None:
        return names.written(str(found.get("reason") or _NONE))
    cells = text.count(int(found["cells"]), "cell")
    return f"{text.percent(found['median'])} ({text.percent(found.get('worst'))}), {cells}"
