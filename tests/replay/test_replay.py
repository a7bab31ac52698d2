"""Capture, bypass, rotation and replay on tiny real models of every shipped family."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import tiny_models
import torch

from energyscope.adapters import load_adapter
from energyscope.components import component_tree
from energyscope.errors import ModelError
from energyscope.replay.bypass import bypassed
from energyscope.replay.capture import Capture, capture, forward_inputs
from energyscope.replay.replayer import Replayer
from energyscope.replay.rig import Rig
from energyscope.replay.rotation import MAXIMUM_COPIES, copies_needed, footprint_bytes, own_round
from energyscope.replay.subjects import subjects

FAMILIES = ("distilbert", "gpt2", "llama")
CPU = torch.device("cpu")


def tree_of(family: str, granularity: str = "fine"):
    torch.manual_seed(0)
    model = tiny_models.model_class(family)(tiny_models.config(family)).eval()
    return component_tree(model, load_adapter(family), granularity)


def inputs():
    ids = torch.arange(12).reshape(1, 12) % tiny_models.VOCABULARY
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_component_replays_to_the_same_output(family):
    """GIVEN the captured inputs WHEN a component runs alone, twice, THEN it returns what it did in the model."""
    tree = tree_of(family)
    captures = capture(tree, inputs())
    for component in tree.components[1:]:
        one = captures[component.name]
        for _ in range(2):
            with torch.inference_mode():
                again = component.module(*one.args, **one.kwargs)
            torch.testing.assert_close(again, one.output, rtol=0, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_capture_leaves_no_hook(family):
    """After the pass no module has a hook, also when the pass failed."""
    tree = tree_of(family)
    capture(tree, inputs())
    with pytest.raises(IndexError):
        capture(tree, {"input_ids": torch.full((1, 4), 10_000)})
    modules = tree.root.module.modules()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in modules)


def test_no_cache_is_filled():
    """A decoder runs without a KV cache, which replaying would fill."""
    assert forward_inputs(tree_of("gpt2").root.module, inputs())["use_cache"] is False
    assert "use_cache" not in forward_inputs(tree_of("distilbert").root.module, inputs())


def test_a_component_that_is_never_called_is_an_error():
    """A declared module that the forward pass skips cannot be measured, and the error names it."""
    tree = tree_of("gpt2")
    tree.root.module.transformer.h[1].forward = lambda hidden, *_args, **_kwargs: hidden
    with pytest.raises(ModelError, match=r"transformer\.h\.1"):
        capture(tree, inputs())


@pytest.mark.parametrize("family", FAMILIES)
def test_bypassing_children_keeps_the_output(family):
    """GIVEN recorded outputs WHEN a parent runs with its children bypassed THEN its output is unchanged."""
    tree = tree_of(family)
    captures = capture(tree, inputs())
    for parent in tree:
        children = tree.children(parent.name)
        if not children:
            continue
        outputs = [(child.module, captures[child.name].output) for child in children]
        one = captures[parent.name]
        with bypassed(outputs), torch.inference_mode():
            result = parent.module(*one.args, **one.kwargs)
        expected = one.output if isinstance(one.output, torch.Tensor) else one.output[0]
        found = result if isinstance(result, torch.Tensor) else result[0]
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_bypassing_skips_the_children_and_is_undone():
    """Children are not computed inside the block, and are afterwards, also where forward was on the instance."""
    inner, outer = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    outer.forward = own = lambda x: x * 2
    with bypassed([(inner, "recorded"), (outer, "other")]):
        assert inner(torch.ones(2)) == "recorded"
        assert outer(torch.ones(2)) == "other"
    assert outer.forward is own
    assert "forward" not in inner.__dict__
    assert inner(torch.ones(2)).shape == (2,)


def test_copies_reach_twice_the_cache():
    """Instances together hold twice the L2; none where the whole model fits in it, or on a CPU."""
    assert copies_needed(20, 1000, 50) == 5
    assert copies_needed(500, 1000, 50) == 1
    assert copies_needed(20, 40, 50) == 1
    assert copies_needed(0, 1000, 50) == 1
    assert copies_needed(20, 1000, None) == 1
    assert copies_needed(1, 10_000, 5000) == MAXIMUM_COPIES


def test_copies_have_storage_of_their_own():
    """Each instance in a round has weights elsewhere in memory, and computes the same."""
    module = torch.nn.Linear(4, 4)
    calls = own_round(module, Capture((torch.ones(1, 4),), {}), instances=3, kind="mlp")
    assert len({call.func.weight.data_ptr() for call in calls}) == 3
    outputs = [call() for call in calls]
    assert all(torch.equal(output, outputs[0]) for output in outputs)


def test_an_embedding_gets_rotating_ids():
    """An embedding's rounds look up different rows, all of them in the table."""
    table = torch.nn.Embedding(50, 4)
    calls = own_round(table, Capture((torch.zeros(1, 8, dtype=torch.long),), {}), instances=4, kind="embedding")
    ids = torch.stack([call.args[0] for call in calls])
    assert len(ids.unique()) > 8
    assert ids.max() < 50


def test_shared_storage_counts_once():
    """A tied weight is one weight."""
    first, second = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
    second.weight = first.weight
    assert footprint_bytes(torch.nn.Sequential(first, second)) == 256


