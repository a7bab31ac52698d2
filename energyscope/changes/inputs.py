"""The inputs of all alternatives, and which of them are kept from pass to pass.

KV caches stay filled within a share of the memory that is free at first; what does not fit there is filled again
before each of its windows.
"""

from __future__ import annotations

from dataclasses import dataclass

from energyscope.benchmarking.context import BenchmarkCell
from energyscope.benchmarking.memory import GB, release, require_host_room
from energyscope.changes.plan import BASE, Alternative
from energyscope.errors import ModelError
from energyscope.kv_cache import cache_bytes
from energyscope.loading import LoadedModel
from energyscope.loading.devices import free_bytes
from energyscope.workloads import Evaluation, Workload, profile_inputs
from energyscope.workloads.decoding import decode_step, prompt_pass

KEPT_SHARE = 0.4  # of the memory that is free at first, for the KV caches of all alternatives
USED_SHARE = 0.9  # of the memory that is free, for one alternative

_Key = tuple[str, int, int, str | None, int]


@dataclass(frozen=True)
class StepData:
    """The data of the steps; ``new_tokens`` is the room behind the prompt in a static cache of a prefill."""

    prompt: Workload
    evaluation: Evaluation | None
    seed: int
    new_tokens: int


class Inputs:
    """Makes the inputs of alternatives, filled KV caches among them."""

    def __init__(self, loaded: LoadedModel, data: StepData) -> None:
        self.loaded = loaded
        self.data = data
        self._kept: dict[_Key, Workload] = {}
        self._kept_bytes = 0
        self._room = KEPT_SHARE * (free_bytes(loaded.device) or 0)
        self._position_bytes = 0.0  # of the KV cache of one token; known from the first decode step

    def __contains__(self, alternative: Alternative) -> bool:
        """Return whether an alternative's inputs are kept, and need not be made again."""
        return _key(alternative) in self._kept

    def clear(self) -> None:
        """Drop all that is kept."""
        self._kept.clear()

    def get(self, alternative: Alternative) -> Workload:
        """Return an alternative's inputs, kept or made anew; those of a base and of compiled code are always kept.

        Raises:
            ModelError: they do not fit, with how much would.

        """
        key = _key(alternative)
        if key in self._kept:
            return self._kept[key]
        self._require_room(alternative)
        workload = self.make(alternative)
        held = cache_bytes(workload.inputs)
        if alternative.phase == "decode":
            self._position_bytes = held / (alternative.batch_size * (alternative.context_length + 1))
        if alternative.what in {BASE, "execution"} or self._kept_bytes + held <= self._room:
            self._kept[key] = workload
            self._kept_bytes += held
        return workload

    def make(self, alternative: Alternative) -> Workload:
        """Return an alternative's inputs, made anew."""
        prompt, data = self.data.prompt, self.data
        if alternative.phase == "decode":
            return decode_step(
                self.loaded,
                batch_size=alternative.batch_size,
                context_length=alternative.context_length,
                kv_cache=alternative.kv_cache or "dynamic",
                evaluation=data.evaluation,
                seed=data.seed,
                proposed=alternative.proposed,
            )
        if alternative.batch_size != prompt.batch_size:
            prompt = profile_inputs(
                self.loaded,
                batch_size=alternative.batch_size,
                sequence_length=alternative.context_length,
                evaluation=data.evaluation,
                seed=data.seed,
            )
        if alternative.kv_cache is None:
            return prompt
        return prompt_pass(self.loaded, prompt, kv_cache=alternative.kv_cache, new_tokens=data.new_tokens)

    def _require_room(self, alternative: Alternative) -> None:
        """Refuse what cannot fit, before the device or the host runs out of memory.

        Raises:
            ModelError: it does not fit, with how much would.

        """
        tokens = 1 if alternative.phase == "decode" else alternative.context_length
        try:
            require_host_room(self.loaded, BenchmarkCell(self.loaded.precision, alternative.batch_size, tokens))
        except MemoryError as error:
            raise ModelError(f"it does not fit: {error}") from error
        if alternative.phase == "prefill":
            return
        needed = self._position_bytes * alternative.batch_size * (alternative.context_length + 1)
        free = free_bytes(self.loaded.device)
        if free is not None and needed > USED_SHARE * free:
            release(self.loaded.device)
            free = free_bytes(self.loaded.device) or free
            if needed > USED_SHARE * free:
                raise ModelError(does_not_fit(alternative, needed, free))


def does_not_fit(alternative: Alternative, needed: float, free: float) -> str:
    """Return the message how much memory (bytes) the cache of a decode step needs, and what would fit."""
    share = USED_SHARE * free / needed
    fits = f"a context of about {int(share * alternative.context_length):,} would"
    if alternative.what == "batch_size":
        size = int(share * alternative.batch_size)
        fits = f"a batch of about {size} would" if size else "no batch would"
    return f"its KV cache needs {needed / GB:.1f} GB and {free / GB:.1f} GB are free: {fits} fit"


def _key(alternative: Alternative) -> _Key:
    shape = alternative.batch_size, alternative.context_length
    return alternative.phase, *shape, alternative.kv_cache, alternative.proposed
