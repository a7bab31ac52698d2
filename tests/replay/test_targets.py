"""What each granularity measures: components, kinds' means, stand-ins, overhead, and the model without a kind."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from families import FAMILIES, tree_of

from energyscope.replay.targets import LAYERS, targets

SIZES = ("coarse", "medium", "fine")


def test_targets_of_each_granularity():
    """Coarse takes layers as a mean, medium each by itself, fine adds kinds' means, or all with layers=all."""
    keys = {
        size: [target.key for target in targets(tree_of("gpt2", size), size)]
        for size in ("coarse", "medium", "fine")
    }
    assert "group:transformer.h.{layer}" in keys["coarse"]
    assert {"node:transformer.h.0", "node:transformer.h.1.attn"} <= set(keys["medium"])
    assert "group:transformer.h.{layer}.attn.c_attn" in keys["fine"]
    assert "node:transformer.h.0.attn" in keys["fine"]
    assert {"glue:model", "glue:transformer.h.{layer}", "glue:transformer.h.{layer}.mlp"} <= set(keys["fine"])
    everyone = [target.key for target in targets(tree_of("gpt2"), "fine", "all")]
    assert "node:transformer.h.1.attn.c_attn" in everyone
    assert not any(key.startswith("group:") for key in everyone)


def test_what_is_timed_in_the_model_stands_for_itself():
    """GIVEN no replay THEN a sample leaves out nothing, each has its own overhead, and no kind is bypassed."""
    plan = targets(tree_of("gpt2", n_layer=5), "fine", "sample", replayed=False)
    assert all(len(target.members) == 1 for target in plan if target.what == "node")
    assert {f"glue:transformer.h.{{layer}} like transformer.h.{layer}" for layer in range(5)} <= {
        target.key for target in plan
    }
    assert {target.what for target in plan} == {"node", "group", "glue"}


def test_layers_that_are_built_differently_do_not_share_inputs():
    """GIVEN a layer with another MLP width THEN its sub-components are measured apart from the others'."""
    tree = tree_of("gpt2")
    mlp = tree.root.module.transformer.h[1].mlp
    mlp.c_fc.weight = torch.nn.Parameter(torch.zeros(16, 96))
    mlp.c_fc.bias = torch.nn.Parameter(torch.zeros(96))
    mlp.c_fc.nf = 96
    mlp.c_proj.weight = torch.nn.Parameter(torch.zeros(96, 16))
    members = [target.members for target in targets(tree, "fine") if "mlp.c_proj" in target.key]
    assert members == [("transformer.h.0.mlp.c_proj",), ("transformer.h.1.mlp.c_proj",)]


def test_layers_that_attend_to_a_window_do_not_share_the_masks_of_others():
    """GIVEN a layer whose attention slides THEN it and its layer are measured apart, their norms are not."""
    tree = tree_of("llama")
    tree.root.module.model.layers[1].self_attn.is_sliding = True
    members = members_of(targets(tree, "medium", "kinds"), "group")
    assert {names for key, names in members.items() if key.endswith("model.layers.1.self_attn")} == {
        ("model.layers.1.self_attn",)
    }
    assert members["group:model.layers.{layer}.input_layernorm"] == tuple(
        f"model.layers.{layer}.input_layernorm" for layer in range(len(tree.root.module.model.layers))
    )
    assert sum("layers.{layer} like" in key for key in members) == 2


def test_layers_that_know_their_names_and_numbers_are_alike():
    """GIVEN a name and a number of its own in each layer THEN they share one value as before."""
    tree = tree_of("llama")
    for number, layer in enumerate(tree.root.module.model.layers):
        layer.mlp.name, layer.mlp.layer_idx, layer.mlp._hook = f"layers.{number}.mlp", number, str(number)
    groups = members_of(targets(tree, "medium", "kinds"), "group")
    assert len(groups["group:model.layers.{layer}.mlp"]) == len(tree.root.module.model.layers)


def members_of(plan, what):
    return {target.key: target.members for target in plan if target.what == what}


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_component_has_one_value(family, size, layers):
    """GIVEN any granularity THEN each component is a member of one node or group, and no key is used twice."""
    tree = tree_of(family, size)
    plan = targets(tree, size, layers)
    valued = Counter(name for target in plan if target.what in {"node", "group"} for name in target.members)
    assert valued == dict.fromkeys((component.name for component in tree), 1)
    assert len({target.key for target in plan}) == len(plan)
    assert plan[0].members == ("model",)


