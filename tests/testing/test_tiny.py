"""Tiny models of families: configurations whose sizes are cut, and weights that are all random."""

from __future__ import annotations

import pytest
import torch
import transformers
from faulty_models import adapter

from energyscope.adapter_registry import load_adapter
from energyscope.errors import ModelError
from energyscope.testing.conformance.tiny import configuration_of, tied, tiny_configuration, tiny_model

QWEN_HEADS = 4


@pytest.mark.parametrize(
    "family", ["gpt2", "llama", "opt", "falcon", "phi3", "mixtral", "mamba", "t5", "vit", "deepseek_v3", "clip"]
)
def test_sizes_are_cut(family: str) -> None:
    """GIVEN the names that families give to sizes THEN the model has two layers and few weights."""
    config = tiny_configuration(family)
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config)
    assert sum(weight.numel() for weight in model.parameters()) < 200_000
    text = config.get_text_config()
    assert text.num_hidden_layers == 2
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        assert (getattr(text, name, None) or 0) < getattr(text, "vocab_size", 1 << 20)


def test_what_a_configuration_says_is_kept() -> None:
    """GIVEN a base THEN only its sizes are cut, and lists of its layers; shared heads stay shared."""
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    base = {
        "num_hidden_layers": 4, "layer_types": kinds, "num_key_value_heads": 2, "rms_norm_eps": 0.5,
        "use_sliding_window": True, "sliding_window": 8, "tie_word_embeddings": True,
    }  # fmt: skip
    config = tiny_configuration("qwen2", base)
    assert (config.num_hidden_layers, config.layer_types) == (2, kinds[:2])
    assert (config.num_attention_heads, config.num_key_value_heads) == (QWEN_HEADS, QWEN_HEADS // 2)
    assert (config.rms_norm_eps, config.sliding_window, config.tie_word_embeddings) == (0.5, 8, True)


@pytest.mark.parametrize(
    ("family", "words"), [("no-such-type", "Unrecognized model identifier"), ("gpt_neo", "attention_layers")]
)
def test_a_family_whose_sizes_cannot_be_cut(family: str, words: str) -> None:
    """GIVEN an unknown type, or fields that only fit together THEN one line says why, and what to give."""
    with pytest.raises(ModelError, match=rf"'{family}' can be made .*{words}.*--config FILE.json") as caught:
        tiny_configuration(family)
    assert "\n" not in str(caught.value)


def test_a_model_too_large() -> None:
    """GIVEN a configuration of true size THEN it is refused without being built."""
    with pytest.raises(ModelError, match=r"124,439,808 parameters, and 5,000,000 .*--config"):
        tiny_model(load_adapter("gpt2"), {"vocab_size": 50257})


def test_a_configuration_of_another_type() -> None:
    """GIVEN a type that the adapter does not serve, or fields that there are not THEN it is refused."""
    with pytest.raises(ModelError, match=r"of type 'gpt2', and the adapter serves llama"):
        configuration_of(load_adapter("llama"), {"model_type": "gpt2"})
    with pytest.raises(ModelError, match=r"transformers refuses the configuration"):
        configuration_of(load_adapter("llama"), {"num_attention_heads": "many"})


def test_a_class_that_does_not_exist() -> None:
    """GIVEN an auto class that transformers lacks, or that has no model of the type THEN it is named."""
    for name, words in (("AutoModelForNothing", "which transformers lacks"), ("AutoModelForCTC", "LlamaConfig")):
        with pytest.raises(ModelError, match=words):
            tiny_model(adapter(auto_class=name, model_types=("llama",)))


def test_every_weight_is_random_and_the_same_each_time() -> None:
    """GIVEN norms and biases that begin at one and zero THEN no weight is constant, and a model repeats."""
    models = [tiny_model(load_adapter("gpt2")).model for _ in range(2)]
    for one, two in zip(*(model.parameters() for model in models), strict=True):
        assert one.std() > 0.001
        assert torch.equal(one, two)
    assert not models[0].training


def test_a_tied_head() -> None:
    """GIVEN a family that ties its head by choice, always or never THEN that model, itself or none is given."""
    llama, gpt2, bert = (tiny_model(load_adapter(family)) for family in ("llama", "gpt2", "bert"))
    other = tied(llama)
    assert other is not None
    assert other.model.lm_head.weight is other.model.model.embed_tokens.weight
    assert llama.model.lm_head.weight is not llama.model.model.embed_tokens.weight
    assert tied(gpt2) is gpt2
    assert tied(bert) is None