@pytest.mark.parametrize("chunked", [False, True])
def test_the_replayer_counts_every_call(chunked):
    """The count at the end is the number of calls after the warm-up, and the clock runs forwards."""
    ran = []
    call = (
        (lambda: ran.append(1))
        if chunked
        else (lambda: (ran.append(1), torch.ones(300, 300) @ torch.ones(300, 300)))
    )
    calls = Replayer(CPU).run([call], 0.05)
    assert calls.count[-1] <= len(ran)
    assert len(ran) - calls.count[-1] >= 3  # the warm-up
    assert (np.diff(calls.time_s) > 0).all()
    assert calls.seconds >= 0.05


def test_the_replayer_takes_the_calls_of_a_round_in_turn():
    """A round's calls run equally often."""
    counts = [0, 0, 0]

    def call(index):
        counts[index] += 1

    Replayer(CPU).run([lambda index=index: call(index) for index in range(3)], 0.02)
    assert max(counts) - min(counts) <= 1


def test_the_collector_is_back_after_a_window_that_failed():
    """Python's garbage collector is on again after a window, also after an error in it."""
    runs = iter(range(10_000))

    def call():
        if next(runs) == 5000:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        Replayer(CPU).run([call], 60)
    assert gc.isenabled()


def test_subjects_of_each_granularity():
    """Coarse takes layers as a mean, medium each by itself, fine adds kinds' means, or all with layers=all."""
    keys = {
        size: [one.key for one in subjects(tree_of("gpt2", size), size)] for size in ("coarse", "medium", "fine")
    }
    assert "group:transformer.h.{layer}" in keys["coarse"]
    assert {"node:transformer.h.0", "node:transformer.h.1.attn"} <= set(keys["medium"])
    assert "group:transformer.h.{layer}.attn.c_attn" in keys["fine"]
    assert "node:transformer.h.0.attn" in keys["fine"]
    assert {"glue:model", "glue:transformer.h.{layer}", "glue:transformer.h.{layer}.mlp"} <= set(keys["fine"])
    everyone = [one.key for one in subjects(tree_of("gpt2"), "fine", "all")]
    assert "node:transformer.h.1.attn.c_attn" in everyone
    assert not any(key.startswith("group:") for key in everyone)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_subject_can_be_replayed(family):
    """Every subject's round runs, and the model computes the same afterwards."""
    tree = tree_of(family)
    captures = capture(tree, inputs())
    rig = Rig(tree, captures, cache_bytes=1000)  # far smaller than the model: copies are made
    plan = subjects(tree, "fine")
    with torch.inference_mode():
        for subject in plan:
            with rig.round(subject) as round_:
                for call in round_:
                    call()
        again = tree.root.module(**captures["model"].kwargs).logits
    assert torch.equal(again, captures["model"].output.logits)
    measured = {name for subject in plan if subject.what != "glue" for name in subject.members}
    assert measured == {component.name for component in tree}


def test_one_module_under_two_names_is_one_component():
    """GIVEN layers that are one and the same module THEN it is one component, called twice."""
    model = tiny_models.model_class("gpt2")(tiny_models.config("gpt2")).eval()
    model.transformer.h[1] = model.transformer.h[0]
    tree = component_tree(model, load_adapter("gpt2"), "medium")
    assert [one.name for one in tree if one.kind == "layer"] == ["transformer.h.0"]
    captures = capture(tree, inputs())
    assert captures["transformer.h.0"].calls == 2
    assert not captures["transformer.h.0"].varied


def test_inputs_of_other_shapes_are_noticed():
    """A module that is called with another shape later is marked."""
    tree = tree_of("gpt2", "coarse")
    head = tree.root.module.lm_head
    original = head.forward
    tree.root.module.transformer.ln_f.register_forward_hook(lambda *_: head(torch.ones(1, 3, 16)) and None)
    head.forward = lambda hidden: original(hidden) if hidden.shape[1] == 12 else None
    assert capture(tree, inputs())["lm_head"].varied


def test_layers_that_are_built_differently_do_not_share_inputs():
    """GIVEN a layer with another MLP width THEN its sub-components are measured apart from the others'."""
    tree = tree_of("gpt2")
    mlp = tree.root.module.transformer.h[1].mlp
    mlp.c_fc.weight = torch.nn.Parameter(torch.zeros(16, 96))
    mlp.c_fc.bias = torch.nn.Parameter(torch.zeros(96))
    mlp.c_fc.nf = 96
    mlp.c_proj.weight = torch.nn.Parameter(torch.zeros(96, 16))
    members = [one.members for one in subjects(tree, "fine") if "mlp.c_proj" in one.key]
    assert members == [("transformer.h.0.mlp.c_proj",), ("transformer.h.1.mlp.c_proj",)]


def test_a_kind_that_fits_in_the_cache_is_copied():
    """GIVEN a cache larger than a kind's weights and smaller than the model THEN its round has copies too."""
    tree = tree_of("gpt2")
    rig = Rig(tree, capture(tree, inputs()), cache_bytes=4000)
    (subject,) = [one for one in subjects(tree, "fine") if one.key.endswith("attn.c_proj")]
    with rig.round(subject) as round_:
        assert len(round_) == 8
