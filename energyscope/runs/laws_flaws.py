"""What is wrong with the groups of a laws.json that was altered, by hand or on its way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from energyscope.intervals import finite

_TERMS = {
    "two_term": ("fixed_mj", "marginal_pj_per_flop"),
    "by_bytes": ("fixed_mj", "pj_per_byte"),
    "constant": ("energy_mj",),
    "roofline": (),
}


def flaw(document: Mapping[str, Any]) -> str | None:
    """Return the first thing in the groups of a document that energyscope cannot have written; None: nothing.

    Of a cell or a point it is the shape, of a law its terms, of left-out cells what was left out.
    """
    return next((found for group in document["groups"] for found in [_of_group(group)] if found), None)


def _of_group(group: Mapping[str, Any]) -> str | None:
    if not all(map(_is_shape, group["cells"])):
        return "a cell has no batch size or no length"
    held = group.get("held_out")
    known = [held.get(name) for name in ("whole", "components")] if _is(held) else [held]
    if not all(one is None or (_is(one) and "by" in one) for one in known):
        return "the errors of left-out cells do not say what was left out"
    return next((found for one in group["subjects"] for found in [_of_subject(one)] if found), None)


def _of_subject(subject: object) -> str | None:
    if not _is(subject) or not isinstance(subject.get("subject"), str):
        return "a subject has no name"
    name, points, reach = subject["subject"], subject.get("points"), subject.get("reach")
    if not isinstance(points, list) or not all(map(_is_shape, points)):
        return f"a cell of {name} has no batch size or no length"
    if not _is(reach) or not _is_reach(reach):
        return f"the reach of the law of {name} is not known"
    lacking = [law for law, terms in _TERMS.items() if not _is_law(subject.get(law), terms)]
    return f"the {lacking[0]} law of {name} lacks a number" if lacking else None


def _is_reach(reach: Mapping[str, Any]) -> bool:
    first = reach.get("first_beyond")
    counts = all(one is None or _is_count(one) for one in (reach.get("within"), reach.get("cells")))
    return counts and (first is None or _is_shape(first))


def _is_law(law: object, terms: tuple[str, ...]) -> bool:
    """Tell whether a law has its numbers; where only a reason stands in its place, there are none to have."""
    if law is None or (_is(law) and "flags" not in law):
        return True
    if not _is(law) or not isinstance(law["flags"], list):
        return False
    r2 = law.get("r2")
    values = [one.get("value") if _is(one) else None for one in map(law.get, terms)]
    return (r2 is None or isinstance(r2, int | float)) and all(finite(one) is not None for one in values)


def _is_shape(entry: object) -> bool:
    return _is(entry) and _is_count(entry.get("batch_size")) and _is_count(entry.get("tokens"))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)
