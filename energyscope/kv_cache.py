"""KV caches that a forward pass leaves as it found them, so that it can be replayed.

An attention appends to its cache at every call: replayed, a dynamic cache would grow and a static one run over its
end, both silently other work than one decode step. A *held* cache does the whole work of an update, with the
library's own code, and then is as it was:

    step 1:  [k0 k1 ... kN] + k   -> attention sees N + 2 keys      the cache still holds N + 1
    step 2:  [k0 k1 ... kN] + k   -> the same again

No kernel is added and nothing has to be restored: a dynamic cache gets back its references, and the counter of a
static one stands while its additions go to a tensor beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch

from energyscope.errors import ModelError

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

CacheKind = Literal["dynamic", "static"]
CACHE_KINDS: tuple[CacheKind, ...] = ("dynamic", "static")


def new_cache(model: PreTrainedModel, kind: CacheKind, *, positions: int) -> Cache:
    """Return an empty KV cache as `generate` makes it; ``positions`` is how many tokens a static one can hold."""
    from transformers import DynamicCache, StaticCache

    if kind == "static":
        return StaticCache(config=model.config, max_cache_len=positions)
    return DynamicCache(config=model.config)


def hold(cache: Cache) -> Cache:
    """Make every update of a cache leave it as it is now; returns the same cache.

    Raises:
        ModelError: it has layers of a kind that cannot be held.

    """
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, StaticLayer

    for layer in cache.layers:
        if type(layer) not in {DynamicLayer, DynamicSlidingWindowLayer, StaticLayer}:
            raise ModelError(
                f"this model's KV cache has a {type(layer).__name__}, which replay cannot hold: "
                "use another --kv-cache, or --phase prefill without a cache"
            )
    for layer in cache.layers:
        if isinstance(layer, StaticLayer) and layer.is_initialized:
            _let_stand(layer)
        _return_references(layer)
    return cache


def _return_references(layer: Any) -> None:
    """Let an update bring back what the layer's attributes were bound to: tensors, counters and flags."""
    update = layer.update

    def held(*args: Any, **kwargs: Any) -> Any:
        before = dict(vars(layer))
        try:
            return update(*args, **kwargs)
        finally:
            vars(layer).update(before)

    layer.update = held


def _let_stand(layer: Any) -> None:
    """Let a static layer count its tokens beside its counter: the same kernel, another tensor."""
    length = layer.cumulative_length
    tokens = length if int(length) else 0  # `generate` asks an empty cache before it has any memory: it says 0
    layer.cumulative_length = _Standing(length)
    layer.get_seq_length = lambda: tokens


class _Standing:
    """A counter that is read as what it was, and adds elsewhere."""

    def __init__(self, value: torch.Tensor) -> None:
        self._value = value
        self._beside = value.clone()

    def __radd__(self, other: torch.Tensor) -> torch.Tensor:
        return other + self._value

    def add_(self, number: int) -> torch.Tensor:
        return self._beside.add_(number)


def caches_in(value: Any) -> Iterator[Any]:
    """Yield the KV caches in nested tuples, lists and dictionaries."""
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from caches_in(item)
    elif is_cache(value):
        yield value


def is_cache(value: Any) -> bool:
    """Tell whether a value is a KV cache; by its parts, since the class would have to be imported."""
    layers = getattr(value, "layers", None)
    return isinstance(layers, list) and all(
        hasattr(layer, "keys") and hasattr(layer, "values") for layer in layers
    )


def kept_storages(value: Any) -> set[int]:
    """Return the addresses of the memory that the caches in nested values keep their keys and values in."""
    layers = [layer for cache in caches_in(value) for layer in cache.layers]
    tensors = [tensor for layer in layers for tensor in (layer.keys, layer.values)]
    return {_address(tensor) for tensor in tensors if tensor is not None and tensor.numel()}


def is_kept(tensor: torch.Tensor, storages: set[int]) -> bool:
    """Tell whether a tensor lies in one of some storages, as the keys and values of a static cache do."""
    return bool(storages) and tensor.layout == torch.strided and _address(tensor) in storages


def _address(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def cache_bytes(value: Any, layers: set[int] | None = None) -> int:
    """Return the bytes that the caches in nested values keep, of all layers or of some (indices)."""
    return sum(
        tensor.nbytes
        for cache in caches_in(value)
        for index, layer in enumerate(cache.layers)
        if layers is None or index in layers
        for tensor in (layer.keys, layer.values)
        if tensor is not None
    )
