"""A whole generation: what each phase took, the rates that users compare, and whether the parts agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from energyscope.reporting.data.agreement import Agreement, agreement, prefill_agreement
from energyscope.reporting.data.flow import FlowNode
from energyscope.reporting.data.generation_flow import generation_flow
from energyscope.reporting.data.given import entries, given, section, whole
from energyscope.reporting.data.own_pass import pass_of_step
from energyscope.reporting.data.phases import PhaseRow, phase_row, total_row
from energyscope.reporting.data.power_trace import PowerTrace, power_trace
from energyscope.reporting.data.scenes import DECODE, PREFILL, SceneData
from energyscope.runs.intervals import Interval

if TYPE_CHECKING:
    from energyscope.runs.store import Run


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
class GenerationData:
    """What generation.json holds, with the power trace and the agreement of parts and whole.

    ``agreement`` is of a decode step, ``disagreement`` says why there is none, and ``no_trace`` why there is no
    ``trace``. ``total`` is what the phases add up to without the load. ``step_windows`` counts those of the step
    that was taken in turn with the generations. ``flow`` leads from the generation to the blocks of its passes.
    """

    prompt_tokens: int | None
    new_tokens: int | None
    batch_size: int | None
    kv_cache: str | None
    generations: int | None
    modelled: bool
    phases: list[PhaseRow]
    total: PhaseRow | None
    loop: Loop
    steps: list[StepsRow]
    rates: dict[str, Interval | None]
    trace: PowerTrace | None
    no_trace: str
    agreement: Agreement | None
    disagreement: str
    prefill_agreement: Agreement | None
    step_windows: int
    notes: list[str]
    flow: FlowNode | None = None

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
    phases = [phase_row(entry) for entry in entries(document, "phases")]
    loop = _loop(section(document, "loop"))
    modelled = bool(document.get("modelled", run.modelled))
    trace = power_trace(run.trace, document)
    sizes = [whole(settings.get(key)) for key in ("prompt_tokens", "new_tokens", "batch_size", "generations")]
    prompt, new, batch, count = sizes
    named = {row.phase: row for row in phases}
    agreed, why = agreement(pass_of_step(document), scenes, named.get(DECODE), loop, (prompt, new))
    found = GenerationData(
        prompt_tokens=prompt,
        new_tokens=new,
        batch_size=batch,
        kv_cache=settings.get("kv_cache"),
        generations=count,
        modelled=modelled,
        phases=phases,
        total=total_row(phases),
        loop=loop,
        steps=[_steps(entry) for entry in entries(document, "steps")],
        rates={str(name): given(value) for name, value in section(document, "rates").items()},
        trace=trace,
        no_trace="" if trace else _no_trace(run, modelled=modelled),
        agreement=agreed,
        disagreement=why,
        step_windows=whole(section(document, "step").get("windows")) or 0,
        prefill_agreement=prefill_agreement(scenes, named.get(PREFILL), loop, prompt),
        notes=[str(note) for note in document.get("notes") or []],
    )
    return replace(found, flow=generation_flow(found, scenes))


def _no_trace(run: Run, *, modelled: bool) -> str:
    if modelled:
        return "There is no power over time: no sensor was read, and the stated watts are the same throughout."
    if run.trace is None or run.trace.empty:
        return "There is no power over time: this run kept no trace of it."
    return "There is no power over time: the trace that was kept does not cover the marked generations."


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
