"""The loop of generate, run alone, does at each step what it does around the real forward pass."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pytest
import torch

from energyscope.errors import ModelError
from energyscope.functions import exchanged_forward
from energyscope.generation.generator import GreedyGenerator, TimestampStreamer
from energyscope.generation.stub import recorded_forward, stubbed_forward
from energyscope.workloads import profile_inputs

TOKENS = 12


@pytest.fixture(params=["dynamic", "static"])
def generator(loaded, request):
    return GreedyGenerator(loaded, profile_inputs(loaded, batch_size=2, sequence_length=16), request.param)


@pytest.fixture
def recording(generator):
    with recorded_forward(generator.model) as recorded:
        generator(TOKENS)
    return recorded


def described(value):
    """Return what generate may look at: shapes and types, and how full a cache is."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if hasattr(value, "get_seq_length"):
        return type(value), int(value.get_seq_length()), value.get_mask_sizes(1, 0)
    if isinstance(value, Mapping):  # what an encoder made
        return {name: described(item) for name, item in value.items()}
    return value


def inputs_of(model, call):
    """Return the described inputs of each forward pass of a call."""
    inputs, original = [], model.forward

    @functools.wraps(original)
    def forward(*args, **kwargs):
        inputs.append({name: described(value) for name, value in kwargs.items()})
        return original(*args, **kwargs)

    with exchanged_forward(model, forward):
        call()
    return inputs


def test_each_step_prepares_what_it_really_prepares(generator, recording):
    """Inputs, masks, positions and the cache's length are those of the real loop, step by step."""
    model = generator.model

    def call():
        generator(TOKENS, TimestampStreamer())

    real = inputs_of(model, call)
    with stubbed_forward(model, recording):
        for _ in range(2):  # each generation starts anew
            assert inputs_of(model, call) == real
    assert len(real) == TOKENS
    assert real[0] != real[1] != real[2]


def test_shorter_generations_follow_the_same_recording(generator, recording):
    """A generation that is shorter than the recorded one gets its first steps, and all its tokens."""
    streamer = TimestampStreamer()
    with stubbed_forward(generator.model, recording):
        ids = generator(3, streamer)
    assert ids.shape == (2, 3)
    assert len(streamer.tokens_s) == 3


def test_the_model_does_not_run(generator, recording):
    """No module that computes is called while its forward pass is stubbed, nor one of an encoder."""
    called = []
    computing = [module for module in generator.model.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(lambda *_: called.append(1)) for module in computing]
    with stubbed_forward(generator.model, recording):
        generator(TOKENS)
    for hook in hooks:
        hook.remove()
    assert called == []


def test_the_model_is_left_as_it_was(generator, recording):
    """Afterwards the model generates what it did before."""
    before = generator(TOKENS)
    with stubbed_forward(generator.model, recording):
        generator(TOKENS)
    assert torch.equal(generator(TOKENS), before)
    assert "forward" not in vars(generator.model)


def test_a_recording_holds_no_cache(recording):
    """Keys and values are remembered by their shapes: a recording takes next to no memory."""
    layers = [attributes for state in recording.states for attributes in state.values()]
    tensors = [value for layer in layers for value in layer.values() if isinstance(value, torch.Tensor)]
    assert tensors
    assert all(tensor.untyped_storage().nbytes() <= 8 for tensor in tensors)
    assert all(output.past_key_values is None for output in recording.outputs)


def test_a_model_without_layers_in_its_cache_is_refused():
    """GIVEN a forward pass that returns no cache THEN its loop is refused in one line."""

    class Bare(torch.nn.Module):
        def forward(self):
            return torch.zeros(1)

    bare = Bare()
    with recorded_forward(bare), pytest.raises(ModelError, match="keeps no cache in layers"):
        bare()
