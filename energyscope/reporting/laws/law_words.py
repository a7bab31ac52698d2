"""What is said of one group's law, of what its parts cost against each other, and of how it foretells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from energyscope.reporting import text
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import (
    DECODE,
    Found,
    checked,
    fitted,
    holds_zero,
    item,
    measured_groups,
    whole_of,
)
from energyscope.reporting.laws.law_tables import FEWEST, reach_words
from energyscope.runs.intervals import Interval, finite
from energyscope.runs.laws import HOLDS_ZERO

_APART = ("where it can be told from nothing",) * 2  # of one group, and of several
_GROWING = "that shows growth", "that show growth"


def of_group(document: Found, group: Found, *, named: bool = True) -> str:
    """Return which group a sentence is of, in brackets; nothing for one group, or if not ``named``."""
    groups = measured_groups(document)
    if len(groups) < 2 or not named:
        return ""
    labels = names.labels(groups, names.boards(document))
    return next((f" ({label})" for one, label in zip(groups, labels, strict=True) if one is group), "")


def law_said(document: Found, group: Found, *, named: bool = True) -> str:
    """Say the whole model's two terms and how far they hold; nothing where there is no law.

    A term whose interval holds 0 is not told as a cost.
    """
    whole = whole_of(group) or {}
    law = fitted(whole.get("two_term"))
    if law is None:
        return ""
    fixed, marginal = item(law["fixed_mj"]), item(law["marginal_pj_per_flop"])
    r2 = law.get("r2")
    fit = "" if r2 is None else f" (R\u00b2 {r2:.3f})"
    reach = whole.get("reach") or {}
    holds = "; ".join([f"left out, cells are foretold within 10 % over {reach_words(reach)}", *further_flags(law)])
    if r2 is None:
        holds = "any two cells give a line, so that nothing checks it"
    what = "step" if group.get("phase") == DECODE else "pass"
    offset = f"{text.with_limits(fixed, 'mJ')}{' (MODELLED)' if document.get('modelled') else ''}"
    of = of_group(document, group, named=named)
    return f"{_terms_said(of, what, (fixed, offset), marginal, fit)}; {holds}."


def _terms_said(
    of: str, what: str, offset: tuple[Interval | None, str], marginal: Interval | None, fit: str
) -> str:
    """Say both terms; ``offset`` is E0 and what it is written as, ``what`` is what the energy is of."""
    fixed, written = offset
    before = f"before its first FLOP it takes {written} a {what}"
    if holds_zero(fixed):
        before = f"what a {what} takes before its first FLOP cannot be told from nothing (E0 {written})"
    if holds_zero(marginal):
        slope = text.with_limits(marginal, "pJ/FLOP")
        return f"No growth with FLOPs is shown of the whole model{of}: k is {slope}, which holds 0{fit}; {before}"
    if holds_zero(fixed):
        return f"The whole model{of} takes {text.with_limits(marginal, 'pJ')} for each FLOP{fit}; {before}"
    return (
        f"The whole model{of} takes {written} a {what} before its first FLOP and "
        f"{text.with_limits(marginal, 'pJ')} for each further one{fit}"
    )


def further_flags(law: Found) -> list[str]:
    """Return a law's flags but those of a term below 0 whose interval holds 0, which is said beside them."""
    return [str(flag) for flag in law.get("flags") or () if not str(flag).endswith(HOLDS_ZERO)]


def breaks_said(group: Found, name_of: Callable[[object], str] = names.subject_name) -> str:
    """Say of which subjects the law does not foretell all cells that are left out."""
    judged = [one for one in group.get("subjects") or () if one.get("role") != "residual" and _judged(one)]
    broken = [_broken(one, group, name_of) for one in judged if not one["reach"].get("holds")]
    if not judged:
        return ""
    if not broken:
        each = f"each of {len(judged)} subjects" if len(judged) > 1 else name_of(judged[0]["subject"])
        return f"By the two-term law, left-out cells are all foretold within 10 % for {each}."
    listed = text.listed(broken, 12)
    return (
        f"By the two-term law, left-out cells are not all foretold within 10 % for {len(broken)} of "
        f"{text.count(len(judged), 'subject')}: {listed}."
    )


def _broken(subject: Found, group: Found, name_of: Callable[[object], str]) -> str:
    """Name a subject whose law breaks, and the first cell beyond its reach."""
    name, first = name_of(subject["subject"]), subject["reach"].get("first_beyond")
    within = int(subject["reach"].get("within") or 0)
    return f"{name} (breaks at {names.shape_name(first, group.get('phase'))})" if first and within else name


def _judged(subject: Found) -> bool:
    return fitted(subject.get("two_term")) is not None and int(subject["reach"].get("cells") or 0) >= FEWEST


