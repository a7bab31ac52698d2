"""Set alternatives up on the model itself and replay them, so that a window holds nothing but the step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch

from energyscope.benchmarking.memory import release
from energyscope.changes import lookup
from energyscope.changes.acceptance import Acceptance
from energyscope.changes.attention import switched_attention
from energyscope.changes.compiling import Compiled, expected_seconds, no_recompiling, reset_compiler
from energyscope.changes.inputs import Inputs, StepData
from energyscope.changes.plan import BASE, Alternative
from energyscope.loading import LoadedModel
from energyscope.metering.ticks import Calls
from energyscope.replay.calls import Call, no_garbage_collection
from energyscope.replay.capture import forward_inputs
from energyscope.replay.graph_inputs import without_full_mask
from energyscope.replay.graphs import GraphRound
from energyscope.replay.marks import Clock
from energyscope.replay.replayer import Execution as ReplayExecution
from energyscope.replay.replayer import Replayer
from energyscope.workloads import Workload

FILLED_AGAIN_S = 2.0


@dataclass(frozen=True)
class Prepared:
    """How long an alternative takes (s).

    ``setup_s`` is the capture of a graph or the compilation, None where there is none; ``again_s`` what has to be
    repeated before each window; ``call_s`` one step. ``reasons`` are notes for its row, and ``acceptance`` is what
    prompt lookup gets accepted.
    """

    setup_s: float | None
    again_s: float
    call_s: float
    reasons: tuple[str, ...] = ()
    acceptance: Acceptance | None = None


class AlternativeRunner:
    """Prepares and runs alternatives on one model, and leaves it as it was; ``clock`` times them on the host."""

    def __init__(self, loaded: LoadedModel, data: StepData, *, clock: Clock | None = None) -> None:
        self.loaded = loaded
        self._clock = clock
        self._inputs = Inputs(loaded, data)
        self._compiled: dict[str, Compiled] = {}
        self._lookup = lookup.PromptLookup(loaded, data.evaluation)
        self._tokens_per_s = 0.0  # at which caches are filled, the fastest so far
        self._step_s = 0.0  # of decoding, in the run's own setting

    def prepare(self, alternative: Alternative) -> Prepared:
        """Set an alternative up once: tokens, filled cache, graph or compiled code.

        Raises:
            ModelError: it cannot be done on this model or does not fit, with the reason.

        """
        was_kept = alternative in self._inputs
        begin = time.monotonic()
        workload = self._inputs.get(alternative)
        self.synchronize()
        filled_s = time.monotonic() - begin
        again_s = 0.0 if alternative in self._inputs else filled_s
        if alternative.phase == "decode" and not was_kept:
            self._learn_rate(alternative, filled_s)
        with switched_attention(self.loaded.model, alternative.attention), self._current():
            setup_s = self._set_up(alternative, workload)
            call_s = self._call_seconds(alternative, workload)
            acceptance = (
                self._lookup.accepted(alternative.proposed, alternative.context_length)
                if alternative.proposed
                else None
            )
        if alternative.what == BASE and alternative.phase == "decode":
            self._step_s = call_s
        compiled = self._compiled.get(alternative.key)
        return Prepared(setup_s, again_s, call_s, tuple(compiled.notes) if compiled else (), acceptance)

    def expected_seconds(self, alternative: Alternative) -> float:
        """Return about how long setting up takes (s): compiling, writing texts, or filling a cache."""
        if alternative.execution == "torch-compile":
            return expected_seconds(self.loaded)
        texts_s = 0.0
        if alternative.proposed:
            texts_s = lookup.expected_seconds(self._step_s, first=not self._lookup.begun)
        if not self._tokens_per_s or alternative in self._inputs:
            return texts_s
        return texts_s + alternative.batch_size * alternative.context_length / self._tokens_per_s

    def _learn_rate(self, alternative: Alternative, filled_s: float) -> None:
        """Note how fast caches are filled; the first filling also loads kernels, so a short one is done again."""
        if not self._tokens_per_s and filled_s < FILLED_AGAIN_S:
            begin = time.monotonic()
            self._inputs.make(alternative)
            self.synchronize()
            filled_s = time.monotonic() - begin
        rate = alternative.batch_size * alternative.context_length / max(filled_s, 1e-6)
        self._tokens_per_s = max(self._tokens_per_s, rate)

    def run(self, alternative: Alternative, seconds: float) -> Calls | None:
        """Replay an alternative for some seconds; it is set up before the first call.

        Raises:
            NotCapturableError: it cannot be held in a CUDA graph.

        """
        workload = self._inputs.get(alternative)
        execution: ReplayExecution = "cuda-graph" if alternative.execution == "cuda-graph" else "eager"
        replayer = Replayer(self.loaded.device, execution, clock=self._clock)
        guard = no_recompiling() if alternative.execution == "torch-compile" else nullcontext()
        with switched_attention(self.loaded.model, alternative.attention), guard:
            return replayer.run([self._call(alternative, workload)], seconds)

    def synchronize(self) -> None:
        """Wait until every device has finished its queue."""
        for device in self.loaded.devices:
            Replayer(device).synchronize()

    def own_bytes(self) -> list[int | None]:
        """Return the memory (bytes) that this process holds on each device; None on the CPU."""
        return [Replayer(device).own_bytes() for device in self.loaded.devices]

    @contextmanager
    def cleaned_up(self) -> Iterator[None]:
        """Free compiled code and caches when the context ends."""
        try:
            yield
        finally:
            if self._compiled:
                self._compiled.clear()
                reset_compiler()
            self._inputs.clear()
            release(self.loaded.device)

    def drop(self, alternative: Alternative) -> None:
        """Free what an alternative that failed has set up."""
        if self._compiled.pop(alternative.key, None) is not None:
            reset_compiler()
        release(self.loaded.device)

    def _set_up(self, alternative: Alternative, workload: Workload) -> float | None:
        if alternative.execution == "torch-compile":
            try:
                self._compiled[alternative.key] = Compiled(self.loaded, workload)
            except BaseException:
                reset_compiler()
                raise
            return self._compiled[alternative.key].setup_s
        if alternative.execution == "cuda-graph":
            begin = time.monotonic()
            with torch.no_grad(), no_garbage_collection():
                GraphRound([self._call(alternative, workload)], self.loaded.device, unrolled=False)
            return time.monotonic() - begin
        return None

    def _call(self, alternative: Alternative, workload: Workload) -> Call:
        if alternative.execution == "torch-compile":
            return self._compiled[alternative.key].call
        inputs = workload.inputs if alternative.execution == "eager" else without_full_mask(workload.inputs)
        return partial(self.loaded.model, **forward_inputs(self.loaded.model, inputs))

    @torch.no_grad()
    def _call_seconds(self, alternative: Alternative, workload: Workload) -> float:
        """Return how long a step takes from Python (s), with the device synchronised; the second of two."""
        call = self._call(alternative, workload)
        begin = 0.0
        for _ in range(2):
            self.synchronize()
            begin = time.monotonic()
            call()
            self.synchronize()
        return time.monotonic() - begin

    def _current(self) -> AbstractContextManager[None]:
        """Make the device the current one, as it is in a window: graphs and compiled kernels are made there."""
        device = self.loaded.device
        return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
