"""Rounds of every kind of target run on real inputs, and leave the model as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from families import FAMILIES, inputs, tree_of
from reading_models import gpt_oss
from transformers import AutoConfig, AutoModelForCausalLM

from energyscope.auto import structure_map
from energyscope.components import component_tree
from energyscope.kv_cache import hold, kept_by, states_put_back
from energyscope.replay.capture import capture
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.targets import Target, targets
from energyscope.workloads.decoding import inputs_of_generate


@pytest.mark.parametrize("family", FAMILIES)
def test_every_target_can_be_replayed(family):
    """Every target's round runs, and the model computes the same afterwards."""
    tree = tree_of(family)
    captures = capture(tree, inputs())
    replay_setup = ReplaySetup(tree, captures, cache_bytes=1000)  # far smaller than the model: copies are made
    plan = targets(tree, "fine")
    with torch.inference_mode():
        for target in plan:
            with replay_setup.round(target) as round_:
                for call in round_:
                    call()
        again = tree.root.module(**captures["model"].kwargs).logits
    assert torch.equal(again, captures["model"].output.logits)
    measured = {name for target in plan if target.what != "glue" for name in target.members}
    assert measured == {component.name for component in tree}


def test_a_kind_that_fits_in_the_cache_is_copied():
    """GIVEN a cache larger than a kind's weights and smaller than the model THEN its round has copies too."""
    tree = tree_of("gpt2")
    replay_setup = ReplaySetup(tree, capture(tree, inputs()), cache_bytes=4000)
    (target,) = [planned for planned in targets(tree, "fine") if planned.key.endswith("attn.c_proj")]
    with replay_setup.round(target) as round_:
        assert len(round_) == 8


@pytest.fixture(scope="module")
def tree():
    return tree_of("llama", num_hidden_layers=3)


@pytest.fixture(scope="module")
def captures(tree):
    return capture(tree, inputs())


@pytest.fixture
def replay_setup(tree, captures):
    """A replay setup, after whose use the model computes what it did and nothing is left on its modules."""
    yield ReplaySetup(tree, captures, cache_bytes=None)
    assert torch.equal(logits(tree, captures), captures["model"].output.logits)
    assert not any("forward" in module.__dict__ for module in tree.root.module.modules())


@torch.inference_mode()
def logits(tree, captures):
    return tree.root.module(**captures["model"].kwargs).logits


@torch.inference_mode()
def ran(round_):
    return [call() for call in round_]


def target(what, *members):
    return Target(f"{what}:{members[0]}", what, members)


def without_weights(*modules):
    """Make modules give nothing but zeros: where they still are run, their parent's output changes."""
    for module in modules:
        for parameter in module.parameters():
            parameter.data.zero_()


def test_a_node_runs_on_its_own_inputs(replay_setup, captures):
    """A layer's own value comes from its own inputs, though it stands in for others."""
    with replay_setup.round(target("node", "model.layers.2.mlp", "model.layers.1.mlp")) as round_:
        (output,) = ran(round_)
    torch.testing.assert_close(output, captures["model.layers.2.mlp"].output, rtol=0, atol=0)


def test_the_model_runs_on_the_workload(replay_setup, captures):
    """The anchor is one call of the whole model, which gives the captured output."""
    with replay_setup.round(target("node", "model")) as round_:
        (output,) = ran(round_)
    assert torch.equal(output.logits, captures["model"].output.logits)


def test_a_group_runs_every_member_on_the_middle_ones_inputs(replay_setup, captures):
    """GIVEN a kind of three layers THEN three calls share one input: that of the middle layer."""
    members = [f"model.layers.{layer}.mlp" for layer in range(3)]
    with replay_setup.round(target("group", *members)) as round_:
        outputs = ran(round_)
    assert len(outputs) == 3
    torch.testing.assert_close(outputs[1], captures[members[1]].output, rtol=0, atol=0)
    assert not torch.equal(outputs[0], captures[members[0]].output)


