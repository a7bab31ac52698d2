"""Each alternative changes one thing of the run's own setting, and what cannot be is said with its reason."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from energyscope.changes.plan import BASE, Alternative, Limits, choose
from energyscope.reasons import reason

DECODE = Alternative(BASE, BASE, "decode", 1, 1024, "eager", "dynamic", "sdpa")
PREFILL = Alternative(BASE, BASE, "prefill", 1, 128, "eager", "dynamic", "sdpa")
GPU = Limits(131072, "cuda", on_one_device=True, attentions=("eager",))


def chosen(bases=(DECODE, PREFILL), limits=GPU, sizes=(), lengths=()):
    """Return the alternatives and the reasons of those left out, by key."""
    alternatives, left_out = choose(bases, limits, sizes, lengths)
    return alternatives, {alternative.key: why_not for alternative, why_not in left_out}


def keys(alternatives):
    return [alternative.key for alternative in alternatives]


def values(alternatives, what):
    return [alternative.value for alternative in alternatives if alternative.what == what]


def test_on_a_gpu_everything_is_tried():
    """GIVEN a Llama on a GPU THEN phases have batches, executions and attention; decode contexts and caches."""
    alternatives, left_out = chosen()
    assert keys(alternatives) == [
        "decode:batch_size:4",
        "decode:batch_size:16",
        "decode:batch_size:64",
        "decode:execution:cuda-graph",
        "decode:kv_cache:static",
        "decode:context_length:128",
        "decode:context_length:8192",
        "decode:attention:eager",
        "prefill:batch_size:4",
        "prefill:batch_size:16",
        "prefill:batch_size:64",
        "prefill:execution:cuda-graph",
        "prefill:attention:eager",
        "decode:prompt_lookup:3",
        "decode:prompt_lookup:7",
        "decode:execution:torch-compile",
    ]
    assert list(left_out) == ["prefill:execution:torch-compile"]


def test_one_thing_is_changed_at_a_time():
    """Every alternative differs from its base in what it says; graphs and compiled steps in the cache as well."""
    for setting in map(asdict, chosen()[0]):
        base, what = asdict(DECODE if setting["phase"] == "decode" else PREFILL), setting["what"]
        changed = {name for name, value in setting.items() if value != base[name]} - {"what", "value"}
        both = {"execution", "kv_cache"}
        field = "proposed" if what == "prompt_lookup" else what
        assert changed == (both if what == "execution" and setting["phase"] == "decode" else {field})
        assert str(setting[field]) == setting["value"]


@pytest.mark.parametrize(
    ("limits", "value", "code"),
    [
        (Limits(512, "cpu", on_one_device=True, attentions=()), "cuda-graph", "cuda-graph-needs-gpu"),
        (Limits(2048, "cuda", on_one_device=False, attentions=()), "cuda-graph", "model-in-pieces"),
        (Limits(2048, "cuda", on_one_device=False, attentions=()), "torch-compile", "model-in-pieces"),
    ],
)
def test_what_the_device_cannot_do_is_left_out_with_the_reason(limits, value, code):
    """GIVEN a CPU, or a model over several devices, THEN graphs and compiled steps are skipped with the reason."""
    alternatives, left_out = chosen(limits=limits)
    assert value not in values(alternatives, "execution")
    assert left_out[f"decode:execution:{value}"].code == code


def test_contexts_beyond_the_positions_are_left_out_and_how_long_they_may_be_is_said():
    """GIVEN 2,048 positions WHEN a context of 8,192 is asked for THEN it is skipped; 128 is measured."""
    limits = Limits(2048, "cuda", on_one_device=True, attentions=())
    alternatives, left_out = chosen([DECODE], limits, lengths=(128, 8192))
    assert "decode:context_length:128" in keys(alternatives)
    assert left_out == {"decode:context_length:8192": reason("context-beyond-positions", positions=2048)}


def test_a_short_model_has_parts_of_its_own_context():
    """GIVEN 512 positions THEN a quarter and half of the context are measured: 128 alone would be no line."""
    base = Alternative(BASE, BASE, "decode", 1, 511, "eager", "dynamic", "sdpa")
    alternatives, _ = chosen([base], Limits(512, "cpu", on_one_device=True, attentions=()))
    assert values(alternatives, "context_length") == ["127", "255"]


def test_a_run_in_cuda_graphs_is_compared_with_eager_execution():
    """GIVEN a run whose steps are CUDA graphs THEN eager execution is an alternative, on the same cache."""
    base = Alternative(BASE, BASE, "decode", 1, 1024, "cuda-graph", "static", "sdpa")
    alternatives, _ = chosen([base])
    assert values(alternatives, "execution") == ["eager", "torch-compile"]
    assert {other.kv_cache for other in alternatives if other.what == "execution"} == {"static"}
    assert values(alternatives, "kv_cache") == ["dynamic"]


def test_a_model_without_a_cache_may_be_compiled_in_its_pass():
    """GIVEN a classifier THEN its pass is compiled too, since there is no generation that would forbid it."""
    base = Alternative(BASE, BASE, "prefill", 8, 128, "eager", None, "sdpa")
    alternatives, left_out = chosen([base])
    assert "prefill:execution:torch-compile" in keys(alternatives)
    assert not values(alternatives, "kv_cache") + values(alternatives, "context_length")
    assert left_out == {}


def test_tokens_of_a_step_are_one_of_each_sequence():
    """A decode step makes one token of each sequence; a prefill takes all of every prompt."""
    assert Alternative("", "", "decode", 16, 1024, "eager", "dynamic", "sdpa").tokens == 16
    assert Alternative("", "", "prefill", 16, 128, "eager", "dynamic", "sdpa").tokens == 2048


@pytest.mark.parametrize(
    ("base", "limits", "code"),
    [
        (replace(DECODE, batch_size=4), GPU, "lookup-of-one-sequence"),
        (replace(DECODE, context_length=3), GPU, "lookup-little-context"),
        (DECODE, replace(GPU, no_lookup=reason("lookup-random-weights")), "lookup-random-weights"),
        (DECODE, replace(GPU, no_lookup=reason("lookup-without-text")), "lookup-without-text"),
    ],
)
def test_prompt_lookup_is_left_out_where_it_means_nothing(base, limits, code):
    """GIVEN several sequences, a context of 3, random weights, or no text THEN it is skipped with the reason."""
    alternatives, left_out = chosen([base], limits)
    assert "decode:prompt_lookup:7" not in keys(alternatives)
    assert left_out["decode:prompt_lookup:7"].code == code


def test_a_prompt_has_no_prompt_lookup():
    """GIVEN a prefill THEN nothing is proposed to it."""
    alternatives, left_out = chosen([PREFILL])
    assert not any("prompt_lookup" in key for key in [*keys(alternatives), *left_out])
