"""The top of the report of a run with several moments: what a pass and a step take, and what a generation does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from energyscope.reporting import text
from energyscope.reporting.data.devices import together
from energyscope.reporting.data.execution import title_of
from energyscope.reporting.data.generation import GenerationData
from energyscope.reporting.data.headline import (
    Metric,
    closure_metric,
    counted,
    grade_metric,
    grade_of,
    metric,
    predictions,
)
from energyscope.reporting.data.scenes import DECODE, SceneData

if TYPE_CHECKING:
    from energyscope.reporting.data.launching import Launching
    from energyscope.runs.store import Run
MOST_STEPS = 4
_GRADES = ("-", "A", "B", "C", "invalid")
HEADLINE_RATES = ("Energy per generated token", "Modelled energy per generated token", "Time to first token",
          "Time per output token")  # fmt: skip


def scenes_headline(
    run: Run,
    scenes: Sequence[SceneData],
    generation: GenerationData | None,
    launched: Sequence[Launching] = (),
) -> list[Metric]:
    """Return a pass over the prompt, a step at each context, the rates of a generation, closure and grades.

    Of moments in two executions, ``launched`` ones, the second says what it takes; the rest is of the first.
    """
    first = [scene for scene in scenes if scene.execution == scenes[0].execution]
    shown = [scene for scene in first if scene.detailed] or first
    passes = [scene for scene in shown if scene.phase != DECODE]
    steps = [scene for scene in shown if scene.phase == DECODE][:MOST_STEPS]
    found = []
    for scene in (*passes, *steps):
        found += [*_energy(scene, run), *(_in_graph(one) for one in launched if one.moment == scene.moment)]
    found += headline_rates(generation)
    closed = [(scene, closure_metric(scene.closure)) for scene in (*passes[:1], *steps[:1]) if scene.closure]
    found += [replace(one, label=f"{one.label}, {scene.short}") for scene, one in closed]
    moments = {scene.moment for scene in (*passes, *steps)}
    found.append(_grades([scene for scene in scenes if scene.moment in moments]))
    return found + predictions(run.document)


def _grades(shown: Sequence[SceneData]) -> Metric:
    """Return the worst grade that the whole model has in the moments shown, each one's, and their rows'."""
    each = {scene.short: grade_of(scene.tree.root) for scene in shown}
    nodes = [node for scene in shown for node in scene.tree.nodes]
    said = "; ".join(f"{name}: {grade}" for name, grade in each.items())
    worst = max(each.values(), key=lambda grade: _GRADES.index(grade) if grade in _GRADES else -1)
    return grade_metric(worst, f"the whole model's worst ({said}); of all {counted(nodes)}")


def _in_graph(one: Launching) -> Metric:
    """Return what a moment takes in a CUDA graph, beside its eager energy."""
    word = "Modelled energy" if one.modelled else "Energy"
    said = [f"{text.percent_with_limits(one.whole.share)} of eager execution"] if one.whole.share else []
    said += [one.weak] if one.weak else []
    return metric(f"{word} in a CUDA graph, {one.moment}", one.whole.graph, "mJ", "; ".join(said))


def _energy(scene: SceneData, run: Run) -> list[Metric]:
    """Return what a moment takes, and a pass over the prompt also by 1,000 of its tokens."""
    word = "Modelled energy" if run.modelled else "Energy"
    of = f"per decode step at {scene.context:,} tokens" if scene.phase == DECODE and scene.context else None
    label = f"{word} {of or f'per {scene.phase} pass'}"
    said = [text.quantity(scene.time_us.value, "us")] if scene.time_us else []
    said += [_power(scene.power_w, together(run.document))] if scene.power_w is not None else []
    each = scene.per_token.scaled(1000) if scene.per_token else None
    if scene.phase == DECODE:
        said += [f"{text.quantity(each.value, 'mJ')} per 1,000 tokens"] if each else []
        said += [title_of(scene.execution)] if scene.twice else []
        return [metric(label, scene.energy.model, "mJ", ", ".join(said))]
    found = [metric(label, scene.energy.model, "mJ", f"{', '.join(said)}; {title_of(scene.execution)}")]
    if each:
        found.append(metric(f"{word} per 1,000 prompt tokens", each, "mJ", f"{scene.tokens:,} tokens a pass"))
    return found


def _power(watts: float, boards: str) -> str:
    return f"{text.quantity(watts, 'W')} ({boards})" if boards else text.quantity(watts, "W")


def headline_rates(generation: GenerationData | None) -> list[Metric]:
    """Return the rates of a generation that most readers came for; those that are not known are left out."""
    if generation is None:
        return []
    from energyscope.reporting.data.generation_words import rates

    return [rate for rate in rates(generation) if rate.label in HEADLINE_RATES and rate.value != text.UNKNOWN]
