"""KV caches that a forward pass leaves as it found them, so that it can be replayed.

An attention appends to its cache at every call: replayed, a dynamic cache would grow and a static one overflow,
both silently different work from one decode step. A *held* cache does the whole work of an update, with the
library's own code, and then is as it was:

    step 1:  [k0 k1 ... kN] + k   -> attention sees N + 2 keys      the cache still holds N + 1
    step 2:  [k0 k1 ... kN] + k   -> the same again

No kernel is added and nothing has to be restored: a dynamic cache gets back its references, and a static one's
counter stays, while additions go to a copy of it. A static window that is full moves all its keys up by one at
every step: they are written to a copy of it, which attention then reads. States of layers that have no keys go on
(`energyscope.recurrent_states`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import torch

from energyscope.errors import ModelError
from energyscope.model_inputs import takes
from energyscope.recurrent_states import STATES, forget_first_tokens, layer_states, put_back

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

CacheKind = Literal["dynamic", "static"]
CACHE_KINDS: tuple[CacheKind, ...] = ("dynamic", "static")
_ATTENTIONS = ("FullAttention", "SlidingWindowAttention", "StaticFullAttention", "StaticSlidingWindowAttention")
_HELD = {  # exactly these, by name (importing them takes seconds): a class of a model's own may keep more
    f"transformers.cache_utils.{name}"
    for name in (
        "DynamicCache", "StaticCache", "DynamicLayer", "DynamicSlidingWindowLayer", "StaticLayer",
        "StaticSlidingWindowLayer", "LinearAttentionLayer",
        *(f"LinearAttentionAnd{attention}Layer" for attention in _ATTENTIONS),
    )
}  # fmt: skip
_NAMES = ("past_key_values", "cache_params", STATES)  # what forwards call that which they keep from token to token


def cache_name(model: Any) -> str | None:
    """Return the name of a forward's argument for what it keeps from token to token; None if it keeps nothing."""
    return next((name for name in _NAMES if takes(model, name)), None)


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
    from transformers.cache_utils import LinearAttentionLayer, StaticLayer, StaticSlidingWindowLayer

    for part in (cache, *cache.layers):
        if f"{type(part).__module__}.{type(part).__qualname__}" not in _HELD:
            raise ModelError(
                f"this model's KV cache has a {type(part).__name__}, which replay cannot hold: "
                "use another --kv-cache, or --phase prefill without a cache"
            )
    for layer in cache.layers:
        if isinstance(layer, LinearAttentionLayer):
            forget_first_tokens(layer)
        if isinstance(layer, StaticLayer) and layer.is_initialized:
            length = layer.cumulative_length
            layer.cumulative_length = _HeldCounter(length)
            if isinstance(layer, StaticSlidingWindowLayer):  # which counts its tokens on the host, too
                _hold_window(layer)
            else:
                tokens = length if int(length) else 0  # an empty cache says 0 before it has any memory
                layer.get_seq_length = lambda tokens=tokens: tokens
        if _has_keys(layer):
            _restore_attributes(layer)
    return cache


