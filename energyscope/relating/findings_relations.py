"""Sentences on correlations: pooled, between and within kinds, and beside null models. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope.relating.advice import Advice
from energyscope.relating.association import CLUSTERED, FEWEST_POINTS
from energyscope.relating.coefficients import Method
from energyscope.relating.joint import Joint
from energyscope.relating.nulls import Comparison
from energyscope.relating.within import against, kinds_against
from energyscope.relating.wording import Context, count, limits, listed

PRIMARY: Method = "spearman"
TITLES = {"pearson": "Pearson's r", "spearman": "Spearman's rho", "kendall": "Kendall's tau-b"}


@dataclass(frozen=True)
class Relations:
    """What findings speak of beside the points: each as it stands in correlation.json, or as it was computed."""

    correlations: Sequence[Mapping[str, Any]]
    adjusted: Sequence[Mapping[str, Any]] = ()
    within: Sequence[dict[str, Any]] = ()
    nulls: Sequence[Comparison] = ()
    joint: Sequence[Joint] = ()
    predictors: Sequence[Mapping[str, Any]] = ()
    advice: Sequence[Advice] = ()
    advice_column: str | None = field(default=None)


def unrelated(points: int, context: Context) -> str | None:
    """Say that the points are too few for any correlation, and where the others are; None where they are not."""
    if points >= FEWEST_POINTS:
        return None
    lost = ", ".join(f"{number} {reason}" for reason, number in context.left_out.items())
    why = f" (of {context.components}: {lost})" if lost else ""
    return (
        f"Energy cannot be related to {context.impact_column}: {count(points, 'component')} with valid energy and "
        f"valid impact {'is' if points == 1 else 'are'} too few, it takes {FEWEST_POINTS} or more{why}."
    )


def pooled(found: Relations, context: Context) -> list[str]:
    """Say the correlation of ranks over all points."""
    said = []
    for entry in _of(found.correlations, context):
        if entry["method"] == PRIMARY:
            name = f"The Spearman correlation of energy with {entry['y']}"
            if entry["value"] is None:
                said.append(f"{name} is unknown: {entry['reason']}.")
            else:
                text = f"{name} over {count(entry['n'], 'component')} is {_numbers(entry, context)}"
                said.append(f"{text}; the interval carries the errors of both.")
    return said


def other_coefficients(found: Relations, context: Context) -> list[str]:
    """Say the other coefficients over all points."""
    known = [
        f"{TITLES[entry['method']]} is {_numbers(entry, context)}"
        for entry in _of(found.correlations, context)
        if entry["method"] != PRIMARY and entry["value"] is not None
    ]
    return [f"Over the same components, {'; '.join(known)}."] if known else []


def between_kinds(found: Relations, kinds: int, context: Context) -> list[str]:
    """Say whether the pooled correlation is one of kinds: the coefficient within kinds beside the pooled one."""
    text = (
        f"These correlations pool {kinds} kinds of components: they may come from differences between kinds "
        "alone and may even reverse within a kind (Simpson's paradox). Their intervals draw kinds first, and then "
        "components within them."
    )
    entry = next((one for one in found.adjusted if one["method"] == PRIMARY), None)
    if entry is None:
        return [text]
    if entry["value"] is None:
        return [f"{text} With each kind centred on its own mean the correlation is unknown: {entry['reason']}."]
    text += " With each kind centred on its own mean, the Spearman correlation of energy and impact over "
    text += f"{count(entry['n'], 'component')} is {_numbers(entry, context, 'within kinds')}"
    whole = _primary(found, context)
    if whole is not None and against(whole["value"], entry["value"]):
        text += f": its sign is the other one than that of the pooled correlation ({whole['value']:+.2f}), so "
        return [f"{text}the pooled one speaks of kinds and not of components within them (Simpson's paradox)."]
    return [f"{text}, of the same sign as the pooled one." if whole is not None else f"{text}."]


def within_kinds(found: Relations, context: Context) -> list[str]:
    """Say the correlation within each kind tested, and why the other kinds were not tested."""
    said = []
    for entry in found.within:
        one = next((one for one in entry["correlations"] if one["method"] == PRIMARY), None)
        if one is not None and one["value"] is not None:
            text = f"{entry['kind']!r} {_numbers(one, context)}, {_holm(one['p_holm'])}"
            if entry["lowest_p"] > 0.05:
                text += f" (with {entry['n']} components no p below {entry['lowest_p']:.2g} can be reached)"
            said.append(text)
    untested = [f"{entry['kind']!r}: {entry['reason']}" for entry in found.within if not entry["tested"]]
    sentences = []
    if said:
        whole = _primary(found, context)
        other = kinds_against(whole["value"], found.within, PRIMARY) if whole else []
        text = f"Within one kind, the Spearman correlation of energy with {context.impact_column} is: "
        text += "; ".join(said) + "."
        if other and whole:
            text += f" In {listed(other)} its sign is the other one than that of the pooled {whole['value']:+.2f}."
        sentences.append(text)
    if untested:
        sentences.append(f"Not tested within a kind: {listed(untested, 6)}.")
    return sentences


def null_models(found: Relations, context: Context) -> list[str]:
    """Say of each null model whether it ranks impact better than energy does."""
    said, unknown = [], []
    for one in found.nulls:
        if one.target != "impact":
            continue
        if one.value is None or one.measured is None or one.difference is None:
            unknown.append(f"{one.predictor}: {one.reason}")
            continue
        verdict = f"{one.better} ranks impact better" if one.better else "neither is shown to rank impact better"
        interval = limits(one.difference_ci_low, one.difference_ci_high)
        said.append(
            f"{one.predictor} {one.value:+.2f} against energy's {one.measured:+.2f} over {one.n}, difference of "
            f"their sizes {one.difference:+.2f} ({interval}): {verdict}"
        )
    if said:
        of = f"{context.impact_column}{context.caution}"
        return [f"Null models' Spearman correlation with {of}: {'; '.join(said)}."]
    return [f"No null model can be compared: {'; '.join(unknown)}."] if unknown else []


def _of(entries: Sequence[Mapping[str, Any]], context: Context) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if entry["y"] == context.impact_column]


def _primary(found: Relations, context: Context) -> Mapping[str, Any] | None:
    chosen = [one for one in _of(found.correlations, context) if one["method"] == PRIMARY]
    return chosen[0] if chosen and chosen[0]["value"] is not None else None


def _numbers(entry: Mapping[str, Any], context: Context, where: str = "") -> str:
    low, high = entry["ci_low"], entry["ci_high"]
    said = limits(low, high) if low is not None else str(entry["reason"]).removesuffix(f"; {CLUSTERED}")
    test = f"permutation{f' {where}' if where else ''}"
    p_value = entry["p_value"]
    tested = f"{test} p = {p_value:.2g}" if p_value is not None else CLUSTERED
    return f"{entry['value']:+.2f}{context.caution} ({said}; {tested})"


def _holm(p_value: float | None) -> str:
    return "not corrected" if p_value is None else f"{p_value:.2g} after Holm's correction"
