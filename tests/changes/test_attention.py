"""A model's attention is switched for a while and is then its own again, whatever happens meanwhile."""

from __future__ import annotations

import pytest

from energyscope.changes.attention import other_attentions, own_attention, switched_attention
from energyscope.errors import ModelError
from energyscope.loading import load_model


@pytest.fixture(scope="module")
def loaded():
    return load_model("tiny-llama", device="cpu")


def test_the_others_are_those_that_the_model_does_not_run_with(loaded):
    """GIVEN a model on sdpa, on a CPU, THEN eager attention is the other; on eager attention sdpa is."""
    assert own_attention(loaded.model) == "sdpa"
    assert other_attentions(loaded) == ("eager",)
    with switched_attention(loaded.model, "eager"):
        assert other_attentions(loaded) == ("sdpa",)


def test_attention_is_switched_for_a_while(loaded):
    """GIVEN eager attention WHEN it is left, by an error too, THEN the model runs with its own again."""
    with switched_attention(loaded.model, "eager"):
        assert own_attention(loaded.model) == "eager"
    assert own_attention(loaded.model) == "sdpa"
    with pytest.raises(KeyError), switched_attention(loaded.model, "eager"):
        raise KeyError
    assert own_attention(loaded.model) == "sdpa"


def test_what_is_not_there_is_refused_with_the_reason(loaded):
    """GIVEN an implementation that there is not THEN the message names it, and the model keeps its own."""
    with (
        pytest.raises(ModelError, match="cannot be switched to no_such"),
        switched_attention(loaded.model, "no_such"),
    ):
        pass
    assert own_attention(loaded.model) == "sdpa"
