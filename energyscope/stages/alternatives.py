"""Alternatives: the whole model's step with one thing changed at a time, and what that does to joules per token.

Over the host's clock:

    set all up, one by one | preheat | idle | pass 1: each once, shuffled | pass 2: ... | idle

The run's own setting is measured in every pass too, and each alternative is compared with it inside of the pass.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from energyscope.accounting import records
from energyscope.benchmarking.memory import release
from energyscope.changes import document
from energyscope.changes.inputs import StepData
from energyscope.changes.plan import BASE, Alternative, Execution, Phase, bases, choose, header, limits
from energyscope.changes.runner import AlternativeRunner
from energyscope.failures import ends_a_run, failure
from energyscope.metering.group import MeterGroup, sum_windows
from energyscope.metering.waiting import HOST, Clock, let_settle, measure_idle, read_windows
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason
from energyscope.replay.marks import clock_for
from energyscope.replay.replayer import Replayer
from energyscope.runs.schema import ALTERNATIVES_JSON
from energyscope.runs.store import RunStore, read_journal
from energyscope.stages.context import Context, Entries, metered
from energyscope.stages.phases import why_no_generation
from energyscope.stages.sampling_budget import OVERHEAD_S, REWARM_S, most_retaken
from energyscope.stages.session import Journal

if TYPE_CHECKING:
    from energyscope.kv_cache import CacheKind
    from energyscope.loading import LoadedModel
    from energyscope.workloads import Evaluation, Workload

STAGE = "alternatives"
PREHEAT_S = 3.0
BUDGET_S = 90.0
MODELLED_BUDGET_S = 20.0
OVERRUN = 1.3  # of the budget, after which no further pass begins
FEWEST_PASSES = 3  # below which there is no grade


@dataclass(frozen=True)
class AlternativesSettings:
    """Which alternatives are measured, and for how long.

    Without ``batch_sizes`` or ``context_lengths``, the usual ones that the model and the memory allow are taken.
    ``passes`` windows are taken of each. ``budget_s`` (s; None: 90, and 20 where joules are modelled) limits the
    stage: what would not fit is skipped, with the reason. ``window_s`` (s) None is the meter's own. ``new_tokens``
    is the room behind the prompt in a static cache of a prefill. With a ``phase``, only what changes that phase's
    energy at its own context is measured.
    """

    batch_sizes: tuple[int, ...] = ()
    context_lengths: tuple[int, ...] = ()
    passes: int = 5
    budget_s: float | None = None
    seed: int = 0
    window_s: float | None = None
    new_tokens: int = 128
    phase: Phase | None = None

    def concerns(self, alternative: Alternative) -> bool:
        """Tell whether an alternative is to be measured."""
        return self.phase is None or (alternative.phase == self.phase and alternative.what != "context_length")

    def budget(self, *, modelled: bool) -> float:
        """Return the seconds that the stage may take."""
        return self.budget_s or (MODELLED_BUDGET_S if modelled else BUDGET_S)


@dataclass
class Budget:
    """``seconds`` in all, from ``begin_s`` of some clock on; ``planned_s`` are those of what is set up already."""

    seconds: float
    passes: int
    begin_s: float
    planned_s: float = 0.0

    def refused(self, now_s: float, setup_s: float, window_s: float) -> Reason | None:
        """Return why an alternative with such a set-up and window no longer fits; None if it does."""
        needed = setup_s + self.passes * window_s
        left = max(self.seconds - (now_s - self.begin_s) - self.planned_s, 0.0)
        if needed <= left:
            return None
        return reason("beyond-time-budget", needed_s=needed, left_s=left, budget_s=self.seconds)

    def plan(self, window_s: float) -> None:
        """Reserve a window of each pass."""
        self.planned_s += self.passes * window_s

    def exceeded(self, now_s: float) -> bool:
        """Return whether much more than the budget is spent."""
        return now_s - self.begin_s > OVERRUN * self.seconds


def run(context: Context) -> Reason | None:
    """Measure the alternatives to a run's settings; return why that is skipped."""
    settings, loaded = context.settings, context.loaded
    if why_not := why_no_generation(settings, loaded):
        return why_not
    chosen = AlternativesSettings(
        context_lengths=settings.context_lengths,
        passes=settings.passes,
        seed=settings.seed,
        window_s=settings.window_s,
        new_tokens=settings.new_tokens,
    )
    with metered(context, STAGE) as meter:
        alternatives(
            loaded,
            context.workload,
            meter,
            chosen,
            execution=settings.executions[0],
            kv_cache=settings.kv_cache,
            batch_size=settings.batch_size,
            context_length=next(iter(settings.context_lengths), None),
            evaluation=context.evaluation,
            journal=context.store.journal,
            progress=context.progress,
        )
    write(context.store, read_journal(context.store.path))
    release(loaded.device)
    return None


