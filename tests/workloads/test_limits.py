"""How long a sequence may be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import transformers

from energyscope.workloads.limits import position_limit

SIZES = {
    "vocab_size": 30, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 80,
}  # fmt: skip


@pytest.mark.parametrize(("family", "padding", "limit"), [("bert", 0, 80), ("roberta", 1, 78), ("roberta", 0, 79)])
def test_positions_of_padding_are_not_counted(family, padding, limit):
    """GIVEN 80 positions, of which RoBERTa keeps those up to the padding token's THEN the rest is the limit."""
    config = transformers.AutoConfig.for_model(family, **SIZES, pad_token_id=padding)
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    limit_found = position_limit(SimpleNamespace(model=model))
    assert limit_found == limit
    tokens = torch.full((1, limit), 5)
    with torch.no_grad():
        assert model(tokens).logits.shape == (1, 2)
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, limit + 1), 5))
