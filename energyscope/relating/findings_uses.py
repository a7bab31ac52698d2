"""Sentences on what the numbers are for: redundancy, cheap predictors, and the advice. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.relating.advice import Advice
from energyscope.relating.joint import LESS, MORE, Joint
from energyscope.relating.wording import count, impact_text, limits, listed

MEANING = {
    MORE: "they stand in for each other, and each alone seems less important than it is",
    LESS: "they are not redundant; their effects overlap, or the divergence saturates",
}


def joint_effects(found: Sequence[Joint]) -> list[str]:
    """Say for each method what removing components together does beside removing each of them."""
    sentences = []
    for method in dict.fromkeys(one.method for one in found):
        known = [one for one in found if one.method == method and one.verdict and one.single_sum is not None]
        if not known:
            continue
        number = Counter(one.verdict for one in known)
        counts = "; ".join(f"{amount} {verdict}" for verdict, amount in number.items())
        text = f"Removed together ({method}, KL), {count(len(known), 'group')} of components: {counts}."
        for verdict, meaning in MEANING.items():
            members = [one for one in known if one.verdict == verdict]
            members.sort(key=_excess, reverse=verdict == MORE)
            if members:
                text += f" {verdict.capitalize()} ({meaning}): {listed([_joint(one) for one in members])}."
        sentences.append(text)
    return sentences


def _excess(one: Joint) -> float:
    return one.joint / one.single_sum if one.single_sum else float("inf")


def _joint(one: Joint) -> str:
    together = impact_text(one.joint, one.joint_ci_low, one.joint_ci_high)
    apart = impact_text(one.single_sum or 0.0, one.sum_ci_low, one.sum_ci_high)
    return f"{one.component} {together} against {apart} of {len(one.parts)}"


def predictors(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say for each measured impact which predictor ranks components most as it does."""
    said = []
    for column in dict.fromkeys(str(entry["impact"]) for entry in entries):
        known = [one for one in entries if one["impact"] == column and one["value"] is not None]
        if known:
            best = max(known, key=lambda one: -one["value"] if one["expected"] == "negative" else one["value"])
            inside, tried = best["within_kinds"], f"best of {len(known)}"
            beyond = "" if inside is None else f"; within kinds {inside:+.2f}"
            said.append(
                f"{column} by {best['predictor']} {best['value']:+.2f} "
                f"({limits(best['ci_low'], best['ci_high'])}; {best['n']} components, {tried}{beyond})"
            )
    if not said:
        return []
    return [f"The cheap predictors that rank components most as the measured impact does: {'; '.join(said)}."]


def advice(entries: Sequence[Advice], column: str | None) -> str:
    """Say how many components each advice concerns, which, and why it is withheld from the others."""
    parts = []
    for word in dict.fromkeys(entry.advice for entry in entries if entry.advice):
        members = [entry.component for entry in entries if entry.advice == word]
        parts.append(f"{word}: {len(members)} ({listed(members)})")
    withheld = Counter(entry.withheld_because for entry in entries if entry.withheld_because)
    if withheld:
        total = sum(withheld.values())
        each = len(withheld) > 1
        reasons = listed([f"{f'{n} ' if each else ''}because {why}" for why, n in withheld.most_common()])
        parts.append(f"withheld from {count(total, 'component')} ({reasons})")
    warning = next((entry.warning for entry in entries if entry.warning), None)
    return f"Advice by {column}: {'; '.join(parts)}." + (f" {warning}" if warning else "")
