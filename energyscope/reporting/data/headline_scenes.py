"""The top of the report of a run with several moments: what a pass and a step take, and what a generation does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from energyscope.reporting import text
from energyscope.reporting.data.execution import execution_of
from energyscope.reporting.data.generation import GenerationData
from energyscope.reporting.data.headline import Metric, closure_metric, grades, metric, predictions
from energyscope.reporting.data.scenes import DECODE, SceneData

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.runs.tree import EnergyTree

MOST_STEPS = 4
HEADLINE_RATES = ("Energy per generated token", "Modelled energy per generated token", "Time to first token",
          "Time per output token")  # fmt: skip


def scenes_headline(
    run: Run, scenes: Sequence[SceneData], tree: EnergyTree | None, generation: GenerationData | None
) -> list[Metric]:
    """Return a pass over the prompt, a step at each context, the rates of a generation, closure and grades."""
    shown = [scene for scene in scenes if scene.detailed] or list(scenes)
    passes = [scene for scene in shown if scene.phase != DECODE]
    steps = [scene for scene in shown if scene.phase == DECODE][:MOST_STEPS]
    found = [_energy(scene, run) for scene in (*passes, *steps)]
    found += headline_rates(generation)
    closed = [(scene, closure_metric(scene.closure)) for scene in (*passes[:1], *steps[:1]) if scene.closure]
    found += [Metric(f"{one.label}, {scene.short}", one.value, one.detail, one.note) for scene, one in closed]
    if tree and tree.nodes:
        found.append(grades(tree, tree.root))
    return found + predictions(run.document)


def _energy(scene: SceneData, run: Run) -> Metric:
    word = "Modelled energy" if run.modelled else "Energy"
    of = f"per decode step at {scene.context:,} tokens" if scene.phase == DECODE and scene.context else None
    label = f"{word} {of or f'per {scene.phase} pass'}"
    said = [text.quantity(scene.time_us.value, "us")] if scene.time_us else []
    said += [text.quantity(scene.power_w, "W")] if scene.power_w is not None else []
    if scene.per_token is not None and scene.tokens != 1:
        said.append(f"{text.quantity(scene.per_token.value, 'mJ')} per token")
    note = ", ".join(said) if scene.phase == DECODE else f"{', '.join(said)}; {execution_of(run).title}"
    return metric(label, scene.energy.model, "mJ", note)


def headline_rates(generation: GenerationData | None) -> list[Metric]:
    """Return the rates of a generation that most readers came for; those that are not known are left out."""
    if generation is None:
        return []
    from energyscope.reporting.data.generation_words import rates

    return [rate for rate in rates(generation) if rate.label in HEADLINE_RATES and rate.value != text.UNKNOWN]