def write(store: RunStore, entries: Entries) -> bool:
    """Write what changing one thing at a time would do; False if no alternative was begun."""
    document = recover(entries)
    if document is None:
        return False
    store.write_json(ALTERNATIVES_JSON, document)
    store.update()
    return True


def alternatives(  # noqa: PLR0913  the run's own setting is four of them
    loaded: LoadedModel,
    prompt: Workload,
    meter: MeterGroup,
    settings: AlternativesSettings,
    *,
    execution: Execution = "eager",
    kv_cache: CacheKind = "dynamic",
    context_length: int | None = None,
    batch_size: int | None = None,
    evaluation: Evaluation | None = None,
    journal: Journal,
    progress: Progress = silent,
) -> None:
    """Measure the alternatives to a run's own setting on started meters; `recover` makes the document.

    ``prompt`` is the run's input; without ``context_length`` and ``batch_size``, decode steps have the usual
    context and the prompt's batch. Of a model that generates no text, only its pass is measured. Every finished
    window goes to ``journal`` at once. The model is left as it was.

    Raises:
        UsageError: the context is beyond the model's positions, or the device cannot do the execution.
        MeterError: the meter was lost.

    """
    if execution == "cuda-graph":
        Replayer(loaded.device, execution)  # refuses a device without CUDA graphs
    own = bases(
        loaded,
        prompt,
        execution=execution,
        kv_cache=kv_cache,
        context_length=context_length,
        batch_size=batch_size,
    )
    bounds = limits(loaded, evaluation)
    every, left_out = choose(own, bounds, settings.batch_sizes, settings.context_lengths)
    chosen = [alternative for alternative in every if settings.concerns(alternative)]
    data = StepData(prompt, evaluation, settings.seed, settings.new_tokens)
    runner = AlternativeRunner(loaded, data, clock=clock_for(meter, loaded.device))

    def keep(entry: Mapping[str, Any]) -> None:
        journal({"stage": STAGE, **entry})

    keep({"header": header(loaded.precision, own, chosen, modelled=meter.modelled)})
    for alternative, why_not in left_out:
        if settings.concerns(alternative):
            keep(skipped(alternative, why_not))
    with runner.cleaned_up():
        measured = [*filter(settings.concerns, own), *chosen]
        Passes(runner, meter, settings, keep, progress).run(measured)


def skipped(alternative: Alternative, why_not: Reason) -> dict[str, Any]:
    """Return the journal entry of an alternative that is not measured."""
    setting = {"what": alternative.what, "value": alternative.value, "phase": alternative.phase}
    return {"skipped": {**setting, "reason": why_not}}


def recover(entries: Entries) -> dict[str, Any] | None:
    """Make alternatives.json of journalled entries, however many there are; None where nothing was measured."""
    return document.document([entry for entry in entries if entry.get("stage") == STAGE])