def _hold_window(layer: Any) -> None:
    """Let the updates that fill a window, or come to a full one, write to a copy of it."""
    update = layer.update
    layer.moved = layer.keys.clone(), layer.values.clone()

    def moving(keys: torch.Tensor, values: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if layer.get_seq_length() + keys.shape[-2] <= layer.max_cache_len:
            return update(keys, values, *args, **kwargs)
        own = layer.keys, layer.values
        layer.keys, layer.values = map(_HeldStates, own, layer.moved)
        try:
            states = update(keys, values, *args, **kwargs)
        finally:
            layer.keys, layer.values = own
        return tuple(item.moved if isinstance(item, _HeldStates) else item for item in states)

    layer.update = moving


def _restore_attributes(layer: Any) -> None:
    """Let an update restore what the layer's attributes were bound to: tensors, counters and flags."""
    update = layer.update

    def held(*args: Any, **kwargs: Any) -> Any:
        before = dict(vars(layer))
        try:
            return update(*args, **kwargs)
        finally:
            vars(layer).update(before)

    layer.update = held


class _HeldCounter:
    """A counter of tokens that keeps its value: it adds to a copy, by the same kernel."""

    def __init__(self, value: torch.Tensor) -> None:
        self._value = value
        self._copy = value.clone()

    def __radd__(self, other: torch.Tensor) -> torch.Tensor:
        return other + self._value

    def add_(self, number: int) -> torch.Tensor:
        return self._copy.add_(number)


class _HeldStates:
    """Keys or values that are read as they are; what is written to them goes to ``moved``."""

    def __init__(self, own: torch.Tensor, moved: torch.Tensor) -> None:
        self._own = own
        self.moved = moved

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._own[index]

    def roll(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self._own.roll(*args, **kwargs)

    def copy_(self, states: torch.Tensor) -> torch.Tensor:
        return self.moved.copy_(states)


def caches_in(value: Any) -> Iterator[Any]:
    """Yield the KV caches in nested tuples, lists and dictionaries."""
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from caches_in(item)
    elif is_cache(value):
        yield value
    elif hasattr(value, "cross_attention_cache"):  # a decoder's own cache, and that of what its encoder made
        yield from (value.self_attention_cache, value.cross_attention_cache)


def is_cache(value: Any) -> bool:
    """Tell whether a value is a KV cache, by its layers: its class would have to be imported."""
    layers = getattr(value, "layers", None)
    return isinstance(layers, list) and all(
        _has_keys(layer) or hasattr(layer, "recurrent_states") for layer in layers
    )


def _has_keys(layer: Any) -> bool:
    return hasattr(layer, "keys") and hasattr(layer, "values")


def keeps_keys(model: PreTrainedModel) -> bool:
    """Tell whether a model keeps keys and values, at least in some layers."""
    layers = _layers_of(model)
    return cache_name(model) not in {None, STATES} and (not layers or any(map(_has_keys, layers)))


def carries_states(model: PreTrainedModel) -> bool:
    """Tell whether a model carries states from token to token, at least in some layers."""
    return cache_name(model) == STATES or any(hasattr(layer, "recurrent_states") for layer in _layers_of(model))


def _layers_of(model: PreTrainedModel) -> list[Any]:
    return [] if cache_name(model) in {None, STATES} else new_cache(model, "dynamic", positions=0).layers


@contextmanager
def states_put_back(inputs: Mapping[str, Any]) -> Iterator[None]:
    """Put the states among a forward's arguments back when the context ends; held keys and values stay anyway."""
    states = [state for cache in caches_in(inputs) for layer in cache.layers for state in layer_states(layer)]
    with put_back([*states, *(inputs.get(STATES) or ())]):
        yield


def cache_storages(value: Any) -> set[int]:
    """Return the addresses of the memory in which attention finds keys and values of caches in nested values."""
    layers = [layer for cache in caches_in(value) for layer in cache.layers]
    moved = [tensor for layer in layers for tensor in getattr(layer, "moved", ())]
    kept = [tensor for _, tensor in _kept_tensors(value)]
    return {_address(tensor) for tensor in [*kept, *moved] if tensor.numel()}


def _kept_tensors(value: Any) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the keys, values and states of the caches in nested values, each with its layer's index."""
    for cache in caches_in(value):
        for index, layer in enumerate(cache.layers):
            yield from ((index, tensor) for tensor in kept_by(layer))


def kept_by(layer: Any) -> list[torch.Tensor]:
    """Return the keys, the values and the states that a layer of a cache keeps."""
    keys = (layer.keys, layer.values) if _has_keys(layer) else ()
    return [*(tensor for tensor in keys if tensor is not None), *layer_states(layer)]


def in_cache(tensor: torch.Tensor, storages: set[int]) -> bool:
    """Tell whether a tensor lies in one of some storages, as the keys and values of a static cache do."""
    return bool(storages) and tensor.layout == torch.strided and _address(tensor) in storages


def _address(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def cache_bytes(value: Any, layers: set[int] | None = None) -> int:
    """Return the bytes that the caches in nested values keep, of all layers or of some (indices)."""
    return sum(tensor.nbytes for index, tensor in _kept_tensors(value) if layers is None or index in layers)
