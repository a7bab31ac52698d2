"""Generate: real calls of ``model.generate`` under a continuous trace of the meter, and what stands beside them.

Over the host's clock:

    warm-up | idle | warm-up | generation, rest, step, rest, pause, generation, ... | the loop alone | texts

A step is a window of the model's own step in the middle of the generation, to be compared with the trace; the
rests are for counters that show energy late. Short generations have one after some of them only.
The pauses are random, up to a tick: so the phases fall at random offsets against the ticks, and a regression can
separate the powers of phases that are shorter than a tick. ``recover`` makes the document of the journal.

A stage that was stopped goes on with what is missing: further generations, as another part of the trace, and
windows. Idle power is measured again, as before a pass of a profile that goes on.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from energyscope.benchmarking.memory import release
from energyscope.errors import DeviceError, EnergyscopeError, ModelError
from energyscope.failures import ends_a_run, first_line, no_memory_left
from energyscope.generation.document import STAGE, part_of, recover
from energyscope.generation.generator import (
    GenerateSettings,
    GreedyGenerator,
    check_generation,
    notes_of,
    too_large,
)
from energyscope.generation.loop import LATE_S, loop_lengths, loop_pairs
from energyscope.generation.measurement import Ids, TickReader, load_entry, loop_entries, step_entry, text_entries
from energyscope.generation.timeline import GenerationTimes
from energyscope.loading import LoadedModel
from energyscope.metering.group import MeterGroup
from energyscope.metering.waiting import LAST_TICK_S, SETTLE_S, measure_idle
from energyscope.progress import Progress, silent
from energyscope.reasons import Reason, reason
from energyscope.replay.calls import no_garbage_collection
from energyscope.replay.replayer import Replayer
from energyscope.runs import schema
from energyscope.runs.store import RunStore, read_journal
from energyscope.stages.context import Context, Entries, metered
from energyscope.stages.phases import middle_step, why_no_generation
from energyscope.stages.session import Journal, is_of
from energyscope.workloads.decoding import can_generate, fresh_cache_length, prompt_length, too_long
from energyscope.workloads.limits import position_limit

if TYPE_CHECKING:
    from energyscope.workloads import Workload

__all__ = ["STAGE", "GenerateSettings", "generate", "load_entry", "recover"]

PREHEAT_S = 2.0
PREHEAT_TOKENS = 16  # so that preheating ends soon after its time, even if a generation is long
LONG_S = 5.0  # a generation that takes longer is its own warm-up
USUAL_TICK_S, MODELLED_TICK_S = 0.1, 0.005
CLOSING_TICKS = 2.0  # waited for after the last generation
STEPS = 10  # windows of the middle step in the time of all generations, where these are short
ENDLESS_S = 120.0  # beyond it, the least number of generations is not waited for
GENERATIONS_S, MODELLED_GENERATIONS_S = 12.0, 4.0  # a regression on ticks needs many; time x watts does not


def run(context: Context) -> Reason | None:
    """Trace generations from a run's prompt; return why that is skipped."""
    settings, loaded = context.settings, context.loaded
    prompt = prompt_length(loaded, context.workload)
    if why_not := why_no_generation(settings, loaded) or too_long(loaded, prompt, settings.new_tokens):
        return why_not
    with metered(context, STAGE) as meter:
        seconds = MODELLED_GENERATIONS_S if meter.modelled else GENERATIONS_S
        generate(
            loaded,
            context.workload,
            meter,
            GenerateSettings(settings.new_tokens, settings.kv_cache, seconds=seconds, seed=settings.seed),
            middle_step=lambda: middle_step(settings, loaded, context.workload, context.evaluation),
            earlier=[entry for entry in read_journal(context.store.path) if entry.get("stage") == STAGE],
            journal=context.store.journal,
            progress=context.progress,
        )
    write(context.store, read_journal(context.store.path))
    release(loaded.device)
    return None


def write(store: RunStore, entries: Entries) -> bool:
    """Write the phases of the traced generations, marks in the trace's time; False if none was begun."""
    document = recover(entries)
    if document is None:
        return False
    first_s = min((mark["begin_s"] for mark in document["marks"][:1]), default=0.0)
    origin_s = store.document.get("trace_origin_s") or first_s
    marks = [
        {name: [time_s - origin_s for time_s in value] if isinstance(value, list) else value - origin_s
         for name, value in mark.items()}
        for mark in document["marks"]
    ]  # fmt: skip
    store.write_json(schema.GENERATION_JSON, {**document, "marks": marks})
    store.update()
    return True


