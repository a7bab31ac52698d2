"""Rounds of calls that keep the caches as they are in the model: weights cold, inputs hot.

In the model, a component's weights come from memory, because other layers' weights went through the cache
since its last call, while its input was just written. Replaying one module over and over would keep its
weights in the L2 and understate small components by up to a third. So a round rotates over instances that
are together beyond twice the L2 cache: over the layers for a kind's mean, over copies for one layer's value.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from energyscope.kv_cache import caches_in
from energyscope.replay.calls import Call
from energyscope.replay.capture import Capture
from energyscope.replay.restore import calls_of

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
    """Tell whether weights of a module are copied to the device at every call: none is there in between."""
    return any(weight.is_meta for weight in module.parameters())


def copies_needed(own_bytes: int, model_bytes: int, cache_bytes: int | None) -> int:
    """Return how many instances of a module a round needs for its weights to come from memory.

    1 where the module has no weights or the whole model fits in the cache: it would be hot there too.
    """
    if cache_bytes is None or own_bytes == 0 or model_bytes <= cache_bytes:
        return 1
    return max(1, min(MAXIMUM_COPIES, math.ceil(2 * cache_bytes / own_bytes)))


def own_round(module: nn.Module, capture: Capture, *, instances: int, kind: str) -> list[Call]:
    """Return a round over copies of one module, on its own inputs; an embedding's token ids rotate."""
    if kind == "embedding":
        return [partial(module, *args, **kwargs) for args, kwargs in _rotating_ids(module, capture)]
    copies = [module, *(copy.deepcopy(module) for _ in range(instances - 1))]
    for number, module_copy in enumerate(copies):
        _turn_cache(module_copy, capture, number)
    return calls_of(copies, capture)


def _turn_cache(module: nn.Module, capture: Capture, number: int) -> None:
    """Let a copy read another layer's keys and values: those of its own layer would be in the cache by then."""
    layers = [layer for cache in caches_in((capture.args, capture.kwargs)) for layer in cache.layers]
    parts: list[Any] = list(module.modules())
    for part in parts:
        own = getattr(part, "layer_idx", None)
        if number and layers and isinstance(own, int):
            alike = [place for place, layer in enumerate(layers) if _shape(layer) == _shape(layers[own])]
            part.layer_idx = alike[(alike.index(own) + number) % len(alike)]


def _shape(layer: Any) -> Any:
    return None if layer.keys is None else (layer.keys.shape, layer.keys.device)


def group_round(modules: Sequence[nn.Module], capture: Capture, *, repeats: int = 1) -> list[Call]:
    """Return a round over a kind's modules in all layers, which share one input.

    ``repeats`` above 1 adds copies of all of them, for kinds whose weights fit in the cache together.
    """
    instances = [*modules, *(copy.deepcopy(module) for _ in range(repeats - 1) for module in modules)]
    return calls_of(instances, capture)


def _rotating_ids(module: nn.Module, capture: Capture) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the captured arguments with their integer tensors replaced by other ids, several times over.

    The same ids again and again would find their rows in the cache.
    """
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    if not tables:
        return [(capture.args, capture.kwargs)]
    rows = tables[0].num_embeddings  # where there are several, the tokens' own comes first
    generator = torch.Generator().manual_seed(0)

    def other(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.int32) and value.dim() > 0:
            ids = torch.randint(0, rows, tuple(value.shape), generator=generator, dtype=value.dtype)
            return ids.to(value.device)
        return value

    rounds = []
    for _ in range(IDS_IN_ROTATION):
        args = tuple(other(value) for value in capture.args)
        kwargs = {
            name: value if any(word in name for word in NOT_TOKENS) else other(value)
            for name, value in capture.kwargs.items()
        }
        rounds.append((args, kwargs))
    return rounds
