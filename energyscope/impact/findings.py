"""What the correlation of energy with impact shows, in sentences that carry their numbers. Pure.

Nothing is called significant: the interval and the p-value are stated. No advice on quantization follows from
removing components, and the sentences say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.impact.quadrants import QUADRANTS, UNDECIDED, Point, Thresholds, high_is_more

NAMED = 3  # how many components a sentence names
PLAIN_METRICS = {
    "kl": "the KL divergence of the outputs",
    "accuracy_difference": "the accuracy difference",
    "perplexity_difference": "the perplexity difference",
    "top1_agreement": "the share of unchanged predictions",
}
CHANGES = {"zero": "is set to zero", "mean": "is replaced by its mean over the data"}


@dataclass(frozen=True)
class Context:
    """What the points were taken from. ``components`` counts those in the table beside the whole model."""

    impact_column: str
    setting: Mapping[str, Any]
    modelled: bool
    model_energy_mj: float | None
    components: int
    other_settings: int = 0

    @property
    def method(self) -> str:
        return self.impact_column.partition(":")[0]

    @property
    def metric(self) -> str:
        return self.impact_column.partition(":")[2]

    @property
    def change(self) -> str:
        return CHANGES.get(self.method, "is changed")

    @property
    def unit(self) -> str:
        return "mJ (MODELLED)" if self.modelled else "mJ"


def findings(
    points: Sequence[Point], correlations: Sequence[Mapping[str, Any]], thresholds: Thresholds, context: Context
) -> list[str]:
    """Return the findings, one sentence or two each: what is the case first, then how it was found."""
    found = []
    if points:
        found.append(_highest_impact(points, context))
    found += [_correlation(entry, context) for entry in correlations if entry["y"] == context.impact_column]
    kinds = Counter(point.kind for point in points)
    if len(kinds) > 1:
        found.append(_pooled(kinds))
    if points:
        found += [_counts(points, thresholds, context), *_examples(points, context)]
        found.append(_energy_by_kind(points, context))
    found.append(_compared(points, context))
    if context.modelled:
        found.append(
            "Energy is MODELLED (time x stated watts): it is proportional to time by construction, so what is "
            "said of energy here holds for time, and no advice is given."
        )
    found.append(_criticality(context))
    return found


def _compared(points: Sequence[Point], context: Context) -> str:
    text = (
        f"Compared are {len(points)} of {_count(context.components, 'component')}: the deepest ones that were "
        "measured on their very layer, with valid energy and valid impact"
    )
    setting = ", ".join(f"{_plain(name)} {value}" for name, value in context.setting.items())
    text += f" ({setting})." if setting else "."
    if context.other_settings:
        text += f" {_count(context.other_settings, 'row')} of other settings are left out."
    return text


def _energy_by_kind(points: Sequence[Point], context: Context) -> str:
    energies: dict[str, float] = {}
    for point in points:
        energies[point.kind] = energies.get(point.kind, 0.0) + point.energy_mj
    total = sum(energies.values())
    (first, most), *others = sorted(energies.items(), key=lambda item: -item[1])[: 1 + NAMED]
    number = sum(point.kind == first for point in points)
    text = (
        f"Of the components compared, kind {first!r} takes most energy: {most:.3g} {context.unit} in "
        f"{_count(number, 'component')}, {_share(most, total)} of their {total:.3g} {context.unit}"
    )
    if others:
        text += "; then " + ", ".join(f"{kind!r} {_share(energy, total)}" for kind, energy in others)
    text += "."
    if context.model_energy_mj:
        text += f" Together they take {_share(total, context.model_energy_mj)} of the whole model's "
        text += f"{context.model_energy_mj:.3g} {context.unit}."
    return text


def _highest_impact(points: Sequence[Point], context: Context) -> str:
    ordered = sorted(points, key=lambda point: point.impact, reverse=high_is_more(context.metric))
    named = ", ".join(f"{point.component} ({_impact(point)})" for point in ordered[:NAMED])
    measure = PLAIN_METRICS.get(context.metric, context.metric)
    extreme = "highest" if high_is_more(context.metric) else "lowest"
    return f"When the output of one component {context.change}, {measure} is {extreme} for {named}."


def _correlation(entry: Mapping[str, Any], context: Context) -> str:
    name = f"The {str(entry['method']).capitalize()} correlation of energy with {entry['y']}"
    value, low, high = entry["value"], entry["ci_low"], entry["ci_high"]
    if value is None:
        return f"{name} is unknown: {entry['reason']}."
    text = f"{name} over {_count(entry['n'], 'component')} is {value:+.2f}"
    text += " (MODELLED energy)" if context.modelled else ""
    if low is None or high is None:
        text += f" ({entry['reason']}"
    else:
        verdict = "excludes" if low > 0 or high < 0 else "includes"
        text += f" (95 % interval {low:+.2f} to {high:+.2f}, which {verdict} 0"
    return f"{text}; permutation p = {entry['p_value']:.2g})."


def _pooled(kinds: Counter[str]) -> str:
    return (
        f"These correlations pool {len(kinds)} kinds of components: they may come from differences between kinds "
        "alone and may even reverse within a kind (Simpson's paradox)."
    )


def _counts(points: Sequence[Point], thresholds: Thresholds, context: Context) -> str:
    number = Counter(point.quadrant for point in points)
    counts = "; ".join(f"{number[name]} {name}" for name in QUADRANTS)
    return (
        f"Split at {thresholds.energy_mj:.3g} {context.unit} and at {context.impact_column} = "
        f"{thresholds.impact:.3g} (the medians), the components divide into: {counts}."
    )


def _examples(points: Sequence[Point], context: Context) -> list[str]:
    sentences = []
    for quadrant in QUADRANTS:
        members = [point for point in points if point.quadrant == quadrant]
        if members and quadrant != UNDECIDED:
            members.sort(key=lambda point: point.energy_mj, reverse=True)
            named = ", ".join(
                f"{point.component} ({point.energy_mj:.3g} {context.unit}, {_impact(point)})"
                for point in members[:NAMED]
            )
            rest = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
            sentences.append(f"{quadrant.capitalize()}: {named}{rest}.")
    return sentences


def _criticality(context: Context) -> str:
    return (
        f"{context.impact_column} measures criticality: what happens when a component is removed (its output "
        f"{context.change}). It does not say how a component bears quantization, which keeps most of its "
        "information: no advice on precision follows from it."
    )


def _impact(point: Point) -> str:
    if point.impact_ci_low is None or point.impact_ci_high is None:
        return f"impact {point.impact:.3g}, no interval"
    return f"impact {point.impact:.3g} [{point.impact_ci_low:.3g}, {point.impact_ci_high:.3g}]"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "an unknown share"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _plain(name: str) -> str:
    return name.replace("_", " ")
