"""Models decide about masks in a capture as they do in eager execution."""

from __future__ import annotations

import pytest
import torch
from transformers import masking_utils

from energyscope.loading import load_model
from energyscope.replay.masks import MaskDecisions
from energyscope.workloads.decoding import decode_step


@pytest.fixture
def capturing(monkeypatch):
    """Let the library take every pass for one that is captured, and ask nothing then, as its version 5.17 does."""
    asked = masking_utils._ignore_causal_mask_sdpa

    def as_before(*args, **kwargs):
        return False if masking_utils.is_tracing(None) else asked(*args, **kwargs)

    monkeypatch.setattr(masking_utils, "is_tracing", lambda *_: True)
    monkeypatch.setattr(masking_utils, "_ignore_causal_mask_sdpa", as_before)


def attention_arguments(monkeypatch, run):
    """Return the shapes that the attention core is given, of keys and mask, in its first call."""
    arguments = []
    original = torch.nn.functional.scaled_dot_product_attention

    def core(query, key, value, *args, **kwargs):
        mask = kwargs.get("attn_mask", args[0] if args else None)
        arguments.append((tuple(key.shape), None if mask is None else tuple(mask.shape)))
        return original(query, key, value, *args, **kwargs)

    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", core)
        run()
    return arguments[0]


def step(loaded):
    inputs = {**decode_step(loaded, context_length=20).inputs}
    inputs.pop("attention_mask", None)
    return lambda: loaded.model(**inputs)


def prompt(loaded, **more):
    ids = torch.arange(24).view(2, 12) % 20
    return lambda: loaded.model(input_ids=ids, use_cache=False, **more)


PADDED = torch.tensor([[1] * 12, [1] * 7 + [0] * 5])
PASSES = {
    "a step on a cache": step,
    "a prompt": prompt,
    "a prompt with a mask that masks nothing": lambda loaded: prompt(loaded, attention_mask=torch.ones(2, 12)),
    "a padded prompt": lambda loaded: prompt(loaded, attention_mask=PADDED),
    "packed prompts": lambda loaded: prompt(loaded, position_ids=torch.arange(6).repeat(2, 2)),
}


@pytest.mark.parametrize("model", ["tiny-llama", "tiny-gpt2"])
@pytest.mark.parametrize("name", PASSES)
def test_a_captured_pass_is_given_what_an_eager_one_is(monkeypatch, request, name, model):
    """GIVEN a library that asks nothing in captures THEN attention has the mask there that it has outside."""
    run = PASSES[name](load_model(model, device="cpu"))
    eager = attention_arguments(monkeypatch, run)
    assert (eager[1] is None) == (name not in {"a padded prompt", "packed prompts"})
    masks = MaskDecisions()
    with masks.recorded(), torch.no_grad():
        run()
    request.getfixturevalue("capturing")
    assert attention_arguments(monkeypatch, run)[1] is not None
    with masks.repeated():
        assert attention_arguments(monkeypatch, run) == eager
        assert attention_arguments(monkeypatch, run) == eager  # unrolled: the same pass again


def test_each_pass_of_a_round_has_its_own_answers(monkeypatch, request):
    """GIVEN a round of a padded prompt and one without padding THEN neither is given the other's decision."""
    loaded = load_model("tiny-llama", device="cpu")
    padded, plain = PASSES["a padded prompt"](loaded), PASSES["a prompt"](loaded)
    masks = MaskDecisions()
    with masks.recorded(), torch.no_grad():
        padded(), plain()
    request.getfixturevalue("capturing")
    with masks.repeated():
        masks_given = [attention_arguments(monkeypatch, run)[1] for run in (padded, plain, padded, plain)]
    assert [mask is None for mask in masks_given] == [False, True, False, True]


def test_without_notes_the_library_decides(capturing):
    """GIVEN nothing that was noted THEN it answers as it would in a capture."""
    with MaskDecisions().repeated():
        assert not masking_utils._ignore_causal_mask_sdpa(None, q_length=1, kv_length=5, q_offset=4, kv_offset=0)


def test_the_library_is_left_as_it_was():
    """Also after an error, and inside of one another."""
    names = ("_ignore_causal_mask_sdpa", "find_packed_sequence_indices", "is_tracing")
    before = [getattr(masking_utils, name) for name in names]
    masks = MaskDecisions()
    with pytest.raises(ZeroDivisionError), masks.recorded(), masks.repeated():
        raise ZeroDivisionError
    assert [getattr(masking_utils, name) for name in names] == before
