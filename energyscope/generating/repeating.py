"""What is too short for a trace, or not in it by itself: repeated in windows of the meter, as plain entries."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from collections.abc import Generator as Yielding
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from energyscope.errors import ModelError
from energyscope.failures import no_memory_left
from energyscope.generating.calling import Generator, Stamps
from energyscope.generating.repeated import LATE_S
from energyscope.generating.standin import recording, standing_in
from energyscope.metering.group import MeterGroup
from energyscope.metering.settled import windows_of
from energyscope.reasons import reason
from energyscope.replay.calls import Call
from energyscope.replay.replayer import Replayer

if TYPE_CHECKING:
    from energyscope.workloads import Workload

Entries = Yielding[dict[str, Any], None, None]
Say = Callable[[str], None]  # what is done next
Ids = Sequence[Sequence[int]]


def loop_entries(
    generator: Generator, device: torch.device, lengths: tuple[int, int], passes: int, meter: MeterGroup, say: Say
) -> Entries:
    """Yield windows of `generate` with the forward pass bypassed, of two lengths in turn; else one reason.

    Close it where it is not read to its end: the model is changed until then.
    """
    replayer = Replayer(device)
    try:
        with recording(generator.model) as recorded:
            generator(max(lengths), Stamps())
        with standing_in(generator.model, recorded):
            for number, new_tokens in itertools.product(range(passes), lengths):
                say(f"the loop of generate, {new_tokens} tokens")
                call = partial(_streamed, generator, new_tokens)
                yield {"loop_tokens": new_tokens, "pass": number, "windows": window(replayer, call, meter)}
    except ModelError as error:
        yield {"loop_reason": reason("loop-failed", error=error)}
    except Exception as error:
        if not no_memory_left(error):
            raise
        yield {"loop_reason": reason("no-memory-for-tokens", tokens=max(lengths))}


def step_entry(step: Workload, model: Any, device: torch.device, number: int, meter: MeterGroup) -> dict[str, Any]:
    """Return a window of one decode step of the model, on a cache that is held, and when it was taken (s).

    The span reaches until the counter has shown all of it: nothing else is to be read from the trace in it. The
    step runs for a while before the window, until a late counter shows no rest any more.
    """
    replayer, call = Replayer(device), partial(model, **step.inputs)
    begin_s = time.monotonic()
    late_s = 0.0 if meter.modelled else LATE_S
    if late_s:
        replayer.run([call], late_s)
    windows = window(replayer, call, meter)
    end_s = time.monotonic() + late_s
    return {
        "step_context": step.context,
        "pass": number,
        "begin_s": begin_s,
        "end_s": end_s,
        "windows": windows,
    }


def text_entries(tokenizer: Any, given: dict[str, Ids], passes: int, meter: MeterGroup, say: Say) -> Entries:
    """Yield windows of what the host does: ``given`` has the ids of ``tokenize`` and those of ``detokenize``."""
    replayer = Replayer(torch.device("cpu"))
    for name, ids in given.items():
        call, tokens = WAYS[name](tokenizer, ids)
        for number in range(passes):
            say(name)
            yield {"phase": name, "pass": number, "tokens": tokens, "windows": window(replayer, call, meter)}


def tokenizing(tokenizer: Any, prompts: Ids) -> tuple[Call, int]:
    """Return a call that tokenizes the text of prompts, and how many tokens it gives.

    The text is what the prompts' ids decode to; tokenized again, they may be another number.
    """
    texts = tokenizer.batch_decode(prompts, skip_special_tokens=True)

    def call() -> Any:
        return tokenizer(texts)

    return call, sum(len(ids) for ids in call()["input_ids"])


def detokenizing(tokenizer: Any, generated: Ids) -> tuple[Call, int]:
    """Return a call that turns generated ids into text, and how many ids these are."""

    def call() -> Any:
        return tokenizer.batch_decode(generated, skip_special_tokens=True)

    return call, sum(len(ids) for ids in generated)


WAYS: dict[str, Callable[[Any, Ids], tuple[Call, int]]] = {"tokenize": tokenizing, "detokenize": detokenizing}


def window(replayer: Replayer, call: Call, meter: MeterGroup) -> list[dict[str, Any]]:
    """Repeat a call for a window of the meter; return each device's figures per call (see `Window`)."""
    calls = replayer.run([call], meter.window_s)
    if calls is None:
        return []  # only of a CUDA graph, and none is used here
    return [asdict(figures) for figures in windows_of(meter, calls)]


def _streamed(generator: Generator, new_tokens: int) -> torch.Tensor:
    """Generate with a streamer of its own, as in the trace: handing tokens over is part of the loop."""
    return generator(new_tokens, Stamps())