def generate(  # noqa: PLR0913  what is measured, and where it goes
    loaded: LoadedModel,
    workload: Workload,
    meter: MeterGroup,
    settings: GenerateSettings,
    *,
    middle_step: Callable[[], Workload | str],
    earlier: Entries = (),
    journal: Journal,
    progress: Progress = silent,
) -> None:
    """Measure generations of a loaded model that writes token by token, with started meters.

    ``middle_step`` prepares the decode step in their middle, or returns why there is none; it is called once it
    is known that the generation itself fits in memory. Everything that is finished goes to ``journal`` before the
    next thing starts; ``recover`` reads it. ``earlier`` is what it got from a stage that was stopped: that stays,
    if it was begun as this one is, and the rest is measured.

    Raises:
        UsageError: the model does not generate, or prompt and new tokens are beyond its positions.
        DeviceError: the batch does not fit in the device's memory.
        ModelError: the model cannot generate with this cache.
        MeterError: a meter was lost.

    """
    check_generation(loaded, workload, settings)

    def keep(entry: Mapping[str, Any]) -> None:
        journal({"stage": STAGE, **entry})

    with fresh_cache_length(loaded.model):
        _Stage(loaded, workload, middle_step, meter, settings, keep, progress, earlier).run()


@dataclass
class _Stage:
    """One run of the stage."""

    loaded: LoadedModel
    workload: Workload
    middle_step: Callable[[], Workload | str]
    meter: MeterGroup
    settings: GenerateSettings
    keep: Journal
    progress: Progress
    earlier: Entries
    replayer: Replayer = field(init=False)
    generator: GreedyGenerator = field(init=False)
    settle_s: float = field(init=False)
    done: int = 0
    total: int = 1

    def __post_init__(self) -> None:
        self.replayer = Replayer(self.loaded.device)
        self.generator = GreedyGenerator(self.loaded, self.workload, self.settings.kv_cache)
        self.settle_s = max(meter.settle_s for meter in self.meter.meters)

    def run(self) -> None:
        self._begin()
        self._show_step("warm-up")
        mark, ids = self._first_generation()
        each_s = mark.end_s - mark.begin_s + self._tick_s() / 2
        generations = math.ceil(self.settings.seconds / each_s)
        self.total = 1 + max(self.settings.least, generations) + 4 * self.settings.passes
        self.done += sum("generation" in entry or "pass" in entry for entry in self.earlier)
        self._show_step("idle power")
        self._measure_idle()
        if not any("ticks" in entry and "generation" not in entry for entry in self.earlier):  # else it was ended
            self._trace(self._prepare_step(), each_s)
        self._measure_loop()
        self._measure_texts(ids.tolist())

    def _begin(self) -> None:
        """Go on with what an earlier process measured, if it began with the same header; else begin."""
        header = self._header()
        if is_of(self.earlier, header):
            return
        if any("header" in entry for entry in self.earlier):
            self.keep({schema.BEGUN_AGAIN: True})
            for entry in (entry for entry in self.earlier if entry.get("phase") == "load"):
                self.keep(entry)
        self.earlier = ()
        self.keep({"header": header})

    def _header(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.workload.sequence_length or None,
            "beside_encoder": not can_generate(self.loaded),
            "new_tokens": self.settings.new_tokens,
            "batch_size": self.workload.batch_size,
            "kv_cache": self.settings.kv_cache,
            "seed": self.settings.seed,
            "modelled": self.meter.modelled,
            "meters": len(self.meter.meters),
            "settle_s": self.settle_s,
            "tokenizer_reason": None if self.loaded.tokenizer is not None else self.loaded.tokenizer_reason,
            "notes": notes_of(self.loaded, self.workload, self.settings, modelled=self.meter.modelled),
        }

    def _show_step(self, label: str) -> None:
        self.progress(STAGE, label, min(self.done, self.total - 1), self.total)
        self.done += 1

    def _tick_s(self) -> float:
        periods = [meter.describe().get("tick_period_s") for meter in self.meter.meters]
        return max(
            (float(period) for period in periods if period),
            default=MODELLED_TICK_S if self.meter.modelled else USUAL_TICK_S,
        )

    def _first_generation(self) -> tuple[GenerationTimes, torch.Tensor]:
        """Generate once to warm up, and again for its time; what is not possible fails here."""
        try:
            first = self.generator.timed(self.settings.new_tokens)
            is_long = first[0].end_s - first[0].begin_s > LONG_S
            return first if is_long else self.generator.timed(self.settings.new_tokens)
        except EnergyscopeError:
            raise
        except Exception as error:
            if ends_a_run(error):
                raise
            if not no_memory_left(error):
                kind = self.settings.kv_cache
                raise ModelError(
                    f"{self.loaded.name} cannot generate with a {kind} cache: {first_line(error)}"
                ) from error
        # outside of the handler: the error's traceback holds the tensors of the pass that failed
        raise DeviceError(too_large(self.generator, self.settings.new_tokens, self.loaded.device))

    def _measure_idle(self) -> None:
        """Measure the idle power with the context alive and power settled; note others that use the device."""
        self.replayer.synchronize()
        if entry := measure_idle(
            self.meter, lambda: [Replayer(device).own_bytes() for device in self.loaded.devices]
        ):
            self.keep(entry)

    def _prepare_step(self) -> Workload | None:
        """Prepare the step; where there is none, the reason is kept."""
        if any("step_reason" in entry for entry in self.earlier):
            return None
        step: Workload | str = (
            reason("meter-slower-than-phase", settle_s=self.settle_s) if self.settle_s else self.middle_step()
        )
        if not isinstance(step, str):
            return step
        self.keep({"step_reason": step})
        return None

    def _trace(self, step: Workload | None, each_s: float) -> None:
        """Generate for some seconds, with random pauses, and take windows of the step in turn.

        Generations that were traced before take ``each_s`` of these seconds; those that follow are another part.
        """
        before = [entry for entry in self.earlier if "generation" in entry]
        part = max(map(part_of, before), default=-1) + 1
        pauses, tick_s = random.Random(self.settings.seed + len(before)), self._tick_s()
        self._preheat()
        reader, host = TickReader(self.meter), self.meter.host
        begin_s, steps_s = time.monotonic() - len(before) * each_s, 0.0
        due_s = sum("step_context" in entry for entry in self.earlier) * self.settings.seconds / STEPS
        elapsed = len(before) * each_s
        for number in itertools.count(len(before) + 1):
            if self._is_traced(number - 1, elapsed):
                break
            self._show_step(f"generation {number}")
            time.sleep(pauses.uniform(0.0, tick_s))
            try:
                with no_garbage_collection():
                    self.replayer.synchronize()
                    drawn_before = host.read()
                    mark, _ = self.generator.timed(self.settings.new_tokens)
                    host_mj = host.since(drawn_before).energy_mj
            except Exception as error:
                if step is None or not no_memory_left(error):
                    raise
                self.keep({"step_reason": reason("no-memory-for-step")})
                step = None  # without its cache, there was room
                continue
            drawn = {} if host_mj is None else {"host_mj": host_mj}
            self.keep({"generation": asdict(mark), "ticks": reader.new_ticks(), "trace_part": part, **drawn})
            elapsed = time.monotonic() - begin_s - steps_s
            if step is not None and elapsed >= due_s:
                steps_s += self._measure_step(step, number, 0.0 if self.meter.modelled else LATE_S + tick_s)
                due_s = elapsed + self.settings.seconds / STEPS
        time.sleep(CLOSING_TICKS * tick_s + LAST_TICK_S)
        self.keep({"ticks": reader.new_ticks(), "trace_part": part})

    def _is_traced(self, generations: int, elapsed_s: float) -> bool:
        enough = generations >= self.settings.least or elapsed_s > ENDLESS_S
        return elapsed_s >= self.settings.seconds and enough

    def _measure_step(self, step: Workload, number: int, rest_s: float) -> float:
        """Take a window of the step, with a rest before and after it; return the seconds that it took in all."""
        begin_s = time.monotonic()
        time.sleep(rest_s)
        self.keep(step_entry(step, self.loaded.model, self.loaded.device, number, self.meter))
        time.sleep(rest_s)
        return time.monotonic() - begin_s

    def _preheat(self) -> None:
        """Bring the board back to its working clocks."""
        until = time.monotonic() + (0.0 if self.meter.modelled else PREHEAT_S)
        while time.monotonic() < until:
            self.generator(min(self.settings.new_tokens, PREHEAT_TOKENS))

    def _measure_loop(self) -> None:
        """Take windows of the loop of `generate` alone."""
        lengths = loop_lengths(position_limit(self.loaded) - prompt_length(self.loaded, self.workload))
        if lengths is None:
            self.keep({"loop_reason": reason("no-positions-for-loop")})
            return
        begun = {entry["pass"] for entry in self.earlier if "loop_tokens" in entry}
        first = max(begun, default=-1) + 1  # a pair of which one is missing begins again, with a number of its own
        passes = range(first, first + self.settings.passes - len(loop_pairs(self.earlier)))
        if not passes or any("loop_reason" in entry for entry in self.earlier):
            return
        device = self.loaded.device
        measured = loop_entries(self.generator, device, lengths, passes, self.meter, self._show_step)
        with closing(measured) as entries:
            for entry in entries:
                self.keep(entry)

    def _measure_texts(self, generated: Ids) -> None:
        """Take windows of turning text into ids and ids into text."""
        tokenizer, passes = self.loaded.tokenizer, self.settings.passes
        if tokenizer is None:
            return
        if not self.meter.modelled:
            time.sleep(SETTLE_S)  # the device rests meanwhile: no power of the loop is to be left
        read = self.workload.inputs.get("input_ids")
        prompts: Ids = [] if read is None else read.tolist()
        texts = text_entries(tokenizer, prompts, generated, passes, self.meter, self._show_step, self.earlier)
        for entry in texts:
            self.keep(entry)
