"""States that go from token to token: steps change them, windows put them back, prompts begin without any."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from energyscope.errors import ModelError
from energyscope.kv_cache import (
    CACHE_KINDS,
    cache_name,
    caches_in,
    carries_states,
    hold,
    keeps_keys,
    states_put_back,
)
from energyscope.workloads.decoding import check_states, inputs_of_generate

CONTEXT = 6
FAMILIES = {
    "mamba": {"hidden_size": 16, "state_size": 4},
    "mamba2": {"hidden_size": 16, "state_size": 8, "num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 4},
    "rwkv": {"hidden_size": 16, "attention_hidden_size": 16},
    "falcon_h1": {
        "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 8, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8,
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    """Return a tiny model that carries states, falcon_h1 beside keys and values."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(request.param, vocab_size=64, num_hidden_layers=2, **FAMILIES[request.param])
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture
def ids():
    return torch.arange(5, 5 + CONTEXT + 1)[None]


def inputs_at(model, ids, cached, kind):
    inputs = inputs_of_generate(model, ids[:, : cached or CONTEXT], kv_cache=kind, new_tokens=2, cached=cached)
    for cache in caches_in(inputs):
        hold(cache)
    return inputs


@pytest.mark.parametrize("kind", CACHE_KINDS)
def test_steps_on_states_that_are_put_back_are_the_same(model, ids, kind):
    """GIVEN a step after a prompt THEN it is that of the whole sequence, goes on in a window, and begins again."""
    inputs = {**inputs_at(model, ids, CONTEXT, kind), "input_ids": ids[:, -1:]}
    with torch.no_grad():
        whole = model(input_ids=ids, use_cache=False).logits[:, -1]
        for _ in range(2):
            with states_put_back(inputs):
                torch.testing.assert_close(model(**inputs).logits[:, -1], whole, atol=1e-4, rtol=1e-4)
                assert not torch.allclose(model(**inputs).logits[:, -1], whole, atol=1e-6)


def test_a_prompt_is_read_as_the_first_every_time(model, ids):
    """GIVEN the pass of a prompt on held states WHEN it is repeated THEN nothing came before."""
    inputs = inputs_at(model, ids[:, :CONTEXT], 0, "dynamic")
    with torch.no_grad():
        first = model(**inputs).logits
        torch.testing.assert_close(model(**inputs).logits, first)


HIDDEN = {
    "xlstm": {"hidden_size": 128, "num_heads": 2, "num_blocks": 2, "chunk_size": 16, "mode": "inference"},
    "minimax": {
        "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "num_local_experts": 2, "block_size": 4,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "recurrent_gemma": {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "lru_width": 32, "attention_window_size": 8,
        "block_types": ["recurrent", "attention"],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "where"),
    [("xlstm", "xLSTMCache"), ("minimax", "MiniMaxCache"), ("recurrent_gemma", "a step changes model.layers.0")],
)
def test_states_that_nobody_finds_are_refused(family, where):
    """GIVEN states in a cache of the model's own, or in its modules THEN there is no decode step."""
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, vocab_size=64, **HIDDEN[family])).eval()
    ids = torch.arange(5, 5 + CONTEXT)[None]
    with pytest.raises(ModelError, match=where):  # noqa: PT012 - whichever sees it first
        inputs = inputs_of_generate(model, ids, kv_cache="dynamic", new_tokens=2, cached=CONTEXT)
        for cache in caches_in(inputs):
            hold(cache)
        check_states(model, {**inputs, "input_ids": ids[:, -1:]})


def test_what_a_model_keeps_is_known_by_its_forward_and_its_cache(model):
    """GIVEN each family THEN the argument for what it keeps, and whether that is keys or states."""
    family = model.config.model_type
    assert cache_name(model) == {"rwkv": "state", "falcon_h1": "past_key_values"}.get(family, "cache_params")
    assert carries_states(model)
    assert keeps_keys(model) == (family == "falcon_h1")
