"""Stub the model's forward pass with recorded outputs, so that only the loop of `generate` is left.

The loop prepares inputs, processes logits, takes the largest, appends it, asks whether to stop and streams the
token. It reads the KV cache while it does: so each call puts the cache's layers in the state that the real pass
left them in, with keys and values of the right shape that hold no memory. One layer of each kind is enough, as
`generate` asks no others. Where `generate` has an encoder read first, what it made is recorded too.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from energyscope.errors import ModelError
from energyscope.functions import exchanged_forward
from energyscope.kv_cache import cache_name, caches_in

Forward = Callable[..., Any]


@dataclass
class Recording:
    """The results of each forward pass of one generation: outputs without their cache, and the cache's state."""

    outputs: list[Any] = field(default_factory=list)  # of the prefill and of one decode step
    encoded: Any = None  # what an encoder made of what it read
    states: list[dict[int, dict[str, Any]]] = field(default_factory=list)  # of each pass: attributes by layer


@contextmanager
def recorded_forward(model: nn.Module) -> Iterator[Recording]:
    """Record the forward passes of the first generation within the context.

    Raises:
        ModelError: at a forward pass that returns no cache in layers.

    """
    recording, original = Recording(), model.forward
    name = str(cache_name(model))

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        layers = _layers(getattr(output, name, None))
        if not layers:
            raise ModelError(f"{type(model).__name__} keeps no cache in layers, and its loop cannot be run alone")
        if len(recording.outputs) < 2:
            recording.outputs.append(_without_cache(output, name))
        first_of_kind = {type(layer): number for number, layer in reversed(list(enumerate(layers)))}
        recording.states.append(
            {
                number: {name: _shape_of(value) for name, value in vars(layers[number]).items()}
                for number in first_of_kind.values()
            }
        )
        return output

    def encode(own: Forward, *args: Any, **kwargs: Any) -> Any:
        recording.encoded = own(*args, **kwargs)
        return recording.encoded

    with exchanged_forward(model, forward), _exchanged_encoder(model, encode):
        yield recording


@contextmanager
def _exchanged_encoder(model: Any, encode: Forward) -> Iterator[None]:
    """Replace the forward of the encoder that `generate` calls by itself, where there is one.

    Its own is the first argument of what replaces it.
    """
    if not getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        yield
        return
    encoder = model.get_encoder()
    own = encoder.forward
    with exchanged_forward(encoder, functools.wraps(own)(functools.partial(encode, own))):  # its signature is read
        yield


def _layers(cache: Any) -> list[Any]:
    """Return the layers of a cache, a decoder's of its own tokens and of those of an encoder."""
    return [layer for part in caches_in(cache) for layer in part.layers]


def _without_cache(output: Any, name: str) -> Any:
    copied = copy.copy(output)
    copied[name] = None
    copied.logits = output.logits.detach().clone()
    return copied


def _shape_of(value: Any) -> Any:
    """Return a tensor of the same shape without memory of its own; what is small as a copy."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.numel() <= 1:
        return value.detach().clone()
    return torch.zeros((), dtype=value.dtype, device=value.device).expand(value.shape)


@contextmanager
def stubbed_forward(model: nn.Module, recording: Recording) -> Iterator[None]:
    """Let recorded outputs replace the model's forward passes, in generations no longer than the recorded one."""
    name = str(cache_name(model))
    current, number = None, 0  # the cache of the generation that runs, and its passes so far

    @functools.wraps(model.forward)  # `generate` looks at its signature
    def forward(*_args: Any, **kwargs: Any) -> Any:
        nonlocal current, number
        cache = kwargs[name]
        if cache is not current:
            current, number = cache, 0
        layers = _layers(cache)
        for layer, attributes in recording.states[number].items():
            vars(layers[layer]).update(attributes)
        output = recording.outputs[-1 if number else 0]
        output[name] = cache
        number += 1
        return output

    with exchanged_forward(model, forward), _exchanged_encoder(model, lambda *_args, **_kwargs: recording.encoded):
        yield