@dataclass
class Passes:
    """Sets the alternatives up and measures them in shuffled passes, within the budget.

    A failure of an alternative costs only itself; where a phase's base fails, the phase is left out.
    """

    runner: AlternativeRunner
    meter: MeterGroup
    settings: AlternativesSettings
    keep: Journal
    progress: Progress = silent
    clock: Clock = HOST

    def __post_init__(self) -> None:
        """Start the clock of the budget."""
        self.window_s = self.settings.window_s or self.meter.window_s
        seconds = self.settings.budget(modelled=self.meter.modelled)
        self._budget = Budget(seconds, self.settings.passes, self.clock.now())
        self._entries: list[Mapping[str, Any]] = []
        self._skipped: set[str] = set()

    def run(self, plan: Sequence[Alternative]) -> None:
        """Measure a plan, the bases of all phases first in it."""
        ready = self._set_up_all(plan)
        if not ready:
            return
        total = len(ready) * self.settings.passes
        shuffle = random.Random(self.settings.seed)
        self.progress(STAGE, "preheating", 0, total)
        self._warm_up(ready[0], PREHEAT_S)
        self._measure_idle(0)
        self._warm_up(ready[0], REWARM_S)
        done = 0
        for number in range(self.settings.passes):
            if number >= FEWEST_PASSES and self._budget.exceeded(self.clock.now()):
                self._remember({"note": reason("passes-cut", passes=number, planned=self.settings.passes)})
                break
            for alternative in shuffle.sample(ready, len(ready)):
                self.progress(STAGE, label(alternative), done, total)
                self._measure(alternative, number)
                done += 1
        self._retake_stalled(ready, total)
        self._measure_idle(self.settings.passes)

    def _retake_stalled(self, ready: Sequence[Alternative], total: int) -> None:
        """Retake the windows in which the host stalled, up to a share of all and while there is time."""
        by_key = {alternative.key: alternative for alternative in ready}
        limit = most_retaken(total, modelled=self.meter.modelled)
        for key, number in records.stalled_windows(self._entries, limit=limit):
            if not self._budget.exceeded(self.clock.now()):
                self._measure(by_key[key], number)

    # --- setting up -----------------------------------------------------------------------------------------

    def _set_up_all(self, plan: Sequence[Alternative]) -> list[Alternative]:
        ready: list[Alternative] = []
        base_keys = {alternative.phase: alternative.key for alternative in plan if alternative.what == BASE}
        for number, alternative in enumerate(plan, 1):  # no steps: those of the passes are the stage's
            self.progress(STAGE, f"setting up {number} of {len(plan)}: {label(alternative)}", 0, 1)
            if base_keys[alternative.phase] in self._skipped:
                why_not: Reason | None = reason("base-not-measured")
            else:
                why_not = self._too_long(alternative) or self._set_up(alternative, ready)
            if why_not is None:
                ready.append(alternative)
            else:
                self._skip(alternative, why_not)
        return ready

    def _too_long(self, alternative: Alternative) -> Reason | None:
        """Return why an alternative does not fit into the budget; the bases always do."""
        if alternative.what == BASE:
            return None
        setup_s = self.runner.expected_seconds(alternative)
        return self._budget.refused(self.clock.now(), setup_s, self.window_s + OVERHEAD_S)

    def _set_up(self, alternative: Alternative, ready: Sequence[Alternative]) -> Reason | None:
        """Set an alternative up; return why that is not possible, beside those that are ``ready``."""
        try:
            prepared = self.runner.prepare(alternative)
        except Exception as error:
            if ends_a_run(error):
                raise
            why_not = failure(error)
        else:
            self._budget.plan(max(self.window_s, prepared.call_s) + prepared.again_s + OVERHEAD_S)
            entry: dict[str, Any] = {"setup": alternative.key, "setup_s": prepared.setup_s}
            entry["reasons"] = list(prepared.reasons)
            if prepared.acceptance is not None:
                entry["acceptance"] = asdict(prepared.acceptance)
            self._remember(entry)
            return None
        self.runner.drop(alternative)  # when the error is gone, and the device memory that it held
        if why_not.code == "no-memory-left" and alternative.what in {"batch_size", "context_length"}:
            sizes = [getattr(other, alternative.what) for other in ready if other.phase == alternative.phase]
            return reason("largest-size-that-fits", largest=max(sizes)) if sizes else why_not
        return why_not

    # --- measuring ------------------------------------------------------------------------------------------

    def _measure(self, alternative: Alternative, number: int) -> None:
        if alternative.key in self._skipped:
            return
        why_not = reason("launches-nothing")
        try:
            entry = self._window(alternative, number)
            if entry is not None and records.should_retake(entry, self._entries):
                self._remember(entry)
                let_settle(self.meter, self.clock)
                entry = self._window(alternative, number)
        except Exception as error:
            if ends_a_run(error):
                raise
            entry, why_not = None, failure(error)
        if entry is not None:
            self._remember(entry)
            return
        self._skip(alternative, why_not)
        self.runner.drop(alternative)

    def _window(self, alternative: Alternative, number: int) -> dict[str, Any] | None:
        calls = self.runner.run(alternative, self.window_s)
        if calls is None:
            return None
        begin, end = calls.span_s
        window = sum_windows(read_windows(self.meter, calls, self.clock))
        state = records.board(self.meter.states((begin + end) / 2, end))
        entry = {"pass": number, "subject": alternative.key, "begin_s": begin, "ran_s": calls.span_s}
        entry |= {"window": asdict(window), **state}
        entry["guard"] = records.contamination(entry, self._entries)
        return entry

    def _warm_up(self, alternative: Alternative, seconds: float) -> None:
        """Bring the board to its working temperature and clocks."""
        if not self.meter.modelled:
            self.runner.run(alternative, seconds)

    def _measure_idle(self, number: int) -> None:
        """Measure the idle power, and look for other processes on the device while this one does nothing."""
        self.runner.synchronize()
        if entry := measure_idle(self.meter, self.runner.own_bytes, self.clock):
            self._remember({"pass": number, **entry})

    def _skip(self, alternative: Alternative, why_not: Reason) -> None:
        self._skipped.add(alternative.key)
        self._remember(skipped(alternative, why_not))

    def _remember(self, entry: Mapping[str, Any]) -> None:
        self._entries.append(entry)
        self.keep(entry)


def label(alternative: Alternative) -> str:
    """Return an alternative in words, for a line of progress."""
    changed = f"{alternative.what.replace('_', ' ')} {alternative.value}"
    return f"{alternative.phase}, {'as it is' if alternative.what == BASE else changed}"
