"""Whether a traced decode step, or the traced prefill, is what its parts add up to when measured by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from energyscope.books.closure import too_wide
from energyscope.reporting.data.own_pass import Pass, pass_of_scene
from energyscope.reporting.data.pace import Pace, pace
from energyscope.reporting.data.scenes import DECODE, PREFILL, SceneData, middle_of
from energyscope.runs.intervals import Interval, difference, ratio, total

if TYPE_CHECKING:
    from energyscope.reporting.data.generation import Loop
    from energyscope.reporting.data.phases import PhaseRow

AGREEMENT = 0.07  # how far the parts may be from what was traced
Tokens = tuple[int | None, int | None]
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
    step: Pass | str, scenes: Sequence[SceneData], decode: PhaseRow | None, loop: Loop, tokens: Tokens
) -> tuple[Agreement | None, str]:
    """Relate the traced decode step to its parts: the model in the middle of the generation, and the loop.

    ``step`` was taken beside the generations, or says why it was not; older runs have a scene of it in their
    profile. ``tokens`` are those of the prompt and the new ones. Returns why there is no agreement, where there is
    none.
    """
    prompt, new = tokens
    if prompt is None or new is None or new < 2 or decode is None or decode.energy is None:
        return None, "The decode phase has no energy of its own, so it cannot be compared with its parts."
    if loop.energy is None:
        why = f": {loop.reason}" if loop.reason else ""
        return None, f"The loop of generate was not measured{why}, so parts and trace cannot be compared."
    own = [one for one in scenes if one.phase == DECODE and one.context == middle_of(prompt, new)]
    found = pass_of_scene(next(iter(own), None)) if isinstance(step, str) else step
    if found is None:
        why = f": {step}" if step else f", at {middle_of(prompt, new):,} tokens"
        return None, (
            f"The model's step was not measured in the middle of the traced generation{why}; so parts and trace "
            "cannot be compared."
        )
    return _beside(DECODE, found, loop, decode, new - 1), ""


def prefill_agreement(
    scenes: Sequence[SceneData], prefill: PhaseRow | None, loop: Loop, prompt: int | None
) -> Agreement | None:
    """Relate the traced prefill to its parts: the model's pass, and the loop's share per call and per step.

    None unless all are known, the model's pass over a prompt of that very length.
    """
    if prefill is None or prefill.energy is None or loop.energy is None or loop.call_energy is None:
        return None
    passes = [pass_of_scene(one) for one in scenes if one.phase == PREFILL and one.context == prompt]
    found = next((one for one in passes if one is not None), None)
    return None if found is None else _beside(PREFILL, found, loop, prefill, None)


def _beside(name: str, own: Pass, loop: Loop, phase: PhaseRow, steps: int | None) -> Agreement | None:
    """Add the parts up as independent, of one of so many steps, or of a prefill, which the call is a part of.

    The loop's two shares err against each other, so that a prefill's interval is wide if anything.
    """
    call = loop.call_energy if steps is None else None
    if loop.energy is None or phase.energy is None:
        return None
    parts = total([own.energy, loop.energy, *([call] if call else [])])
    traced = phase.energy.scaled(1 / (steps or 1))
    return Agreement(
        phase=name,
        scene=own.name,
        model=own.energy,
        loop=loop.energy,
        call=call,
        parts=parts,
        traced=traced,
        ratio=ratio(parts, traced),
        same_execution=own.eager,
        pace=pace(own, loop, phase, steps),
    )
