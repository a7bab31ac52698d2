"""The loop of generate, run alone, does at each step what it does around the real forward pass."""

from __future__ import annotations

import functools

import pytest
import torch

from energyscope.errors import ModelError
from energyscope.functions import exchanged_forward
from energyscope.generating.calling import Generator, Stamps
from energyscope.generating.standin import recording, standing_in
from energyscope.loading import load_model
from energyscope.workloads import profile_inputs

TOKENS = 12


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-gpt2"])
def loaded(request):
    return load_model(request.param, device="cpu")


@pytest.fixture(params=["dynamic", "static"])
def generator(loaded, request):
    return Generator(loaded, profile_inputs(loaded, batch_size=2, sequence_length=16), request.param)


def described(value):
    """Return what generate may look at: shapes and types, and how full a cache is."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if hasattr(value, "get_seq_length"):
        return type(value), int(value.get_seq_length()), value.get_mask_sizes(1, 0)
    return value


def given(model, call):
    """Return what each forward pass of a call is given."""
    seen, original = [], model.forward

    @functools.wraps(original)
    def forward(*args, **kwargs):
        seen.append({name: described(value) for name, value in kwargs.items()})
        return original(*args, **kwargs)

    with exchanged_forward(model, forward):
        call()
    return seen


def test_each_step_prepares_what_it_really_prepares(generator):
    """Inputs, masks, positions and the cache's length are those of the real loop, step by step."""
    model = generator.model
    real = given(model, lambda: generator(TOKENS, Stamps()))
    with recording(model) as recorded:
        generator(TOKENS)
    with standing_in(model, recorded):
        for _ in range(2):  # each generation starts anew
            assert given(model, lambda: generator(TOKENS, Stamps())) == real
    assert len(real) == TOKENS
    assert real[0] != real[1] != real[2]


def test_shorter_generations_follow_the_same_recording(generator):
    """A generation that is shorter than the recorded one gets its first steps, and all its tokens."""
    with recording(generator.model) as recorded:
        generator(TOKENS)
    stamps = Stamps()
    with standing_in(generator.model, recorded):
        ids = generator(3, stamps)
    assert ids.shape == (2, 3)
    assert len(stamps.tokens_s) == 3


def test_the_model_does_not_run(generator):
    """No module inside of the model is called while it is stood in for."""
    with recording(generator.model) as recorded:
        generator(TOKENS)
    called = []
    hooks = [one.register_forward_hook(lambda *_: called.append(1)) for one in generator.model.children()]
    with standing_in(generator.model, recorded):
        generator(TOKENS)
    for hook in hooks:
        hook.remove()
    assert called == []


def test_the_model_is_left_as_it_was(generator):
    """Afterwards the model generates what it did before."""
    before = generator(TOKENS)
    with recording(generator.model) as recorded:
        generator(TOKENS)
    with standing_in(generator.model, recorded):
        generator(TOKENS)
    assert torch.equal(generator(TOKENS), before)
    assert "forward" not in vars(generator.model)


def test_a_recording_holds_no_cache(generator):
    """Keys and values are remembered by their shapes: a recording takes next to no memory."""
    with recording(generator.model) as recorded:
        generator(TOKENS)
    held = [value for state in recorded.states for one in state.values() for value in one.values()]
    tensors = [value for value in held if isinstance(value, torch.Tensor)]
    assert tensors
    assert all(tensor.untyped_storage().nbytes() <= 8 for tensor in tensors)
    assert all(output.past_key_values is None for output in recorded.outputs)


def test_a_model_without_layers_in_its_cache_is_refused(generator):
    """GIVEN a forward pass that returns no cache THEN its loop is refused in one line."""

    class Bare(torch.nn.Module):
        def forward(self):
            return torch.zeros(1)

    bare = Bare()
    with recording(bare), pytest.raises(ModelError, match="keeps no cache in layers"):
        bare()
