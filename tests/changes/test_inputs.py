"""Inputs of alternatives are made once where memory allows, and refused with what would fit where it does not."""

from __future__ import annotations

import pytest

from energyscope.changes import inputs as module
from energyscope.changes.inputs import Inputs, StepData, does_not_fit
from energyscope.changes.plan import BASE, Alternative
from energyscope.errors import ModelError
from energyscope.kv_cache import cache_bytes
from energyscope.loading import load_model
from energyscope.workloads import profile_inputs

OWN = Alternative(BASE, BASE, "decode", 1, 16, "eager", "dynamic", "sdpa")
BATCH = Alternative("batch_size", "8", "decode", 8, 16, "eager", "dynamic", "sdpa")
PREFILL = Alternative(BASE, BASE, "prefill", 1, 8, "eager", "dynamic", "sdpa")


@pytest.fixture(scope="module")
def loaded():
    return load_model("tiny-llama", device="cpu")


@pytest.fixture
def step_inputs(loaded):
    return Inputs(loaded, StepData(profile_inputs(loaded, sequence_length=8), None, seed=0, new_tokens=4))


def test_inputs_are_kept_and_shared(step_inputs):
    """GIVEN an attention alternative THEN it is given the very step of the base."""
    assert OWN not in step_inputs
    step = step_inputs.get(OWN)
    assert OWN in step_inputs
    other = Alternative("attention", "eager", "decode", 1, 16, "eager", "dynamic", "eager")
    assert step_inputs.get(other) is step


def test_a_step_has_the_batch_context_and_cache_of_its_alternative(step_inputs):
    """Batch size, context and the kind of cache are those asked for; a prefill has the prompt's tokens."""
    step = step_inputs.get(BATCH)
    assert (step.batch_size, step.context_length, step.kv_cache, step.phase) == (8, 16, "dynamic", "decode")
    prefill = step_inputs.get(PREFILL)
    assert (prefill.phase, prefill.sequence_length, prefill.kv_cache) == ("prefill", 8, "dynamic")
    assert prefill.inputs["input_ids"].equal(step_inputs.data.prompt.inputs["input_ids"])


def test_beyond_the_share_of_memory_inputs_are_made_again(loaded, step_inputs, monkeypatch):
    """GIVEN room for one cache WHEN a batch comes THEN it is made each time, and the base stays kept."""
    held = cache_bytes(step_inputs.get(OWN).inputs)
    monkeypatch.setattr(step_inputs, "_room", 2 * held)
    first = step_inputs.get(BATCH)
    assert BATCH not in step_inputs
    assert step_inputs.get(BATCH) is not first
    assert OWN in step_inputs


def test_what_does_not_fit_is_refused_with_what_would(step_inputs, monkeypatch):
    """GIVEN free memory for 4.5 sequences WHEN 8 are asked for THEN about 4 would fit."""
    held = cache_bytes(step_inputs.get(OWN).inputs)
    monkeypatch.setattr(module, "require_host_room", lambda *_: None)
    monkeypatch.setattr(module, "free_bytes", lambda _: int(5 * held))
    with pytest.raises(ModelError, match="a batch of about 4 would fit"):
        step_inputs.get(BATCH)


def test_a_host_that_is_too_small_is_refused(step_inputs, monkeypatch):
    """GIVEN a host without memory THEN a pass over many prompts is refused, and not left to the kernel."""

    def refuse(*_):
        raise MemoryError("8 x 8 needs 9 GB")

    monkeypatch.setattr(module, "require_host_room", refuse)
    with pytest.raises(ModelError, match="it does not fit: 8 x 8 needs 9 GB"):
        step_inputs.get(PREFILL)


def test_a_context_that_does_not_fit_says_how_long_it_may_be():
    """GIVEN half of the memory that a context needs THEN about half of it, less a margin, would fit."""
    long = Alternative("context_length", "8192", "decode", 1, 8192, "eager", "dynamic", "sdpa")
    assert does_not_fit(long, 20e9, 10e9).endswith(
        "its KV cache needs 20.0 GB and 10.0 GB are free: a context of about 3,686 would fit"
    )
