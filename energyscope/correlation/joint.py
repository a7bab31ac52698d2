"""Removing several components at once, beside removing each of them: redundant, or unimportant? Pure.

Where a joint removal does more than the single ones add up to, the components stand in for each other: each seems
unimportant only because the others are there. KL divergences do not have to add up (they saturate), so the
comparison says in which direction they fail to, not by how much they should.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.correlation.leaves import number, valid_impact
from energyscope.reasons import Reason, reason

if TYPE_CHECKING:
    import pandas as pd

METRIC = "kl"
MORE, LESS, ALIKE = "more-than-sum", "less-than-sum", "unclear"


@dataclass(frozen=True)
class Joint:
    """The effect of removing ``parts`` together, and the sum of the effects of removing each by itself.

    The sum's interval adds the single intervals up without letting their errors cancel: they were measured on
    the same examples. ``verdict`` is `MORE`, `LESS` or `ALIKE` (the intervals meet), None without intervals.
    """

    component: str
    method: str
    parts: list[str]
    joint: float
    joint_ci_low: float | None
    joint_ci_high: float | None
    single_sum: float | None
    sum_ci_low: float | None
    sum_ci_high: float | None
    verdict: str | None
    reason: Reason | None = None


def joint_effects(impact: pd.DataFrame) -> list[Joint]:
    """Compare every joint removal of an impact table with the single removals of the same method, by KL.

    A joint removal is named with ``{layer}`` left open, or with the names of its parts joined by ``+``. Its parts
    are those that were tried singly; where one of them has no valid effect the sum is None, with the reason.
    """
    effects = []
    for method in dict.fromkeys(impact["method"].astype(str)):
        values = valid_impact(impact, f"{method}:{METRIC}")
        # of all rows, also invalid ones: a part without a valid effect must not be left out of the sum
        tried = dict.fromkeys(impact.loc[impact["method"].astype(str) == method, "component"].astype(str))
        singles = [name for name in tried if not is_joint(name)]
        effects += [
            _effect(str(name), method, parts_of(str(name), singles), values)
            for name in values.index
            if is_joint(str(name))
        ]
    return effects


def is_joint(component: str) -> bool:
    """Whether a name is that of several components changed together."""
    return "{layer}" in component or "+" in component


def parts_of(component: str, singles: Iterable[str]) -> list[str]:
    """Return the single components that a joint name stands for; of named ones also those that are missing."""
    if "+" in component:
        return component.split("+")
    pattern = re.compile(re.escape(component).replace(re.escape("{layer}"), r"\d+"))
    return [name for name in singles if pattern.fullmatch(name)]


def _effect(component: str, method: str, parts: list[str], values: pd.DataFrame) -> Joint:
    value, low, high = values.loc[[component]].to_numpy("float64")[0].tolist()
    joint = float(value), number(low), number(high)
    missing = [name for name in parts if name not in values.index]
    if missing or len(parts) < 2:
        why = reason("no-single-effect", components=missing) if missing else reason("fewer-than-two-parts")
        return Joint(component, method, parts, *joint, None, None, None, None, why)
    single = values.loc[parts]
    total = float(single["value"].sum())
    least, most = (number(single[name].sum(skipna=False)) for name in ("ci_low", "ci_high"))
    if joint[1] is None or joint[2] is None or least is None or most is None:
        return Joint(component, method, parts, *joint, total, least, most, None, reason("intervals-incomplete"))
    verdict = MORE if joint[1] > most else LESS if joint[2] < least else ALIKE
    return Joint(component, method, parts, *joint, total, least, most, verdict)
