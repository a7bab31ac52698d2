"""Whether a traced decode step, or the traced prefill, is what its parts add up to when measured by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from energyscope.books.closure import too_wide
from energyscope.reporting.data.pace import Pace, pace
from energyscope.reporting.data.scenes import DECODE, PREFILL, SceneData, middle_of
from energyscope.runs.intervals import Interval, difference, ratio, total

if TYPE_CHECKING:
    from energyscope.reporting.data.generation import Loop
    from energyscope.reporting.data.phases import PhaseRow

AGREEMENT = 0.07  # how far the parts may be from what was traced
Verdict = Literal["agree", "cannot be told", "disagree", "unknown"]


@dataclass(frozen=True)
class Agreement:
    """A traced decode step or prefill beside its parts, mJ: the model's pass and what `generate` does around it.

    ``phase`` says which; ``scene`` is the moment of which the model's pass was measured; ``call`` is what each
    call of `generate` takes once, which is part of a prefill and not of a step. ``ratio`` is parts / traced, and
    ``pace`` what of it is time.
    """

    phase: str
    scene: str
    model: Interval
    loop: Interval
    call: Interval | None
    parts: Interval
    traced: Interval
    ratio: Interval | None
    same_execution: bool
    pace: Pace | None = None

    @property
    def verdict(self) -> Verdict:
        """Agree within `AGREEMENT`, unless the interval is too wide to say so; disagree where it excludes 1."""
        if self.ratio is None:
            return "unknown"
        if abs(self.ratio.value - 1) <= AGREEMENT:
            known = self.ratio.low is not None and self.ratio.high is not None
            return "agree" if known and not too_wide(self.ratio.low, self.ratio.high) else "cannot be told"
        # a ratio has no limits where a limit is not positive, while the difference has
        apart = self.ratio.excludes(1.0) if self.ratio.known else difference(self.parts, self.traced).excludes(0.0)
        return "disagree" if apart else "cannot be told"

    @property
    def limited(self) -> bool:
        """Whether both sides have an interval, so that more than their values can be compared."""
        return self.parts.known and self.traced.known


def agreement(
    scenes: Sequence[SceneData], decode: PhaseRow | None, loop: Loop, tokens: tuple[int | None, int | None]
) -> tuple[Agreement | None, str]:
    """Relate the traced decode step to its parts: the model at the middle of the generation, and the loop.

    ``tokens`` are those of the prompt and the new ones. Returns why there is no agreement, where there is none.
    """
    prompt, new = tokens
    if prompt is None or new is None or new < 2 or decode is None or decode.energy is None:
        return None, "The decode phase has no energy of its own, so it cannot be compared with its parts."
    if loop.energy is None:
        why = f": {loop.reason}" if loop.reason else ""
        return None, f"The loop of generate was not measured{why}, so parts and trace cannot be compared."
    middle = middle_of(prompt, new)
    own = [scene for scene in scenes if scene.phase == DECODE and scene.energy.model is not None]
    scene = next((one for one in own if one.context == middle), None)
    scene = scene or next((one for one in own if one.layers == "whole"), None)
    if scene is None or scene.energy.model is None:
        return None, (
            f"The model's step was not measured at {middle:,} tokens, the middle of the traced generation, "
            "so parts and trace cannot be compared."
        )
    found = pace(scene, loop, decode, steps=new - 1, with_call=False)
    return _beside(scene, scene.energy.model, loop.energy, None, decode.energy.scaled(1 / (new - 1)), found), ""


def prefill_agreement(
    scenes: Sequence[SceneData], prefill: PhaseRow | None, loop: Loop, prompt: int | None
) -> Agreement | None:
    """Relate the traced prefill to its parts: the model's pass, and the loop's share per call and per step.

    None unless all are known, the model's pass over a prompt of that very length.
    """
    if prefill is None or prefill.energy is None or loop.energy is None or loop.call_energy is None:
        return None
    passes = [scene for scene in scenes if scene.phase == PREFILL and scene.context == prompt]
    scene = next((one for one in passes if one.energy.model is not None), None)
    if scene is None or scene.energy.model is None:
        return None
    found = pace(scene, loop, prefill, steps=1, with_call=True)
    return _beside(scene, scene.energy.model, loop.energy, loop.call_energy, prefill.energy, found)


def _beside(
    scene: SceneData,
    model: Interval,
    loop: Interval,
    call: Interval | None,
    traced: Interval,
    found: Pace | None,
) -> Agreement:
    """Add the parts up as independent; the loop's two err against each other, so that this is wide if anything."""
    parts = total([model, loop, *([call] if call else [])])
    execution = str(scene.tree.root.row.get("execution")) if scene.tree.root else ""
    return Agreement(
        phase=scene.phase,
        scene=scene.short,
        model=model,
        loop=loop,
        call=call,
        parts=parts,
        traced=traced,
        ratio=ratio(parts, traced),
        same_execution=execution == "eager",
        pace=found,
    )
