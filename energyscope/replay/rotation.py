"""Rounds of calls that keep the caches as they are in the model: weights cold, inputs hot.

In the model, a component's weights come from memory, because other layers' weights went through the cache
since its last call, while its input was just written. Replaying one module over and over would keep its
weights in the L2 and understate small components by up to a third. So a round rotates over instances that
are together larger than twice the L2 cache: over the layers for a kind's mean, over copies for one layer's value.

A component that writes to its own inputs (a cache that is appended to, an activation in place) gets them restored
before each call. The cost of that inside a window is measured separately and subtracted.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from energyscope.kv_cache import caches_in, kept_by
from energyscope.replay.calls import Call
from energyscope.replay.capture import Capture
from energyscope.replay.tensors import cloned, tensors_in

MAXIMUM_COPIES = 16  # a module that needs more is so small that its weights hardly cost anything
MAXIMUM_REPEATS = 4  # of a whole kind
IDS_IN_ROTATION = 8
NOT_TOKENS = ("position", "mask", "type")  # arguments whose integers look up other, smaller tables, or none


def footprint_bytes(module: nn.Module) -> int:
    """Return the bytes of a module's parameters and buffers, shared storage counted once."""
    everything = (*module.parameters(), *module.buffers())
    tensors = {tensor.data_ptr(): tensor for tensor in everything if not tensor.is_meta}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def l2_bytes(device: torch.device) -> int | None:
    """Return the size of the device's L2 cache, None where it is not known."""
    if device.type != "cuda":
        return None
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or None


def waits_on_host(module: nn.Module) -> bool:
    """Tell whether a module's weights stay on the host and are copied to the device at every call."""
    return any(weight.is_meta for weight in module.parameters())


def copies_needed(own_bytes: int, model_bytes: int, cache_bytes: int | None) -> int:
    """Return how many instances of a module a round needs for its weights to come from memory.

    1 where the module has no weights or the whole model fits in the cache: its weights are hot there too.
    """
    if cache_bytes is None or own_bytes == 0 or model_bytes <= cache_bytes:
        return 1
    return max(1, min(MAXIMUM_COPIES, math.ceil(2 * cache_bytes / own_bytes)))


def own_round(module: nn.Module, capture: Capture, *, instances: int, kind: str) -> list[Call]:
    """Return a round over copies of one module, on its own inputs; an embedding's token ids rotate."""
    if kind == "embedding":
        return [partial(module, *args, **kwargs) for args, kwargs in _rotating_ids(module, capture)]
    copies = [copy.deepcopy(module) for _ in range(instances - 1)]
    for number, module_copy in enumerate(copies, start=1):
        _read_other_layer(module_copy, capture, number)
    return calls_of([module, *copies], capture)


def _read_other_layer(module: nn.Module, capture: Capture, number: int) -> None:
    """Let a copy read another layer's keys and values: those of its own layer would be in the L2 cache by then."""
    layers = [layer for cache in caches_in((capture.args, capture.kwargs)) for layer in cache.layers]
    shapes = [[(tensor.shape, tensor.device) for tensor in kept_by(layer)] for layer in layers]
    parts: list[Any] = list(module.modules())
    for part in parts:
        own = getattr(part, "layer_idx", None)
        if layers and isinstance(own, int):
            same_shape = [index for index, shape in enumerate(shapes) if shape == shapes[own]]
            part.layer_idx = same_shape[(same_shape.index(own) + number) % len(same_shape)]


def group_round(modules: Sequence[nn.Module], capture: Capture, *, repeats: int = 1) -> list[Call]:
    """Return a round over a kind's modules in all layers, which share one input.

    ``repeats`` above 1 adds copies of all of them, for kinds whose weights fit in the cache together.
    """
    instances = [*modules, *(copy.deepcopy(module) for _ in range(repeats - 1) for module in modules)]
    return calls_of(instances, capture)


def _rotating_ids(module: nn.Module, capture: Capture) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the captured arguments with their integer tensors replaced by other ids, several times over.

    The rows of the same ids, again and again, would be in the cache.
    """
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    if not tables:
        return [(capture.args, capture.kwargs)]
    rows = tables[0].num_embeddings  # where there are several, the tokens' own comes first
    generator = torch.Generator().manual_seed(0)

    def random_ids(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.int32) and value.dim() > 0:
            ids = torch.randint(0, rows, tuple(value.shape), generator=generator, dtype=value.dtype)
            return ids.to(value.device)
        return value

    rounds = []
    for _ in range(IDS_IN_ROTATION):
        args = tuple(random_ids(value) for value in capture.args)
        kwargs = {
            name: value if any(word in name for word in NOT_TOKENS) else random_ids(value)
            for name, value in capture.kwargs.items()
        }
        rounds.append((args, kwargs))
    return rounds


class Restored:
    """A working copy of a component's inputs, and the way back to how they were."""

    def __init__(self, capture: Capture) -> None:
        self.args, self.kwargs = cloned(capture.args), cloned(capture.kwargs)
        working = list(tensors_in((self.args, self.kwargs)))
        originals = list(tensors_in((capture.args, capture.kwargs)))
        self._pairs = [(working[position], originals[position]) for position in capture.altered]

    def restore(self) -> None:
        """Restore the inputs that are written to."""
        for working, original in self._pairs:
            working.copy_(original)

    def call(self, module: nn.Module) -> Call:
        """Return a call of the module on its inputs as they were."""

        def step() -> Any:
            self.restore()
            return module(*self.args, **self.kwargs)

        return step


def calls_of(modules: Sequence[nn.Module], capture: Capture) -> list[Call]:
    """Return a call of each module on one captured input, restored before each where it is written to."""
    if not capture.altered:
        return [partial(module, *capture.args, **capture.kwargs) for module in modules]
    restored = Restored(capture)
    return [restored.call(module) for module in modules]


def restoring(capture: Capture) -> list[Call]:
    """Return what a call does besides the component's own work: nothing, or restoring its inputs."""
    return [Restored(capture).restore] if capture.altered else []
