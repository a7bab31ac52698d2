"""A whole generation: what each phase took, the rates that users compare, and whether the parts agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.reporting.data.given import entries, given, section, whole
from energyscope.reporting.data.power_trace import PowerTrace, power_trace
from energyscope.reporting.data.scenes import DECODE, SceneData
from energyscope.runs.intervals import Interval, finite, ratio, total

if TYPE_CHECKING:
    from energyscope.runs.store import Run

MILLI = 1e3
AGREEMENT = 0.07  # how far the parts may be from the traced generation


@dataclass(frozen=True)
class PhaseRow:
    """One phase of a generation (of the whole batch); ``load`` happens once. Energies in mJ.

    ``method`` is ``traced``, ``repeated``, ``regressed``, or None, for which ``reason`` says why.
    """

    phase: str
    method: str | None
    seconds: Interval | None
    energy: Interval | None
    static_mj: float | None
    dynamic_mj: float | None
    power_w: Interval | None
    tokens: int | None
    per_token: Interval | None
    devices_mj: list[float]
    reason: str


@dataclass(frozen=True)
class StepsRow:
    """Decode steps ``first`` to ``last`` (step 1 makes the second token): mJ, s and W of each, whole batch."""

    first: int
    last: int
    energy: Interval | None
    seconds: Interval | None
    power_w: Interval | None


@dataclass(frozen=True)
class Loop:
    """What `generate` itself takes around the model's passes, per step and per call: mJ and s."""

    energy: Interval | None
    seconds: Interval | None
    call_energy: Interval | None
    call_seconds: Interval | None
    windows: int | None
    reason: str


@dataclass(frozen=True)
class Agreement:
    """A decode step of the traced generation beside its parts, mJ: the model's pass and `generate`'s loop.

    ``scene`` is the moment of which the model's pass was measured. ``ratio`` is parts / traced.
    """

    scene: str
    model: Interval
    loop: Interval
    parts: Interval
    traced: Interval
    ratio: Interval | None
    same_execution: bool

    @property
    def agrees(self) -> bool | None:
        """Whether parts and trace lie within `AGREEMENT`, or an interval that includes 1; None if unknown."""
        if self.ratio is None:
            return None
        return abs(self.ratio.value - 1) <= AGREEMENT or (self.ratio.known and not self.ratio.excludes(1.0))


@dataclass(frozen=True)
class GenerationData:
    """What generation.json holds, with the power trace and the agreement of parts and whole.

    ``disagreement`` says why there is no ``agreement``; ``no_trace`` why there is no ``trace``.
    """

    prompt_tokens: int | None
    new_tokens: int | None
    batch_size: int | None
    kv_cache: str | None
    generations: int | None
    modelled: bool
    phases: list[PhaseRow]
    loop: Loop
    steps: list[StepsRow]
    rates: dict[str, Interval | None]
    trace: PowerTrace | None
    no_trace: str
    agreement: Agreement | None
    disagreement: str
    notes: list[str]

    def phase(self, name: str) -> PhaseRow | None:
        """Return one phase; None where the document does not list it."""
        return next((row for row in self.phases if row.phase == name), None)

    @property
    def shown_steps(self) -> list[StepsRow]:
        """The groups of steps whose energy is known."""
        return [row for row in self.steps if row.energy is not None]


def generation_data(run: Run, scenes: Sequence[SceneData]) -> GenerationData | None:
    """Read generation.json; None where the run traced no generation."""
    document = run.generation
    if document is None:
        return None
    settings = section(document, "settings")
    phases = [_phase(entry) for entry in entries(document, "phases")]
    loop = _loop(section(document, "loop"))
    modelled = bool(document.get("modelled", run.modelled))
    trace = power_trace(run.trace, document)
    sizes = [whole(settings.get(key)) for key in ("prompt_tokens", "new_tokens", "batch_size", "generations")]
    prompt, new, batch, count = sizes
    decode = next((row for row in phases if row.phase == DECODE), None)
    agreement, why = _agreement(scenes, decode, loop, (prompt, new))
    return GenerationData(
        prompt_tokens=prompt,
        new_tokens=new,
        batch_size=batch,
        kv_cache=settings.get("kv_cache"),
        generations=count,
        modelled=modelled,
        phases=phases,
        loop=loop,
        steps=[_steps(entry) for entry in entries(document, "steps")],
        rates={str(name): given(value) for name, value in section(document, "rates").items()},
        trace=trace,
        no_trace="" if trace else _no_trace(run, modelled=modelled),
        agreement=agreement,
        disagreement=why,
        notes=[str(note) for note in document.get("notes") or []],
    )


