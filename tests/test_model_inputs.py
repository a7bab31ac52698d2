"""What a forward is fed: the inputs of tiny models of each kind, which really take them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from energyscope.model_inputs import model_inputs

SMALL = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "vocab_size": 32}
SMALL |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "pad_token_id": 0}
T5 = {"num_layers": 1, "d_model": 16, "d_ff": 16, "vocab_size": 32}
SEES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.mark.parametrize(
    ("kind", "auto_class", "sizes", "expected"),
    [
        ("bart", "AutoModelForSeq2SeqLM", SMALL, {"input_ids", "attention_mask", "decoder_input_ids"}),
        (
            "t5",
            "AutoModelForSeq2SeqLM",
            {"num_layers": 1, "d_model": 16, "d_ff": 16},
            {"input_ids", "attention_mask", "decoder_input_ids"},
        ),
        ("whisper", "AutoModelForSpeechSeq2Seq", SMALL, {"input_features", "decoder_input_ids"}),
        ("vit", "AutoModelForImageClassification", SEES, {"pixel_values"}),
        ("bert", "AutoModelForMaskedLM", SEES, {"input_ids", "attention_mask"}),
        ("clip", "AutoModelForImageClassification", {"vision_config": SEES}, {"pixel_values"}),
        ("gpt2", "AutoModelForCausalLM", {"n_layer": 1, "n_embd": 24}, {"input_ids", "attention_mask"}),
    ],
)
def test_the_forward_takes_what_is_named(
    kind: str, auto_class: str, sizes: dict[str, Any], expected: set[str]
) -> None:
    """GIVEN a model of each kind, THEN its inputs are those that it needs, and one pass on them works."""
    config = transformers.AutoConfig.for_model(kind, **sizes)
    model = getattr(transformers, auto_class).from_config(config).eval()
    inputs = model_inputs(model, batch_size=2, length=4)
    assert {item.name for item in inputs} == expected
    fed = {
        item.name: torch.zeros(item.shape, dtype=torch.float if item.content == "features" else torch.long)
        for item in inputs
    }
    with torch.no_grad():
        assert len(model(**fed).logits) == 2


def test_an_image_has_the_size_that_is_stated() -> None:
    """GIVEN a configuration with its own image size, THEN images have it, and channels come first."""
    config = transformers.ViTConfig(**SEES, image_size=32, patch_size=8, num_channels=1)
    with torch.device("meta"):
        model = transformers.ViTForImageClassification(config)
    assert [item.shape for item in model_inputs(model, 3, 100)] == [(3, 1, 32, 32)]