def test_a_sample_measures_the_first_the_middle_and_the_last_layer():
    """GIVEN seven layers THEN 0, 3 and 6 are measured, and each stands in for the layers nearest to it."""
    nodes = members_of(targets(tree_of("gpt2", "medium", n_layer=7), "medium", "sample"), "node")
    layers = {key: members for key, members in nodes.items() if key.removeprefix("node:transformer.h.").isdigit()}
    numbers = {
        int(key.rpartition(".")[2]): [int(name.rpartition(".")[2]) for name in layers[key]] for key in layers
    }
    assert numbers == {0: [0, 1], 3: [3, 2, 4], 6: [6, 5]}
    assert nodes["node:transformer.h.3.attn"] == tuple(f"transformer.h.{layer}.attn" for layer in (3, 2, 4))


def test_a_sample_of_few_layers_is_all_of_them():
    """GIVEN two layers THEN sampling measures both, as without it."""
    tree = tree_of("gpt2", "medium")
    assert targets(tree, "medium", "sample") == targets(tree, "medium")


def test_a_sample_takes_sub_components_as_their_kinds_mean():
    """At fine granularity a sample changes layers and blocks only."""
    tree = tree_of("gpt2", n_layer=7)
    sampled, mean = (members_of(targets(tree, "fine", layers), "group") for layers in ("sample", "mean"))
    assert sampled == mean
    assert len(sampled["group:transformer.h.{layer}.attn.c_attn"]) == 7


def test_layers_that_are_built_differently_are_sampled_apart():
    """GIVEN a middle layer of another width THEN it stands in for none, and none for it."""
    tree = tree_of("gpt2", "medium", n_layer=7)
    mlp = tree.root.module.transformer.h[3].mlp
    mlp.c_fc.weight = torch.nn.Parameter(torch.zeros(16, 96))
    mlp.c_proj.weight = torch.nn.Parameter(torch.zeros(96, 16))
    nodes = members_of(targets(tree, "medium", "sample"), "node")
    assert nodes["node:transformer.h.3.mlp"] == ("transformer.h.3.mlp",)
    assert "transformer.h.2.mlp" in {name for key in nodes for name in nodes[key][1:]}


def test_glue_is_measured_of_every_parent():
    """Each component with children has overhead, taken as a mean over the layers that are built alike."""
    tree = tree_of("llama")
    glued = {name for members in members_of(targets(tree, "fine"), "glue").values() for name in members}
    assert glued == {component.name for component in tree if tree.children(component.name)}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_measured_without_each_kind(family):
    """Every kind but the model's own has a target that names all of its components, in all layers."""
    tree = tree_of(family)
    without = members_of(targets(tree, "fine"), "without")
    kinds = {component.kind for component in tree} - {"model"}
    assert set(without) == {f"without:{kind}" for kind in kinds}
    for kind in kinds:
        assert without[f"without:{kind}"] == tuple(component.name for component in tree if component.kind == kind)


def spread_tree():
    """Return a model of four layers, the last two of which lie on another device."""
    tree = tree_of("llama", num_hidden_layers=4)
    for name in ("model.layers.2", "model.layers.3"):
        tree[name].module.to("meta")
    return tree


def test_what_is_on_another_device_is_measured_there():
    """Layers of two devices have no common mean, and neither have activations, which hold no weights."""
    groups = [target for target in targets(spread_tree(), "fine", "kinds") if target.what == "group"]
    for kind in ("mlp", "mlp.act_fn", "self_attn.core", "self_attn"):
        members_of_kind = [
            target.members
            for target in groups
            if target.members[0].endswith(f"0.{kind}") or target.members[0].endswith(f"2.{kind}")
        ]
        assert [len(members) for members in members_of_kind] == [2, 2], kind


def test_a_layer_that_fetches_from_another_device_stands_for_itself():
    """The first layer behind a boundary waits for what comes over: it is no sample of the others."""
    nodes = {
        target.key: target.members
        for target in targets(spread_tree(), "coarse", "sample")
        if target.what == "node"
    }
    assert nodes["node:model.layers.2"] == ("model.layers.2",)
    assert nodes["node:model.layers.3"] == ("model.layers.3",)
    assert nodes["node:model.layers.0"] == ("model.layers.0",)
