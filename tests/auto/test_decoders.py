"""Decode steps of decoders beside an encoder, found by structure."""

from __future__ import annotations

import auto_models
import pytest
import torch

from energyscope.loading import load_model
from energyscope.replay.capture import forward_inputs
from energyscope.workloads import profile_inputs
from energyscope.workloads.decoding import decode_step


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("family", ["bart", "whisper"])
def test_a_step_is_that_of_the_whole_text(tmp_path, family, kind):
    """GIVEN BART, whose encoder reads tokens, and Whisper, whose reads sound THEN logits are the whole text's."""
    auto_models.config(family).save_pretrained(tmp_path / family)
    loaded = load_model(str(tmp_path / family), device="cpu", weights="random")
    step = decode_step(loaded, context_length=9, kv_cache=kind)
    text = profile_inputs(loaded, sequence_length=10).inputs
    given = {name: text[name] for name in ("decoder_input_ids", "input_features") if name in text}
    if "input_ids" in text:
        given["input_ids"] = text["input_ids"][:, :9]
    with torch.no_grad():
        expected = loaded.model(**given, use_cache=False).logits[:, -1]
        logits = loaded.model(**forward_inputs(loaded.model, step.inputs)).logits[:, -1]
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
