"""What the correlation of energy with impact shows, in sentences that carry their numbers. Pure.

Nothing is called significant: the interval and the p-value are stated, with the test that gave it. What removing
a component does says nothing about how it bears quantization, and the sentences say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from energyscope.relating import findings_relations as relations
from energyscope.relating import findings_uses as uses
from energyscope.relating.findings_relations import Relations
from energyscope.relating.quadrants import QUADRANTS, UNDECIDED, Point, Thresholds, high_is_more
from energyscope.relating.wording import (
    COMPARED,
    NAMED,
    PLAIN_METRICS,
    Context,
    count,
    impact_text,
    listed,
    plain,
    share,
)

STABLE = 0.9


def findings(points: Sequence[Point], found: Relations, thresholds: Thresholds, context: Context) -> list[str]:
    """Return the findings, one sentence or two each: what is the case first, then how it was found."""
    said = [_highest_impact(points, context)] if points else []
    said += _related(points, found, context)
    if points:
        said += [_counts(points, thresholds, context), *_stability(points), *_examples(points, context)]
        said.append(_energy_by_kind(points, context))
    said += [*uses.joint_effects(found.joint), *uses.predictors(found.predictors)]
    said += [*relations.other_coefficients(found, context), _compared(points, context), *_caveats(points, context)]
    if found.advice:
        said.append(uses.advice(found.advice, found.advice_column))
    if context.modelled:
        said.append(
            "Energy is MODELLED (time x stated watts): it is proportional to time by construction, so what is "
            "said of energy here holds for time, and no advice is given."
        )
    said.append(_measures(context))
    return said


def _related(points: Sequence[Point], found: Relations, context: Context) -> list[str]:
    """Say what energy and impact have to do with each other; of too few points once that nothing can be said."""
    if (few := relations.unrelated(len(points), context)) is not None:
        return [few]
    kinds = Counter(point.kind for point in points)
    between = relations.between_kinds(found, len(kinds), context) if len(kinds) > 1 else []
    within, nulls = relations.within_kinds(found, context), relations.null_models(found, context)
    return [*relations.pooled(found, context), *between, *within, *nulls]


def _compared(points: Sequence[Point], context: Context) -> str:
    which = "the layers" if context.method == "skip" else "the deepest ones"
    text = (
        f"Compared are {len(points)} of {count(context.components, 'component')}: {which} that were "
        "measured on their very layer, with valid energy and valid impact"
    )
    setting = ", ".join(f"{plain(name)} {value}" for name, value in context.setting.items())
    text += f" ({setting})." if setting else "."
    if context.other_settings:
        text += f" {count(context.other_settings, 'row')} of other settings are left out."
    return text


def _caveats(points: Sequence[Point], context: Context) -> list[str]:
    """Say what the points are not: without an interval, of another level, or removed with the residual stream."""
    said = []
    if exact := sum(_without_interval(point) for point in points):
        said.append(
            f"{count(exact, 'component')} of {len(points)} lack an interval of energy or of impact: there the "
            "value is taken as exact, and the intervals of the correlations are too narrow by what it is not."
        )
    if higher := [point.component for point in points if point.stands_for_parts]:
        said.append(
            f"{count(len(higher), 'component')} ({listed(higher)}) could be compared only as a whole, while the "
            "parts of its like in other layers are compared: there more energy and impact are a matter of level."
        )
    layers = sum(point.kind == "layer" for point in points)
    if layers and not context.sensitivity and context.method != "skip":
        said.append(
            f"{count(layers, 'point')} are whole layers: {context.method} also removes what the layer passes on "
            "from the layers before it; skipping a layer is the removal that means something."
        )
    return said


def _without_interval(point: Point) -> bool:
    return point.energy_ci_low_mj is None or point.impact_ci_low is None


def _energy_by_kind(points: Sequence[Point], context: Context) -> str:
    energies: dict[str, float] = {}
    for point in points:
        energies[point.kind] = energies.get(point.kind, 0.0) + point.energy_mj
    total = sum(energies.values())
    (first, most), *others = sorted(energies.items(), key=lambda item: -item[1])[: 1 + NAMED]
    number = sum(point.kind == first for point in points)
    text = (
        f"Of the components compared, kind {first!r} takes most energy: {most:.3g} {context.unit} in "
        f"{count(number, 'component')}, {share(most, total)} of their {total:.3g} {context.unit}"
    )
    if others:
        text += "; then " + ", ".join(f"{kind!r} {share(energy, total)}" for kind, energy in others)
    text += "."
    if context.model_energy_mj:
        text += f" Together they take {share(total, context.model_energy_mj)} of the whole model's "
        text += f"{context.model_energy_mj:.3g} {context.unit}."
    return text


def _highest_impact(points: Sequence[Point], context: Context) -> str:
    ordered = sorted(points, key=lambda point: point.impact, reverse=high_is_more(context.metric))
    named = ", ".join(f"{point.component} ({_impact(point)})" for point in ordered[:NAMED])
    measure = PLAIN_METRICS.get(context.metric, context.metric)
    extreme = "highest" if high_is_more(context.metric) else "lowest"
    return (
        f"Of the {count(len(points), 'component')} {COMPARED}, when {context.change}, {measure} is {extreme} for "
        f"{named}."
    )


def _counts(points: Sequence[Point], thresholds: Thresholds, context: Context) -> str:
    number = Counter(point.quadrant for point in points)
    counts = "; ".join(f"{number[name]} {name}" for name in QUADRANTS)
    return (
        f"Split at {thresholds.energy_mj:.3g} {context.unit} and at {context.impact_column} = "
        f"{thresholds.impact:.3g} (the medians), the components divide into: {counts}."
    )


def _stability(points: Sequence[Point]) -> list[str]:
    decided = [(point.stability, point) for point in points if point.quadrant != UNDECIDED and point.stability]
    if not decided:
        return []
    stable = sum(value >= STABLE for value, _ in decided)
    least, point = min(decided, key=lambda item: item[0])
    text = (
        f"Where the components and both measurements are drawn anew, {stable} of the {len(decided)} that have a "
        f"quadrant stay in it in {100 * STABLE:.0f} % of the resamples or more; the least stable is "
        f"{point.component} with {100 * least:.0f} %."
    )
    return [text]


def _examples(points: Sequence[Point], context: Context) -> list[str]:
    sentences = []
    for quadrant in QUADRANTS:
        members = [point for point in points if point.quadrant == quadrant]
        if members and quadrant != UNDECIDED:
            members.sort(key=lambda point: point.energy_mj, reverse=True)
            named = [f"{one.component} ({one.energy_mj:.3g} {context.unit}, {_impact(one)})" for one in members]
            sentences.append(f"{quadrant.capitalize()}: {listed(named)}.")
    return sentences


def _measures(context: Context) -> str:
    if context.sensitivity:
        return (
            f"{context.impact_column} measures sensitivity: what happens when {context.change}, all others left "
            "as they are. It does not say what several components do together when all of them are quantized."
        )
    return (
        f"{context.impact_column} measures criticality: what happens when {context.change}. It does not say how "
        "a component bears quantization, which keeps most of its information: no advice on precision follows from "
        "it."
    )


def _impact(point: Point) -> str:
    return f"impact {impact_text(point.impact, point.impact_ci_low, point.impact_ci_high)}"
