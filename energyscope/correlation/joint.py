"""Removing several components at once, compared with removing each of them: redundant, or unimportant? Pure.

Where a joint removal does more than the sum of the single ones, the components replace each other: each seems
unimportant only because the others are there. KL divergences need not add up (they saturate), so the comparison
gives the direction of the difference, not its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from energyscope.correlation.leaves import number, valid_impact
from energyscope.reasons import reason

if TYPE_CHECKING:
    import pandas as pd

METRIC = "kl"
MORE, LESS, ALIKE = "more-than-sum", "less-than-sum", "unclear"


def joint_effects(impact: pd.DataFrame) -> list[dict[str, Any]]:
    """Compare every joint removal of an impact table with the single removals of the same method, by KL.

    A joint removal is named with ``{layer}`` left open, or with the names of its parts joined by ``+``. Its
    ``parts`` are those that were tried singly. Each entry holds its effect (``joint``) and the sum of the single
    ones (``single_sum``), with intervals; the sum's adds the ends of the single intervals, whose errors do not
    cancel: they were measured on the same examples. ``verdict`` is `MORE`, `LESS` or `ALIKE` (the intervals
    overlap). Without a valid effect of a part there is no sum, without intervals no verdict: see ``reason``.
    """
    effects = []
    for method in dict.fromkeys(impact["method"].astype(str)):
        values = valid_impact(impact, f"{method}:{METRIC}")
        # invalid rows too: a part without a valid effect must not be left out of the sum
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
    """Return the single components of a joint name; those it names even where they are missing."""
    if "+" in component:
        return component.split("+")
    pattern = re.compile(re.escape(component).replace(re.escape("{layer}"), r"\d+"))
    return [name for name in singles if pattern.fullmatch(name)]


def _effect(component: str, method: str, parts: list[str], values: pd.DataFrame) -> dict[str, Any]:
    joint, low, high = map(number, values.loc[component, ["value", "ci_low", "ci_high"]])
    entry: dict[str, Any] = {
        "component": component,
        "method": method,
        "parts": parts,
        "joint": joint,
        "joint_ci_low": low,
        "joint_ci_high": high,
        **dict.fromkeys(("single_sum", "sum_ci_low", "sum_ci_high", "verdict", "reason")),
    }
    missing = [name for name in parts if name not in values.index]
    if missing or len(parts) < 2:
        why = reason("no-single-effect", components=missing) if missing else reason("fewer-than-two-parts")
        return entry | {"reason": why}
    total, least, most = (
        number(values.loc[parts, name].sum(skipna=False)) for name in ("value", "ci_low", "ci_high")
    )
    entry |= {"single_sum": total, "sum_ci_low": least, "sum_ci_high": most}
    if low is None or high is None or least is None or most is None:
        return entry | {"reason": reason("intervals-incomplete")}
    return entry | {"verdict": MORE if low > most else LESS if high < least else ALIKE}