def _no_trace(run: Run, *, modelled: bool) -> str:
    if modelled:
        return "There is no power over time: no sensor was read, and the stated watts are the same throughout."
    if run.trace is None or run.trace.empty:
        return "There is no power over time: this run kept no trace of it."
    return "There is no power over time: the trace that was kept does not cover the marked generations."


def _phase(entry: Mapping[str, Any]) -> PhaseRow:
    devices = [finite(value) for value in entry.get("devices_j") or []]
    method = entry.get("method")
    return PhaseRow(
        phase=str(entry.get("phase")),
        method=None if method is None else str(method),
        seconds=given(entry.get("seconds")),
        energy=_milli(entry.get("energy_j")),
        static_mj=_scaled(entry.get("static_j")),
        dynamic_mj=_scaled(entry.get("dynamic_j")),
        power_w=given(entry.get("power_w")),
        tokens=whole(entry.get("tokens")),
        per_token=_milli(entry.get("joules_per_token")),
        devices_mj=[value * MILLI for value in devices if value is not None],
        reason=str(entry.get("reason") or ""),
    )


def _milli(entry: object) -> Interval | None:
    joules = given(entry)
    return joules.scaled(MILLI) if joules else None


def _scaled(value: object) -> float | None:
    number = finite(value)
    return None if number is None else number * MILLI


def _steps(entry: Mapping[str, Any]) -> StepsRow:
    first, last = whole(entry.get("first")) or 0, whole(entry.get("last")) or 0
    energy, seconds, power = (given(entry.get(key)) for key in ("energy_mj", "seconds", "power_w"))
    return StepsRow(first, last, energy, seconds, power)


def _loop(entry: Mapping[str, Any]) -> Loop:
    step, call = section(entry, "per_token"), section(entry, "per_call")
    return Loop(
        energy=given(step.get("energy_mj")),
        seconds=given(step.get("seconds")),
        call_energy=given(call.get("energy_mj")),
        call_seconds=given(call.get("seconds")),
        windows=whole(entry.get("windows")),
        reason=str(entry.get("reason") or ""),
    )


def _agreement(
    scenes: Sequence[SceneData], decode: PhaseRow | None, loop: Loop, tokens: tuple[int | None, int | None]
) -> tuple[Agreement | None, str]:
    """Relate the traced decode step to its parts: the model at the middle of the generation, and the loop."""
    prompt, new = tokens
    if prompt is None or new is None or new < 2 or decode is None or decode.energy is None:
        return None, "The decode phase has no energy of its own, so it cannot be compared with its parts."
    if loop.energy is None:
        why = f": {loop.reason}" if loop.reason else ""
        return None, f"The loop of generate was not measured{why}, so parts and trace cannot be compared."
    middle = prompt + new // 2
    own = [scene for scene in scenes if scene.phase == DECODE and scene.energy.model is not None]
    scene = next((one for one in own if one.context == middle), None)
    scene = scene or next((one for one in own if one.layers == "whole"), None)
    if scene is None or scene.energy.model is None:
        return None, (
            f"The model's step was not measured at {middle:,} tokens, the middle of the traced generation, "
            "so parts and trace cannot be compared."
        )
    traced = decode.energy.scaled(1 / (new - 1))
    parts = total([scene.energy.model, loop.energy])
    execution = str(scene.tree.root.row.get("execution")) if scene.tree.root else ""
    return (
        Agreement(
            scene=scene.short,
            model=scene.energy.model,
            loop=loop.energy,
            parts=parts,
            traced=traced,
            ratio=ratio(parts, traced),
            same_execution=execution == "eager",
        ),
        "",
    )
