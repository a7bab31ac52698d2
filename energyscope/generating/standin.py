"""The model's forward pass, exchanged for one that returns recorded outputs: the loop of `generate` is left.

The loop prepares inputs, processes logits, takes the largest, appends it, asks whether to stop and hands the token
over. It looks at the KV cache while it does: so each call puts the cache's layers in the state that the real pass
left them in, with keys and values of the right shape that hold no memory. One layer of each kind is enough, as
`generate` asks no others.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from energyscope.errors import ModelError
from energyscope.functions import exchanged_forward

CACHE = "past_key_values"
State = dict[int, dict[str, Any]]  # of layers, by their numbers


@dataclass
class Recording:
    """What each forward pass of one generation left: outputs without their cache, and the cache's state."""

    outputs: list[Any] = field(default_factory=list)  # of the prefill and of one decode step
    states: list[State] = field(default_factory=list)  # of each pass


@contextmanager
def recording(model: nn.Module) -> Iterator[Recording]:
    """Record the forward passes of the first generation within the context."""
    recorded, original = Recording(), model.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        cache: Any = getattr(output, CACHE, None)
        if not getattr(cache, "layers", None):
            raise ModelError(f"{type(model).__name__} keeps no cache in layers, and its loop cannot be run alone")
        if len(recorded.outputs) < 2:
            recorded.outputs.append(_without_cache(output))
        recorded.states.append({number: _state(cache.layers[number]) for number in _kinds(cache)})
        return output

    with exchanged_forward(model, forward):
        yield recorded


def _without_cache(output: Any) -> Any:
    copied = copy.copy(output)
    copied[CACHE] = None
    copied.logits = output.logits.detach().clone()
    return copied


def _kinds(cache: Any) -> list[int]:
    """Return the number of the first layer of each kind."""
    first: dict[type, int] = {}
    for number, layer in enumerate(cache.layers):
        first.setdefault(type(layer), number)
    return list(first.values())


def _state(layer: Any) -> dict[str, Any]:
    return {name: _shape_of(value) for name, value in vars(layer).items()}


def _shape_of(value: Any) -> Any:
    """Return a tensor of the same shape without memory of its own; what is small as a copy."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.numel() <= 1:
        return value.detach().clone()
    return torch.zeros((), dtype=value.dtype, device=value.device).expand(value.shape)


@contextmanager
def standing_in(model: nn.Module, recorded: Recording) -> Iterator[None]:
    """Let recorded outputs stand in for the model's forward passes, of generations as long as the recorded one."""
    with exchanged_forward(model, _replaying(model.forward, recorded)):
        yield


def _replaying(original: Callable[..., Any], recorded: Recording) -> Callable[..., Any]:
    first, later = recorded.outputs[0], recorded.outputs[-1]
    states = recorded.states
    last: list[Any] = [None, 0]  # the cache of the generation that runs, and its passes so far

    @functools.wraps(original)  # `generate` looks at its signature
    def forward(*_args: Any, **kwargs: Any) -> Any:
        cache = kwargs[CACHE]
        number = last[1] if cache is last[0] else 0
        last[:] = cache, number + 1
        _put(cache.layers, states[number])
        output = later if number else first
        output[CACHE] = cache
        return output

    return forward


def _put(layers: Any, state: Mapping[int, Mapping[str, Any]]) -> None:
    for number, attributes in state.items():
        vars(layers[number]).update(attributes)
