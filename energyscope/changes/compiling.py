"""A step or a pass through `torch.compile`, with the model left as it is.

A compiled step needs a static KV cache that a compiler can trace. That of a replayed step hides its counter (see
`energyscope.kv_cache`); here the library's own update runs on a copy of the counter, which the compiler drops, and
the addition goes to a tensor beside it: the same work, and the cache keeps its length.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from energyscope.errors import ModelError
from energyscope.kv_cache import cache_name, carries_states, keeps_keys, new_cache
from energyscope.loading import LoadedModel
from energyscope.reasons import reason
from energyscope.replay.calls import Call
from energyscope.replay.capture import forward_inputs
from energyscope.replay.graph_inputs import without_full_mask
from energyscope.workloads.decoding import can_generate
from energyscope.workloads.timed import Workload

FIRST_CALLS = 3  # the first compiles; a second compilation, for what the first call changed, would come by then
BASE_S = {"cuda": 8.0, "cpu": 15.0}
LAYER_S = {"cuda": 0.8, "cpu": 2.0}  # layers are compiled one by one: five took 16 s on a CPU


class Compiled:
    """A compiled forward and the call of it.

    ``setup_s`` is what the first calls took beyond the later ones: less where the compiler's cache on disk has the
    code of an earlier run. ``notes`` are notes for its row.
    """

    def __init__(self, loaded: LoadedModel, workload: Workload) -> None:
        from torch._dynamo.utils import counters

        inputs = compilable_inputs(loaded, workload)
        counters.clear()
        self.call: Call = partial(torch.compile(loaded.model.forward), **inputs)
        self.setup_s = _first_calls(self.call, loaded.device)
        parts = int(counters["stats"]["unique_graphs"])
        self.notes = [reason("compiled-in-parts", parts=parts)] if parts > 1 else []


def reset_compiler() -> None:
    """Drop everything that was compiled."""
    torch.compiler.reset()


def expected_seconds(loaded: LoadedModel) -> float:
    """Return about how long compiling a step of a model takes (s), by its layers."""
    config: Any = loaded.model.config
    layers = int(getattr(config.get_text_config(), "num_hidden_layers", 0) or 0)
    return BASE_S[loaded.device.type] + LAYER_S[loaded.device.type] * layers


@contextmanager
def no_recompiling() -> Iterator[None]:
    """Let a compilation within a window fail: it would be measured as if it were the step."""
    with torch.compiler.set_stance("fail_on_recompile"):
        yield


def _first_calls(call: Call, device: torch.device) -> float:
    """Make the first calls like the later ones; return the seconds beyond those of plain calls."""
    seconds = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on other modes
        for _ in range(FIRST_CALLS):
            begin = time.monotonic()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.monotonic() - begin)
    return max(sum(seconds) - FIRST_CALLS * seconds[-1], 0.0)


def compilable_inputs(loaded: LoadedModel, workload: Workload) -> dict[str, Any]:
    """Return a workload's inputs for a compiled forward: without a mask of ones, on a cache that can be traced.

    Raises:
        ModelError: there is no such cache for this model.

    """
    inputs = without_full_mask(workload.inputs)
    if workload.context_length is None:
        return forward_inputs(loaded.model, inputs)
    if not can_generate(loaded):
        raise ModelError("the cache of a decoder beside an encoder cannot be compiled here")
    if not keeps_keys(loaded.model):  # its states have a fixed size, and a compiler can trace their updates
        return inputs
    if carries_states(loaded.model):
        raise ModelError("it keeps keys and values and carries states, and no cache of both can be compiled here")
    name = str(cache_name(loaded.model))
    return {**inputs, name: compilable_cache(loaded, inputs[name], workload.context_length)}


@torch.no_grad()
def compilable_cache(loaded: LoadedModel, held: Any, length: int) -> Any:
    """Return a static cache for a compiler over the memory of a held one; its length stays ``length``."""
    fresh = new_cache(loaded.model, "static", positions=length + 1)
    kind = _compilable_layer()
    for layer, filled in zip(fresh.layers, held.layers, strict=True):
        layer.lazy_initialization(filled.keys, filled.values)
        layer.keys, layer.values = filled.keys, filled.values
        layer.cumulative_length.fill_(length)
        layer.running_length = layer.cumulative_length.clone()
        layer.__class__ = kind
    return fresh


@functools.cache
def _compilable_layer() -> Any:
    """Return the library's static layer with a constant counter; made late, since its import takes seconds."""
    from transformers.cache_utils import StaticLayer

    class CompilableLayer(StaticLayer):  # type: ignore[misc]
        cumulative_length: torch.Tensor
        running_length: torch.Tensor

        def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            counter = self.cumulative_length
            self.cumulative_length = counter.clone()
            updated = super().update(key_states, value_states, *args, **kwargs)
            self.cumulative_length = counter
            self.running_length.add_(key_states.shape[-2])
            return updated

    return CompilableLayer
