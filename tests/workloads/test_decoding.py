"""A decode step is one token of each sequence on a filled cache, and the prompt's pass is that of a generation."""

from __future__ import annotations

import pytest
import torch
from task_models import task_model

from energyscope.components import component_tree
from energyscope.errors import DeviceError, ModelError, UsageError
from energyscope.loading import load_model
from energyscope.reasons import read
from energyscope.replay.capture import capture, forward_inputs
from energyscope.stages.profile import present
from energyscope.workloads import decoding, profile_inputs
from energyscope.workloads.decoding import can_decode, can_generate, decode_step, default_context, prompt_pass


@pytest.fixture(scope="module")
def loaded():
    return load_model("tiny-llama", device="cpu")


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_step_has_one_token_and_its_context(loaded, kind):
    """The cache holds as many tokens as were asked for, those before the one that is decoded."""
    step = decode_step(loaded, batch_size=3, context_length=17, kv_cache=kind)
    assert step.inputs["input_ids"].shape == (3, 1)
    assert int(step.inputs["past_key_values"].get_seq_length()) == 17
    assert (step.phase, step.context, step.kv_cache, step.batch_size) == ("decode", 17, kind, 3)


def test_the_cache_holds_what_the_text_before_gives(loaded):
    """A step's logits are those of the whole text in one pass."""
    text = profile_inputs(loaded, batch_size=2, sequence_length=20).inputs["input_ids"]
    whole = loaded.model(input_ids=text, use_cache=False).logits[:, -1]
    step = decode_step(loaded, batch_size=2, context_length=19)
    logits = loaded.model(**forward_inputs(loaded.model, step.inputs)).logits[:, -1]
    torch.testing.assert_close(logits, whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("context", [19, 511])
def test_a_step_that_verifies_a_proposal_ends_as_an_ordinary_step(loaded, kind, context):
    """GIVEN three tokens proposed THEN there are four rows; the last sees what an ordinary step's does."""
    plain = decode_step(loaded, context_length=context, kv_cache=kind)
    verifying = decode_step(loaded, context_length=context, kv_cache=kind, proposed=3)
    assert int(verifying.inputs["past_key_values"].get_seq_length()) == context - 3
    for _ in range(2):  # it can be replayed
        logits = [loaded.model(**forward_inputs(loaded.model, step.inputs)).logits for step in (plain, verifying)]
        assert [each.shape[1] for each in logits] == [1, 4]
        torch.testing.assert_close(logits[1][:, -1], logits[0][:, -1], atol=1e-4, rtol=1e-4)
    text = profile_inputs(loaded, sequence_length=context + 1).inputs["input_ids"]
    whole = loaded.model(input_ids=text, use_cache=False).logits[:, -4:]
    torch.testing.assert_close(logits[1], whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_decoders_step_is_that_of_the_whole_text_beside_its_encoder(kind):
    """GIVEN T5 THEN a step reads a token, what the encoder made of as many, and caches of both."""
    t5 = task_model("sequence-to-sequence")
    step = decode_step(t5, batch_size=2, context_length=9, kv_cache=kind)
    assert step.inputs["decoder_input_ids"].shape == (2, 1)
    assert step.inputs["encoder_outputs"][0].shape[:2] == (2, 9)
    assert "input_ids" not in step.inputs
    text = profile_inputs(t5, batch_size=2, sequence_length=10).inputs
    decoder = text["decoder_input_ids"].clone()
    decoder[:, 0] = decoder[0, 0]
    with torch.no_grad():
        whole = t5.model(input_ids=text["input_ids"][:, :9], decoder_input_ids=decoder, use_cache=False).logits
        for _ in range(2):
            logits = t5.model(**forward_inputs(t5.model, step.inputs)).logits
            torch.testing.assert_close(logits[:, -1], whole[:, -1], atol=1e-4, rtol=1e-4)
    assert can_decode(t5)
    assert not can_generate(t5)


def test_components_that_a_step_does_not_call_are_named_by_their_outermost():
    """GIVEN a decoder's step THEN its encoder is left out, and notes name its layers, not what is in them."""
    t5 = task_model("sequence-to-sequence")
    tree = component_tree(t5.model, t5.adapter, "medium", kv_cache=True)
    called, notes = present(tree, capture(tree, decode_step(t5, context_length=9).inputs))
    absent = {component.name for component in tree} - {component.name for component in called}
    assert {name.split(".")[0] for name in absent} == {"encoder", "shared"}  # the embedding that the encoder has
    assert {note.values["function"] for note in map(read, notes)} == {
        "encoder.block.{layer}", "encoder.final_layer_norm", "shared",
    }  # fmt: skip


def test_a_component_that_is_called_in_one_that_is_not_is_refused(loaded):
    """GIVEN an MLP whose layer calls what is in it THEN its energy would be nobody's, and one line says so."""
    tree = component_tree(loaded.model, loaded.adapter, "fine")
    captures = capture(tree, profile_inputs(loaded, sequence_length=4).inputs)
    del captures["model.layers.0.mlp"]
    with pytest.raises(
        ModelError, match=r"model\.layers\.0\.mlp is not called, and model\.layers\.0\.mlp\..* in it is"
    ):
        present(tree, captures)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_the_prompts_pass_fills_an_empty_cache(loaded, kind):
    """Again and again it finds no tokens, and the head gives the last token's logits only."""
    prompt = prompt_pass(loaded, profile_inputs(loaded, sequence_length=8), kv_cache=kind, new_tokens=4)
    for _ in range(2):
        assert loaded.model(**prompt.inputs).logits.shape[:2] == (1, 1)
        assert int(prompt.inputs["past_key_values"].get_seq_length()) == 0
    assert (prompt.phase, prompt.context, prompt.kv_cache) == ("prefill", 8, kind)
    assert isinstance(prompt.inputs["past_key_values"].get_seq_length(), int)  # as `generate` finds it: no tensor


def test_the_default_context_leaves_room_for_the_token(loaded):
    """1024 tokens, or one less than the model's positions."""
    limit = loaded.model.config.max_position_embeddings
    assert default_context(loaded) == min(1024, limit - 1)
    with pytest.raises(UsageError, match=f"use {limit - 1} at most"):
        decode_step(loaded, context_length=limit)
    with pytest.raises(UsageError, match="--context-length 0"):
        decode_step(loaded, context_length=0)


def test_a_cache_without_room_names_the_batch_that_fits(loaded, monkeypatch):
    """What does not fit is refused before it is allocated, with the largest batch that would."""
    monkeypatch.setattr(decoding, "usable_bytes", lambda _device: 3 * decoding.cache_need(loaded, 1, 100) + 5)
    with pytest.raises(DeviceError, match="--batch-size 3 fits"):
        decode_step(loaded, batch_size=4, context_length=100)


def test_a_cache_needs_what_it_takes(loaded):
    """The bytes estimated are those that a dynamic cache of that length holds."""
    from energyscope.kv_cache import cache_bytes

    step = decode_step(loaded, batch_size=2, context_length=50)
    assert cache_bytes(step.inputs) == decoding.cache_need(loaded, 2, 50)


def test_a_classifier_has_no_decode_step():
    """A model that generates nothing is refused with what to do."""
    loaded = load_model("tiny-distilbert", device="cpu")
    assert not can_generate(loaded)
    with pytest.raises(UsageError, match="--phase prefill"):
        decode_step(loaded)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_step_is_given_what_generate_gives(loaded, kind):
    """Names and shapes are those of the second pass of a real generation, its positions and masks among them."""
    given = []
    handle = loaded.model.register_forward_pre_hook(lambda _m, _a, given_: given.append(given_), with_kwargs=True)
    prompt = profile_inputs(loaded, sequence_length=12).inputs
    with decoding.fresh_cache_length(loaded.model):
        loaded.model.generate(**prompt, max_new_tokens=2, **decoding.generation_options(kind, 2))
    handle.remove()
    step = decode_step(loaded, context_length=12, kv_cache=kind).inputs
    assert shapes_of(step) == shapes_of(given[1])
    assert int(step["position_ids"].max()) == 12
    first = prompt_pass(loaded, profile_inputs(loaded, sequence_length=12), kv_cache=kind, new_tokens=2).inputs
    assert shapes_of(first) == shapes_of(given[0])


def shapes_of(given):
    known = {name: value for name, value in given.items() if value is not None}
    return {name: tuple(value.shape) for name, value in known.items() if isinstance(value, torch.Tensor)}, set(
        known
    )


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_long_context_is_filled_in_parts(loaded, kind, monkeypatch):
    """GIVEN more tokens than are filled at once THEN the step's logits are those of the whole text still."""
    text = profile_inputs(loaded, batch_size=2, sequence_length=20).inputs["input_ids"]
    whole = loaded.model(input_ids=text, use_cache=False).logits[:, -1]
    monkeypatch.setattr(decoding, "FILLED_AT_ONCE", 12)
    passes = []
    handle = loaded.model.register_forward_pre_hook(lambda *_: passes.append(1))
    step = decode_step(loaded, batch_size=2, context_length=19, kv_cache=kind)
    handle.remove()
    logits = loaded.model(**step.inputs).logits[:, -1]
    torch.testing.assert_close(logits, whole, atol=1e-4, rtol=1e-4)
    assert len(passes) == 6  # of four tokens, and the step itself, to see that it changes nothing


def test_a_step_leaves_no_trace_on_the_model(loaded):
    """No hook is left, and generate makes its next static cache as long as it would have before."""
    decode_step(loaded, context_length=40, kv_cache="static")
    assert not loaded.model._forward_pre_hooks
    assert not hasattr(loaded.model, decoding.LENGTH_MEMORY)