@pytest.mark.parametrize("failing", [False, True])
def test_bypasses_are_undone_also_after_an_error(tree, captures, failing):
    """GIVEN an error in a round THEN the model is restored all the same."""
    replay_setup = ReplaySetup(tree, captures, cache_bytes=None)
    for planned in targets(tree, "fine"):
        try:
            with replay_setup.round(planned):
                if failing:
                    raise ZeroDivisionError  # noqa: TRY301 - as a call of the round would
        except ZeroDivisionError:
            pass
        assert torch.equal(logits(tree, captures), captures["model"].output.logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_glue_does_none_of_the_childrens_work(family):
    """GIVEN children without weights WHEN the parent's glue runs THEN it gives what it did with them."""
    tree = tree_of(family)
    captures = capture(tree, inputs())
    replay_setup = ReplaySetup(tree, captures, cache_bytes=None)
    (planned,) = [planned for planned in targets(tree, "fine") if planned.key == "glue:model"]
    with replay_setup.round(planned) as round_:
        without_weights(*(child.module for child in tree.children("model")))
        (output,) = ran(round_)
    assert torch.equal(output.logits, captures["model"].output.logits)


@pytest.mark.parametrize("kind", ["mlp", "attention", "layer", "norm"])
def test_the_model_without_a_kind_does_none_of_its_work(kind):
    """GIVEN a kind without weights WHEN the model runs without it THEN it gives what it did with it."""
    tree = tree_of("llama")
    captures = capture(tree, inputs())
    replay_setup = ReplaySetup(tree, captures, cache_bytes=None)
    (planned,) = [planned for planned in targets(tree, "fine") if planned.key == f"without:{kind}"]
    with replay_setup.round(planned) as round_:
        without_weights(*(tree[name].module for name in planned.members))
        (output,) = ran(round_)
    assert torch.equal(output.logits, captures["model"].output.logits)
    assert not torch.equal(logits(tree, captures), captures["model"].output.logits)


def test_nothing_is_restored_where_nothing_is_written_to(tree, replay_setup):
    """An ordinary model's components have no overhead to subtract."""
    assert all(replay_setup.overhead(planned) == [] for planned in targets(tree, "fine"))


def test_what_is_written_to_is_restored_in_every_call(tree, captures):
    """GIVEN a component that writes to its input THEN restoring it is its overhead, by itself."""
    name = "model.layers.1.mlp"
    changed = {**captures, name: replace(captures[name], altered=(0,))}
    replay_setup = ReplaySetup(tree, changed, cache_bytes=None)
    mlps = [f"model.layers.{layer}.mlp" for layer in range(3)]
    assert len(replay_setup.overhead(target("node", name))) == 1
    assert len(replay_setup.overhead(target("group", *mlps))) == 1  # the middle one's inputs
    assert replay_setup.overhead(target("node", mlps[0])) == []
    with replay_setup.round(target("node", name)) as round_:
        outputs = [ran(round_)[0] for _ in range(2)]
    assert all(torch.equal(output, captures[name].output) for output in outputs)


def test_copies_keep_one_layers_weights_out_of_the_cache(tree, captures):
    """GIVEN a cache of 5 kB and an MLP of 6 THEN its round has two instances with weights of their own."""
    replay_setup = ReplaySetup(tree, captures, cache_bytes=5000)
    with replay_setup.round(target("node", "model.layers.0.mlp")) as round_:
        assert len({call.func.up_proj.weight.data_ptr() for call in round_}) == len(round_) == 2


def test_layers_of_a_window_run_on_no_inputs_of_layers_that_attend_to_all():
    """GIVEN a decode step beyond the window of some layers, with narrower masks, THEN every round runs."""
    torch.manual_seed(0)
    model = gpt_oss(sliding_window=8).eval()
    tree = component_tree(model, structure_map(model.config).adapter, "fine")
    step = inputs_of_generate(model, torch.arange(20)[None], kv_cache="static", new_tokens=2, cached=20)
    hold(step["past_key_values"])
    assert {mask.shape[-1] for mask in step["attention_mask"].values()} == {8, 21}
    replay_setup = ReplaySetup(tree, capture(tree, step), cache_bytes=1000)
    with torch.inference_mode():
        for target in targets(tree, "fine", "kinds"):
            with replay_setup.round(target) as round_:
                assert all(call() is not None for call in round_)


def test_states_are_put_back_when_a_round_ends():
    """GIVEN calls that go on from state to state THEN the next round begins where this one did."""
    torch.manual_seed(0)
    config = AutoConfig.for_model("mamba", vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=2)
    model = AutoModelForCausalLM.from_config(config).eval()
    tree = component_tree(model, structure_map(config).adapter, "medium")
    step = inputs_of_generate(model, torch.arange(6)[None], kv_cache="dynamic", new_tokens=2, cached=6)
    replay_setup = ReplaySetup(tree, captures_of_step(tree, step), cache_bytes=None)
    states = [state for layer in step["cache_params"].layers for state in kept_by(layer)]
    before = [state.clone() for state in states]
    with torch.no_grad(), replay_setup.round(targets(tree, "medium")[0]) as (call,):
        call()
        assert not all(map(torch.equal, states, before))
    assert all(map(torch.equal, states, before))


def captures_of_step(tree, step):
    """Record what a step gives its components, with its states as they were."""
    with states_put_back(step):
        return capture(tree, step)
