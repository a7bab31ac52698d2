"""Replay of a decode step: every component on a filled KV cache, which stays as it was."""

from __future__ import annotations

import pytest
import torch

from energyscope.components import component_tree
from energyscope.kv_cache import CACHE_KINDS, cache_bytes
from energyscope.loading import load_model
from energyscope.replay.capture import capture
from energyscope.replay.flops import count_work
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.rotation import footprint_bytes
from energyscope.replay.targets import targets
from energyscope.workloads.decoding import decode_step

CONTEXT = 24
CACHED = 1000  # bytes of a device's cache, far fewer than the model's: copies are made


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-gpt2"])
def loaded(request):
    return load_model(request.param, device="cpu")


def decoding(loaded, kind, cache_bytes=CACHED):
    """Return the tree, a step's inputs and the replay setup of a decode step."""
    step = decode_step(loaded, context_length=CONTEXT, kv_cache=kind)
    tree = component_tree(loaded.model, loaded.adapter, "fine", kv_cache=True)
    return tree, step.inputs, ReplaySetup(tree, capture(tree, step.inputs), cache_bytes)


def of_kind(tree, kind):
    return [component for component in tree if component.kind == kind]


@pytest.mark.parametrize("kind", CACHE_KINDS)
def test_every_target_of_a_step_can_be_replayed(loaded, kind):
    """Components, glue and the model without a kind all run again and again, and the cache is what it was."""
    tree, inputs, replay_setup = decoding(loaded, kind)
    before = cache_bytes(inputs)
    with torch.inference_mode():
        for target in targets(tree, "fine"):
            with replay_setup.round(target) as round_:
                for call in (*round_, *round_):
                    call()
            assert replay_setup.overhead(target) == []
        again = tree.root.module(**replay_setup.captures["model"].kwargs).logits
    assert torch.equal(again, replay_setup.captures["model"].output.logits)
    assert cache_bytes(inputs) == before
    assert int(inputs["past_key_values"].get_seq_length()) == CONTEXT


@pytest.mark.parametrize("kind", CACHE_KINDS)
def test_every_component_replays_to_the_output_of_the_step(loaded, kind):
    """A component's replay, on its captured inputs and the held cache, gives what it gave in the model."""
    tree, _, replay_setup = decoding(loaded, kind)
    with torch.inference_mode():
        for component in tree.components[1:]:
            recorded = replay_setup.captures[component.name]
            result = component.module(*recorded.args, **recorded.kwargs)
            for output, expected in zip(leaves(result), leaves(recorded.output), strict=True):
                assert torch.equal(output, expected), component.name


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple | list) else []


def test_copies_of_an_attention_read_other_layers_keys(loaded):
    """The same layer's keys and values again and again would lie in the cache: each copy reads another layer's."""
    tree, _, replay_setup = decoding(loaded, "dynamic")
    attention = of_kind(tree, "attention")[1]
    replay_setup.cache_bytes = (
        len(of_kind(tree, "layer")) * footprint_bytes(attention.module) // 2 + replay_setup.layer_bytes
    )
    with replay_setup.round(
        next(target for target in targets(tree, "fine") if target.key == f"node:{attention.name}")
    ) as round_:
        indices = [call.func.layer_idx for call in round_]
    layers = len(of_kind(tree, "layer"))
    assert indices == [(1 + number) % layers for number in range(len(round_))]
    assert len(set(indices)) == layers
    assert attention.module.layer_idx == 1


@pytest.mark.parametrize("kind", CACHE_KINDS)
def test_updates_of_the_cache_take_the_layers_in_turn(loaded, kind):
    """A function is told which layer's cache it updates: each member of the round runs on its own inputs."""
    tree, _, replay_setup = decoding(loaded, kind)
    (update,) = [
        target for target in targets(tree, "fine") if target.what == "group" and target.key.endswith(".cache")
    ]
    with replay_setup.round(update) as round_:
        indices = [next(target for target in call.args if isinstance(target, int)) for call in round_]
    assert indices == list(range(len(of_kind(tree, "layer"))))


def test_the_attention_core_reads_what_the_step_left():
    """Keys and values of a static cache come from memory, layer by layer; those a dynamic one copied are hot.

    GPT-2 has as many heads of keys as of queries: where there are fewer, some versions of the library copy them.
    """
    loaded = load_model("tiny-gpt2", device="cpu")
    shared = {}
    for kind in CACHE_KINDS:
        tree, _, replay_setup = decoding(loaded, kind)
        (core,) = [
            target for target in targets(tree, "fine") if target.what == "group" and target.key.endswith(".core")
        ]
        with replay_setup.round(core) as round_:
            shared[kind] = len({call.args[1].data_ptr() for call in round_}) == 1
    assert shared == {"dynamic": True, "static": False}


def test_the_work_of_an_update(loaded):
    """A dynamic update reads and writes the whole layer's cache, a static one a token's slot."""
    moved = {}
    for kind in CACHE_KINDS:
        tree, inputs, _ = decoding(loaded, kind)
        work = count_work(tree, inputs)
        moved[kind] = [work[component.name].bytes for component in of_kind(tree, "attention.cache")]
        assert {work[component.name].flops for component in of_kind(tree, "attention.cache")} == {0.0}
    layer = decode_step(loaded, context_length=1).inputs["past_key_values"].layers[0]
    token = layer.keys.nbytes + layer.values.nbytes
    layers = len(moved["dynamic"])
    assert moved["static"] == [2 * token] * layers
    assert moved["dynamic"] == [token * (1 + CONTEXT + CONTEXT + 1)] * layers


def test_attention_has_the_work_of_its_context(loaded):
    """Twice the context is twice the attention core's products, and no more of the projections'."""
    flops = []
    for context in (15, 31):
        step = decode_step(loaded, context_length=context)
        tree = component_tree(loaded.model, loaded.adapter, "fine", kv_cache=True)
        work = count_work(tree, step.inputs)
        flops.append(
            (work[of_kind(tree, "attention.core")[0].name].flops, work[of_kind(tree, "mlp")[0].name].flops)
        )
    assert flops[1][0] == 2 * flops[0][0]
    assert flops[1][1] == flops[0][1]


def test_glue_finds_each_layers_own_memory_of_a_static_cache():
    """GIVEN attention without its children THEN every layer goes on from its own keys, not from another one's."""
    tree, _, replay_setup = decoding(load_model("tiny-gpt2", device="cpu"), "static")
    members = of_kind(tree, "attention")
    inside = dict(replay_setup._inside(members, members[0]))
    updates = [component.module for component in of_kind(tree, "attention.cache")]
    assert len({inside[update][0].data_ptr() for update in updates}) == len(members)
    others = [component.module for component in of_kind(tree, "attention.qkv")]
    assert len({inside[other].data_ptr() for other in others}) == 1
