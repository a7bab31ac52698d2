"""Real calls of ``model.generate``, each with a fixed number of new tokens, and when each token was there."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, Self

import torch

from energyscope.errors import ModelError, UsageError
from energyscope.generating.marks import Mark
from energyscope.generating.settings import GenerateSettings
from energyscope.kv_cache import CacheKind
from energyscope.loading import LoadedModel
from energyscope.reasons import words
from energyscope.workloads.decoding import CANNOT_GENERATE, can_generate, generation_options, too_long

if TYPE_CHECKING:
    from energyscope.workloads import Workload

INPUTS = ("input_ids", "attention_mask")


class Stamps:
    """A streamer for ``generate`` that keeps when each value came (s of the monotonic clock).

    ``generate`` copies a token to the host before it hands it over, so that the device has finished it by then.
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
        """When each token was there (s)."""
        return tuple(self.times_s[1:])


class Generator:
    """A loaded model's ``generate`` on one workload: greedy, with a KV cache, not compiled."""

    def __init__(self, loaded: LoadedModel, workload: Workload, kv_cache: CacheKind) -> None:
        self.model: Any = loaded.model
        self.inputs = {name: workload.inputs[name] for name in INPUTS}
        self.kv_cache = kv_cache
        self.batch_size = workload.batch_size
        self.prompt_tokens = workload.sequence_length

    def of_batch(self, size: int) -> Self:
        """Return the same for the first sequences of the batch."""
        part = copy.copy(self)
        part.inputs = {name: ids[:size] for name, ids in self.inputs.items()}
        part.batch_size = size
        return part

    def __call__(self, new_tokens: int, streamer: Any = None) -> torch.Tensor:
        """Generate exactly ``new_tokens`` from each sequence; return their ids, shape (batch, new_tokens)."""
        with torch.inference_mode(mode=False):  # as for whoever calls it: `generate` itself switches gradients off
            ids: torch.Tensor = self.model.generate(
                **self.inputs,
                max_new_tokens=new_tokens,
                streamer=streamer,
                **generation_options(self.kv_cache, new_tokens),
            )
        return ids[:, self.prompt_tokens :]

    def marked(self, new_tokens: int) -> tuple[Mark, torch.Tensor]:
        """Generate, and return when what happened, with the ids.

        Raises:
            ModelError: another number of tokens came.

        """
        stamps = Stamps()
        begin_s = time.monotonic()
        ids = self(new_tokens, stamps)
        mark = Mark(begin_s, stamps.tokens_s, time.monotonic())
        if len(mark.tokens_s) != new_tokens:
            raise ModelError(
                f"generate made {len(mark.tokens_s)} tokens and not {new_tokens}: take out what ends it early in "
                "this model's generation settings (a time limit, or words to stop at)"
            )
        return mark, ids


def check_generation(loaded: LoadedModel, workload: Workload, settings: GenerateSettings) -> None:
    """Refuse what cannot be generated, before anything is measured.

    Raises:
        UsageError: the model does not generate, or has too few positions.

    """
    if not can_generate(loaded):
        raise UsageError(f"{loaded.name} {CANNOT_GENERATE}: a generation needs a next-token model")
    if why := too_long(loaded, workload.sequence_length, settings.new_tokens):
        raise UsageError(f"{loaded.name} cannot generate so much: {words(why)}")