def groups_said(document: Found) -> str:
    """Say between which values E0 and k of the whole model lie over several groups; nothing for one.

    Those whose interval holds 0 take no part, and are named.
    """
    groups = measured_groups(document)
    labels = names.labels(groups, names.boards(document))
    laws = [
        (label, law)
        for group, label in zip(groups, labels, strict=True)
        if (law := checked((whole_of(group) or {}).get("two_term")))
    ]
    if len(laws) < 2:
        return ""
    offsets, slopes = (
        [(label, value) for label, law in laws if (value := item(law.get(name)))]
        for name in ("fixed_mj", "marginal_pj_per_flop")
    )
    marked = " (MODELLED)" if document.get("modelled") else ""
    told = [
        *([f"E0{between}{marked}"] if (between := _between(offsets, "mJ", _APART)) else []),
        *([f"k{between} per FLOP"] if (between := _between(slopes, "pJ", _GROWING)) else []),
    ]
    said = [f"Over {len(laws)} groups the whole model's {', its '.join(told)}."] if told else []
    if flat := _zeros(slopes, "pJ/FLOP"):
        said.append(f"No growth with FLOPs is shown in {flat}.")
    if nothing := _zeros(offsets, "mJ"):
        said.append(f"E0 cannot be told from nothing in {nothing}.")
    return " ".join(said)


def _between(found: Sequence[tuple[str, Interval]], unit: str, which: tuple[str, str]) -> str:
    """Say between which values those lie that can be told from 0; nothing where none can.

    Where they are not all, ``which`` tells the one group, or the several, from the others.
    """
    known = sorted(value.value for _, value in found if not holds_zero(value))
    if not known:
        return ""
    low, high = text.quantity(known[0], unit), text.quantity(known[-1], unit)
    said = f"is {low}" if len(known) == 1 else f"lies between {low} and {high}"
    if len(known) == len(found):
        return f" {said}"
    of = f"the one group {which[0]}" if len(known) == 1 else f"the {len(known)} groups {which[1]}"
    return f", in {of}, {said}"


def _zeros(found: Sequence[tuple[str, Interval]], unit: str) -> str:
    return text.listed([f"{label} ({text.with_limits(one, unit)})" for label, one in found if holds_zero(one)], 6)


def ratio_said(document: Found, group: Found, *, named: bool = True) -> str:
    """Say by what factor a part's further FLOPs are dearer than another's: attention against the MLP, if known."""
    found = [one for one in group.get("ratios") or () if item(one.get("marginal"))]
    one = next((one for one in found if (one["first"], one["second"]) == ("attention", "mlp")), None)
    one = one or next(iter(found), None)
    ratio = item(one.get("marginal")) if one else None
    if one is None or ratio is None:
        return ""
    first, second = names.subject_start(one["first"]), names.subject_name(one["second"])
    end = f"{of_group(document, group, named=named)}{_unsure(ratio)}."
    return f"{first} costs {times(ratio)} the {second}'s {names.joules(document)} per further FLOP{end}"


def _unsure(ratio: Interval) -> str:
    return "" if not ratio.known or ratio.excludes(1.0) else ": they cannot be told apart"


def times(ratio: Interval) -> str:
    """Write a factor with its limits, such as ``"1.8 \u00d7 [1.7, 1.9]"``."""
    places = min(max(1, text.places(ratio)), 2 if ratio.value >= 0.2 else 4)
    limits = f" [{ratio.low:,.{places}f}, {ratio.high:,.{places}f}]" if ratio.known else ""
    return f"{ratio.value:,.{places}f} \u00d7{limits}"


def held_out_said(group: Found, name_of: Callable[[object], str] = names.subject_name) -> list[str]:
    """Say which law foretells how many subjects best, and the medians of the group."""
    subjects = [one for one in group.get("subjects") or () if one.get("best")]
    if not subjects:
        reason = (group.get("held_out") or {}).get("reason")
        return [f"No law could be judged: {reason or 'too few cells to leave any out'}."]
    laws: dict[str, list[str]] = {}
    for one in subjects:
        laws.setdefault(str(one["best"]), []).append(name_of(one["subject"]))
    said = "; ".join(f"the {law} law for {text.listed(known, 8)}" for law, known in laws.items())
    found = [f"Least error of left-out cells: {said}."]
    held = group.get("held_out") or {}
    parts = [
        f"{text.percent(known['median'])} for {what} (worst {text.percent(finite(known.get('worst')))}, "
        f"{text.count(int(known.get('cells') or 0), noun)})"
        for name, what, noun in (("whole", "the whole model", "cell"), ("components", "all components", "error"))
        if (known := held.get(name)) and finite(known.get("median")) is not None
    ]
    if parts:
        way = next(str(known["by"]) for name in ("whole", "components") if (known := held.get(name)))
        found.append(
            f"Left out by {way} and foretold by the law that the others choose, the median error is "
            f"{text.listed(parts)}."
        )
    return found
