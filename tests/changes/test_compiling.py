"""A compiled step runs on a cache of constant length over the replayed one's memory; the model is left alone."""

from __future__ import annotations

import shutil

import pytest
import torch

from energyscope.changes.compiling import (
    Compiled,
    compilable_inputs,
    expected_seconds,
    no_recompiling,
    reset_compiler,
)
from energyscope.loading import load_model
from energyscope.workloads import profile_inputs
from energyscope.workloads.decoding import decode_step

CONTEXT = 12


@pytest.fixture(scope="module")
def loaded():
    return load_model("tiny-llama", device="cpu")


def step(loaded, context=CONTEXT):
    return decode_step(loaded, context_length=context, kv_cache="static")


def logits(loaded, inputs):
    with torch.no_grad():
        return loaded.model(**inputs).logits.clone()


def test_a_standing_cache_gives_the_same_logits_again_and_again(loaded):
    """GIVEN a step on the compilable cache THEN its logits are those of the replayed step, at every call."""
    workload = step(loaded)
    expected = logits(loaded, workload.inputs)
    inputs = compilable_inputs(loaded, workload)
    for _ in range(3):
        torch.testing.assert_close(logits(loaded, inputs), expected)
    assert {int(layer.cumulative_length) for layer in inputs["past_key_values"].layers} == {CONTEXT}


def test_the_addition_to_the_counter_is_done_all_the_same(loaded):
    """GIVEN three steps THEN the tensor beside the counter has grown by three: the work is that of an update."""
    inputs = compilable_inputs(loaded, step(loaded))
    for _ in range(3):
        logits(loaded, inputs)
    assert {int(layer.running_length) for layer in inputs["past_key_values"].layers} == {CONTEXT + 3}


def test_the_cache_takes_no_memory_of_its_own(loaded):
    """Keys and values lie where the replayed step's lie."""
    workload = step(loaded)
    compiled, replayed = compilable_inputs(loaded, workload)["past_key_values"], workload.inputs["past_key_values"]
    for layer, other in zip(compiled.layers, replayed.layers, strict=True):
        assert layer.keys.data_ptr() == other.keys.data_ptr()
        assert layer.values.data_ptr() == other.values.data_ptr()


def test_without_a_cache_nothing_is_cached(loaded):
    """GIVEN a plain pass THEN the compiled forward keeps no cache either, and has no mask of ones."""
    inputs = compilable_inputs(loaded, profile_inputs(loaded, sequence_length=8))
    assert inputs["use_cache"] is False
    assert "attention_mask" not in inputs


def test_the_expected_time_grows_with_the_layers(loaded):
    """More layers take longer to compile."""
    config = loaded.model.config
    before, layers = expected_seconds(loaded), config.num_hidden_layers
    try:
        config.num_hidden_layers = 2 * layers
        assert expected_seconds(loaded) > before
    finally:
        config.num_hidden_layers = layers


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling on a CPU needs a C++ compiler")
def test_compiled_steps_are_right_and_never_compile_again(loaded):
    """GIVEN a compiled step THEN its logits are the eager ones, it is in one piece, and a new shape is refused."""
    workload = step(loaded)
    expected, attributes = logits(loaded, workload.inputs), sorted(vars(loaded.model))
    try:
        compiled = Compiled(loaded, workload)
        with torch.no_grad(), no_recompiling():
            torch.testing.assert_close(compiled.call().logits, expected, rtol=1e-3, atol=1e-4)
            with pytest.raises(RuntimeError, match="recompile"):
                compiled.call(**compilable_inputs(loaded, step(loaded, CONTEXT + 5)))
    finally:
        reset_compiler()
    assert compiled.setup_s > 0.1
    assert compiled.notes == []
    assert sorted(vars(loaded.model)) == attributes
