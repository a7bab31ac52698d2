"""Replay of a model that accelerate has put its hooks on: they move what passes between the modules."""

from __future__ import annotations

import accelerate
import pytest
import torch

from energyscope.components import component_tree
from energyscope.loading import load_model
from energyscope.replay.capture import capture
from energyscope.replay.flops import count_work
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.targets import targets
from energyscope.workloads import profile_inputs
from energyscope.workloads.decoding import decode_step

CPU = torch.device("cpu")


def hooked(hooks):
    """Return a bundled model with hooks: ``aligned`` only moves inputs, ``waiting`` fetches all weights too."""
    loaded = load_model("tiny-llama", device="cpu")
    model = loaded.model
    if hooks == "aligned":
        for module in model.modules():
            hook = accelerate.hooks.AlignDevicesHook(CPU, io_same_device=module is model)
            accelerate.hooks.add_hook_to_module(module, hook)
    else:
        accelerate.cpu_offload(model, execution_device=CPU)
    return loaded


@pytest.mark.parametrize("hooks", ["aligned", "waiting"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_target_of_a_hooked_model_can_be_replayed(hooks, phase):
    """All targets run through the hooks, which are there afterwards, and the model computes what it did."""
    loaded = hooked(hooks)
    decoding = phase == "decode"
    workload = decode_step(loaded, context_length=9) if decoding else profile_inputs(loaded, sequence_length=9)
    tree = component_tree(loaded.model, loaded.adapter, "fine", kv_cache=decoding)
    captures = capture(tree, workload.inputs)
    replay_setup = ReplaySetup(tree, captures, cache_bytes=300_000)
    with torch.inference_mode():
        for target in targets(tree, "fine"):
            with replay_setup.round(target) as round_:
                for call in round_:
                    call()
            assert replay_setup.device_of(target) == CPU
        again = tree.root.module(**captures["model"].kwargs).logits
    assert torch.equal(again, captures["model"].output.logits)
    owners = [module for module in loaded.model.modules() if list(module.parameters(recurse=False))]
    assert all(hasattr(module, "_hf_hook") for module in owners)


def test_a_hooked_model_computes_as_one_without():
    """What the components give is what they give without hooks, copies of their weights included."""
    captures = []
    for loaded in (load_model("tiny-llama", device="cpu"), hooked("aligned"), hooked("waiting")):
        tree = component_tree(loaded.model, loaded.adapter, "fine")
        captures.append(capture(tree, profile_inputs(loaded, sequence_length=9).inputs))
    for name, recorded in captures[0].items():
        if name != "model" and isinstance(recorded.output, torch.Tensor):
            assert all(torch.equal(recorded.output, other[name].output) for other in captures[1:]), name


def test_weights_that_wait_are_not_copied():
    """Copies of what is fetched at every call would only take memory: it comes from far away anyhow."""
    rounds = {}
    for hooks in ("aligned", "waiting"):
        loaded = hooked(hooks)
        tree = component_tree(loaded.model, loaded.adapter, "medium")
        replay_setup = ReplaySetup(
            tree, capture(tree, profile_inputs(loaded, sequence_length=9).inputs), cache_bytes=300_000
        )
        (mlp,) = [target for target in targets(tree, "medium") if target.key == "node:model.layers.0.mlp"]
        with replay_setup.round(mlp) as round_:
            rounds[hooks] = len(round_)
    assert rounds["aligned"] > 1
    assert rounds["waiting"] == 1


def test_hooks_leave_the_matrix_work_as_it_is():
    """FLOPs are those of the model without hooks; fetching weights is no matrix work."""
    flops = []
    for loaded in (load_model("tiny-llama", device="cpu"), hooked("waiting")):
        tree = component_tree(loaded.model, loaded.adapter, "fine")
        work = count_work(tree, profile_inputs(loaded, sequence_length=9).inputs)
        flops.append({name: component_work.flops for name, component_work in work.items()})
    assert flops[0] == flops[1]
