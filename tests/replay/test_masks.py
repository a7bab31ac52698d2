"""Models decide about masks in a capture as they do in eager execution."""

from __future__ import annotations

import pytest
import torch
from transformers import masking_utils

from energyscope.loading import load_model
from energyscope.replay.masks import masks_as_in_eager
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
    given = []
    original = torch.nn.functional.scaled_dot_product_attention

    def core(query, key, value, *args, **kwargs):
        mask = kwargs.get("attn_mask", args[0] if args else None)
        given.append((tuple(key.shape), None if mask is None else tuple(mask.shape)))
        return original(query, key, value, *args, **kwargs)

    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", core)
        run()
    return given[0]


def step(loaded):
    inputs = {**decode_step(loaded, context_length=20).inputs}
    inputs.pop("attention_mask", None)
    return lambda: loaded.model(**inputs)


def test_a_captured_step_is_given_what_an_eager_one_is(monkeypatch, request):
    """GIVEN a library that asks nothing in captures THEN a decode step has no mask there, and its own heads."""
    loaded = load_model("tiny-llama", device="cpu")
    run = step(loaded)
    eager = attention_arguments(monkeypatch, run)
    assert eager[1] is None
    request.getfixturevalue("capturing")
    assert attention_arguments(monkeypatch, run)[1] is not None
    with masks_as_in_eager():
        assert attention_arguments(monkeypatch, run) == eager


def test_what_must_be_looked_at_is_not_asked(capturing):
    """GIVEN a mask, or a length that is on the device, THEN the library answers as it would in a capture."""
    mask = torch.ones(1, 5)
    arguments = {"q_length": 1, "kv_length": 5, "kv_offset": 0}
    with masks_as_in_eager():
        assert masking_utils._ignore_causal_mask_sdpa(None, q_offset=4, **arguments)
        assert not masking_utils._ignore_causal_mask_sdpa(mask, q_offset=4, **arguments)
        assert not masking_utils._ignore_causal_mask_sdpa(None, q_offset=torch.tensor(4), **arguments)


def test_the_library_is_left_as_it_was():
    """Also after an error, and inside of one another."""
    before = (masking_utils._ignore_causal_mask_sdpa, masking_utils.is_tracing)
    with pytest.raises(ZeroDivisionError), masks_as_in_eager(), masks_as_in_eager():
        raise ZeroDivisionError
    assert (masking_utils._ignore_causal_mask_sdpa, masking_utils.is_tracing) == before
