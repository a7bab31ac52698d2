"""What is measured of a generation, as journal entries: ticks, the load, the model's step, the loop, the texts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from energyscope.errors import ModelError
from energyscope.failures import no_memory_left
from energyscope.generation.generator import GreedyGenerator, TimestampStreamer
from energyscope.generation.loop import LATE_S
from energyscope.generation.stub import recorded_forward, stubbed_forward
from energyscope.metering.group import LOOK_BACK_S, MeterGroup
from energyscope.metering.tick_intervals import energy_between, ticks_to_rows
from energyscope.metering.waiting import read_windows
from energyscope.reasons import reason
from energyscope.replay.calls import Call
from energyscope.replay.replayer import Replayer

if TYPE_CHECKING:
    from energyscope.workloads import Workload

Entry = dict[str, Any]
ShowStep = Callable[[str], None]  # shows what is measured next
Ids = Sequence[Sequence[int]]

COUNTER_LATE_S = 0.4  # within this, a counter shows what was drawn before
POLL_S = 0.02


class TickReader:
    """Returns each tick of each meter once, beginning some seconds before it was made."""

    def __init__(self, meter: MeterGroup) -> None:
        self.meter = meter
        self._since_s = [time.monotonic() - LOOK_BACK_S] * len(meter.meters)

    def new_ticks(self) -> list[list[list[float]]]:
        """Return the new ticks of each meter as plain data (see `ticks_to_rows`)."""
        now_s, rows = time.monotonic(), []
        for number, meter in enumerate(self.meter.meters):
            ticks = meter.ticks(self._since_s[number], now_s)
            if len(ticks):  # the sampler prints a tick late: ask from the last one on, and not from now
                self._since_s[number] = float(ticks.time_s[-1]) + 1e-6
            rows.append(ticks_to_rows(ticks))
        return rows


def load_entry(begin_s: float, end_s: float, meter: MeterGroup) -> Entry:
    """Return the journal entry of the load phase, from ``begin_s`` to ``end_s`` (monotonic clock, s).

    Call it when loading is over, with the meters started before it began: it waits for the next tick. The
    energy of each device is the counter's rise between both times, see `energy_between`.
    """
    deadline_s = time.monotonic() + COUNTER_LATE_S
    while time.monotonic() < deadline_s and not all(
        len(board.ticks(end_s, end_s + COUNTER_LATE_S)) for board in meter.meters
    ):
        time.sleep(POLL_S)
    devices = []
    for board in meter.meters:
        ticks = board.ticks(begin_s - LOOK_BACK_S, end_s + COUNTER_LATE_S)
        devices.append({"device": board.device, **energy_between(ticks, begin_s, end_s)})
    return {"stage": "generate", "phase": "load", "begin_s": begin_s, "end_s": end_s, "devices": devices}


def step_entry(step: Workload, model: Any, device: torch.device, number: int, meter: MeterGroup) -> Entry:
    """Return a window of one decode step of the model, on a cache that is held, and when it was taken (s).

    The span reaches until the counter has shown all of it: no phase is read from the trace within it. The step
    runs for a while before the window, so that a late counter no longer shows the rest before it.
    """
    replayer, call = Replayer(device), partial(model, **step.inputs)
    begin_s = time.monotonic()
    late_s = 0.0 if meter.modelled else LATE_S
    if late_s:
        replayer.run([call], late_s)
    measured = window(replayer, call, meter)
    end_s = time.monotonic() + late_s
    return {"step_context": step.context, "pass": number, "begin_s": begin_s, "end_s": end_s, **measured}


def loop_entries(
    generator: GreedyGenerator,
    device: torch.device,
    lengths: tuple[int, int],
    passes: Iterable[int],
    meter: MeterGroup,
    show_step: ShowStep,
) -> Generator[Entry, None, None]:
    """Yield windows of `generate` with the forward pass stubbed, of two lengths in turn; or one reason.

    ``passes`` are the numbers of the pairs.
    Close it where it is not read to its end: the model is changed until then.
    """
    replayer = Replayer(device)
    try:
        with recorded_forward(generator.model) as recording:
            generator(max(lengths), TimestampStreamer())
        with stubbed_forward(generator.model, recording):
            for number, new_tokens in itertools.product(passes, lengths):
                show_step(f"the loop of generate, {new_tokens} tokens")
                measured = window(replayer, partial(_streamed, generator, new_tokens), meter)
                yield {"loop_tokens": new_tokens, "pass": number, **measured}
    except ModelError as error:
        yield {"loop_reason": reason("loop-failed", error=error)}
    except Exception as error:
        if not no_memory_left(error):
            raise
        yield {"loop_reason": reason("no-memory-for-tokens", tokens=max(lengths))}


def _streamed(generator: GreedyGenerator, new_tokens: int) -> torch.Tensor:
    """Generate with a new streamer, as in the trace: passing tokens to it is part of the loop."""
    return generator(new_tokens, TimestampStreamer())


def text_entries(
    tokenizer: Any,
    prompts: Ids,
    generated: Ids,
    passes: int,
    meter: MeterGroup,
    show_step: ShowStep,
    earlier: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Entry]:
    """Yield windows of what the host does: tokenize the prompts' text, and turn the generated ids into text.

    The text is what the prompts' ids decode to; tokenized again, they may be another number. Without prompts, as
    where sound is read, nothing is tokenized. What is among ``earlier`` entries is not measured again.
    """
    kept = {(entry.get("phase"), entry.get("pass")) for entry in earlier}
    replayer = Replayer(torch.device("cpu"))
    calls: dict[str, tuple[Call, Ids]] = {
        "detokenize": (partial(tokenizer.batch_decode, generated, skip_special_tokens=True), generated),
    }
    if prompts:
        texts = tokenizer.batch_decode(prompts, skip_special_tokens=True)
        calls = {"tokenize": (partial(tokenizer, texts), tokenizer(texts)["input_ids"]), **calls}
    elif ("tokenize", None) not in kept:
        yield {"phase": "tokenize", "reason": reason("reads-no-text")}
    for phase, (call, ids) in calls.items():
        for number in (number for number in range(passes) if (phase, number) not in kept):
            show_step(phase)
            measured = window(replayer, call, meter)
            yield {"phase": phase, "pass": number, "tokens": sum(map(len, ids)), **measured}


def window(replayer: Replayer, call: Call, meter: MeterGroup) -> Entry:
    """Repeat a call for a window of the meter.

    Returns:
        ``windows``, each device's figures per call (see `Window`), and when the calls ``ran_s``.

    """
    calls = replayer.run([call], meter.window_s)
    if calls is None:
        return {"windows": []}  # only of a CUDA graph, and none is used here
    return {"windows": [asdict(figures) for figures in read_windows(meter, calls)], "ran_s": calls.span_s}
