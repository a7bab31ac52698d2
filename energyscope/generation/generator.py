"""Real calls of ``model.generate``: settings, the time of each token, and which batch fits in memory."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import torch

from energyscope.errors import ModelError, UsageError
from energyscope.failures import no_memory_left
from energyscope.generation.timeline import GenerationTimes
from energyscope.kv_cache import CacheKind
from energyscope.loading import LoadedModel
from energyscope.reasons import Reason, reason, words
from energyscope.workloads.decoding import (
    CANNOT_GENERATE,
    can_decode,
    generation_call,
    generation_options,
    prompt_length,
    too_long,
)

if TYPE_CHECKING:
    from energyscope.workloads import Workload


@dataclass(frozen=True)
class GenerateSettings:
    """What is generated and for how long.

    ``new_tokens`` are generated from each prompt, with a KV cache of the kind ``kv_cache``. Generations follow one
    another for ``seconds``, at least ``least`` of them; the loop and the tokenizer get ``passes`` windows each.
    ``seed`` determines the random pauses between generations.
    """

    new_tokens: int = 128
    kv_cache: Literal["dynamic", "static"] = "dynamic"
    seconds: float = 12.0
    least: int = 5
    seed: int = 0
    passes: int = 5

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            UsageError: a number is too small, or there is no such cache.

        """
        if self.new_tokens < 1:
            raise UsageError(f"{self.new_tokens} new tokens are too few: use 1 or more")
        if self.kv_cache not in {"dynamic", "static"}:
            raise UsageError(f"{self.kv_cache!r} is not a KV cache to generate with: use dynamic or static")
        if not self.seconds > 0:
            raise UsageError(f"generating for {self.seconds:g} s is not possible: use more than 0")
        if self.least < 2 or self.passes < 2:
            raise UsageError("generations and passes need 2 or more each: one alone has no interval")


class TimestampStreamer:
    """A streamer for ``generate`` that keeps when each value arrived (s of the monotonic clock).

    ``generate`` copies a token to the host before it passes it on, so the device has finished it by then.
    The first value is the prompt, each further one a token of every sequence of the batch.
    """

    def __init__(self) -> None:
        self.times_s: list[float] = []

    def put(self, _value: torch.Tensor) -> None:
        """Keep the time of a value."""
        self.times_s.append(time.monotonic())

    def end(self) -> None:
        """Do nothing: the end is when ``generate`` returns."""

    @property
    def tokens_s(self) -> tuple[float, ...]:
        """When each token arrived (s)."""
        return tuple(self.times_s[1:])


class GreedyGenerator:
    """A loaded model's ``generate`` on one workload: greedy, with a KV cache, not compiled."""

    def __init__(self, loaded: LoadedModel, workload: Workload, kv_cache: CacheKind) -> None:
        self.model: Any = loaded.model
        self._generate, self.inputs = generation_call(loaded, workload)
        self.kv_cache = kv_cache
        self.batch_size = workload.batch_size
        self.prompt_tokens = workload.sequence_length
        self._begun = prompt_length(loaded, workload)

    def with_batch(self, size: int) -> Self:
        """Return a generator of the batch's first sequences."""
        smaller = copy.copy(self)
        smaller.inputs = {name: ids[:size] for name, ids in self.inputs.items()}
        smaller.batch_size = size
        return smaller

    def __call__(self, new_tokens: int, streamer: Any = None) -> torch.Tensor:
        """Generate exactly ``new_tokens`` from each sequence; return their ids, shape (batch, new_tokens)."""
        with torch.inference_mode(mode=False):  # as in anybody's script: `generate` itself switches gradients off
            ids: torch.Tensor = self._generate(
                **self.inputs,
                max_new_tokens=new_tokens,
                streamer=streamer,
                **generation_options(self.kv_cache, new_tokens),
            )
        return ids[:, self._begun :]

    def timed(self, new_tokens: int) -> tuple[GenerationTimes, torch.Tensor]:
        """Generate; return the time stamps of the generation, and the ids.

        Raises:
            ModelError: ``generate`` returned another number of tokens.

        """
        streamer = TimestampStreamer()
        begin_s = time.monotonic()
        ids = self(new_tokens, streamer)
        mark = GenerationTimes(begin_s, streamer.tokens_s, time.monotonic())
        if len(mark.tokens_s) != new_tokens:
            raise ModelError(
                f"generate made {len(mark.tokens_s)} tokens and not {new_tokens}: take out what ends it early in "
                "this model's generation settings (a time limit, or words to stop at)"
            )
        return mark, ids


def check_generation(loaded: LoadedModel, workload: Workload, settings: GenerateSettings) -> None:
    """Refuse a generation that is not possible, before anything is measured.

    Raises:
        UsageError: the model does not generate, or has too few positions.

    """
    if not can_decode(loaded):
        raise UsageError(f"{loaded.name} {CANNOT_GENERATE}: a generation needs a model that writes token by token")
    if why := too_long(loaded, prompt_length(loaded, workload), settings.new_tokens):
        raise UsageError(f"{loaded.name} cannot generate so much: {words(why)}")


def notes_of(
    loaded: LoadedModel, workload: Workload, settings: GenerateSettings, *, modelled: bool
) -> list[Reason]:
    """Return the notes on a generation, before it is measured."""
    notes = {
        "greedy-generation": True,
        "tokens-by-phase": True,
        "rates-by-phase": True,
        "decode-power-interpolated": settings.new_tokens > 2 and not modelled,
        "generate-not-compiled": settings.kv_cache == "static" and loaded.device.type == "cuda",
        "tokens-one-step-late": loaded.device.type == "mps",
        "prompt-text-decoded": workload.tokens == "synthetic" and loaded.tokenizer is not None,
        "tokenizing-on-host": not modelled and loaded.tokenizer is not None,
        "generate-loop-alone": True,
    }
    return [reason(code) for code, applies in notes.items() if applies]


def too_large(generator: GreedyGenerator, new_tokens: int, device: torch.device) -> str:
    """Return the message that a batch does not fit in memory, and which one does (see `fitting_batch`)."""
    size, prompt = generator.batch_size, generator.prompt_tokens
    each = f"({prompt} + {new_tokens})" if prompt else new_tokens
    problem = f"a batch of {size} x {each} tokens does not fit in the memory of {device}"
    fits = fitting_batch(generator, new_tokens)
    return f"{problem}: " + (
        f"a batch of {fits} does" if fits else "use a shorter prompt or generate fewer tokens"
    )


def fitting_batch(generator: GreedyGenerator, new_tokens: int) -> int | None:
    """Return a batch size that can be generated, found by halving; None where not even one sequence can."""
    size = generator.batch_size
    while size := size // 2:
        torch.cuda.empty_cache()  # does nothing on a CPU
        try:
            generator.with_batch(size)(new_tokens)
            break
        except Exception as error:
            if not no_memory_left(error):
                raise
    torch.cuda.empty_cache()
    return size or None
