"""The component tree: parts found among the modules of real, tiny models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_models import config, model_class
from torch import nn

from energyscope.adapter_registry import load_adapter
from energyscope.adapters import Part
from energyscope.components import ROOT, ComponentTree, component_tree
from energyscope.errors import ModelError
from energyscope.functions import FunctionCall

GPT2 = load_adapter("gpt2")


@pytest.fixture(scope="module")
def model() -> nn.Module:
    with torch.device("meta"):
        model: nn.Module = model_class("gpt2")(config("gpt2", n_layer=11))
    return model


@pytest.fixture(scope="module")
def fine(model: nn.Module) -> ComponentTree:
    return component_tree(model, GPT2, "fine")


def test_root_is_the_model(model: nn.Module, fine: ComponentTree) -> None:
    """The tree's root is the model itself, and everything else hangs below it."""
    assert (fine.root.name, fine.root.kind, fine.root.parent) == (ROOT, "model", None)
    assert fine.root.module is model
    assert all(component.parent is not None for component in list(fine)[1:])


def test_parents_come_before_their_children(fine: ComponentTree) -> None:
    """GIVEN the tree's order THEN a component's parent has been seen before it."""
    seen: set[str] = set()
    for component in fine:
        assert component.parent is None or component.parent in seen
        seen.add(component.name)


def test_parent_is_the_nearest_component_above(fine: ComponentTree) -> None:
    """A sub-component hangs below its block, a block below its layer, a layer below the model."""
    name: str | None = "transformer.h.3.attn.c_attn"
    chain = []
    while name is not None:
        chain.append(fine[name].level)
        name = fine[name].parent
    assert chain == ["sub-component", "block", "layer", "model"]


def test_coarse_tree_skips_what_is_finer(model: nn.Module) -> None:
    """WHEN the granularity is coarse THEN layers are leaves and blocks are absent."""
    tree = component_tree(model, GPT2, "coarse")
    assert tree.children("transformer.h.0") == []
    assert {component.kind for component in tree.leaves()} == {"embedding", "layer", "norm", "lm_head"}


def test_children_of_a_layer_are_in_the_order_of_the_model(fine: ComponentTree) -> None:
    """The blocks of a layer come in the order in which the model declares them."""
    kinds = [component.kind for component in fine.children("transformer.h.0")]
    assert kinds == ["norm", "attention", "norm", "mlp"]


def test_layers_are_numbered_beyond_nine(fine: ComponentTree) -> None:
    """GIVEN eleven layers THEN a group has one component a layer, in numerical order."""
    group = fine.group("transformer.h.{layer}.mlp.c_fc")
    assert [component.layer for component in group] == list(range(11))
    assert len({id(component.module) for component in group}) == 11


def test_components_outside_layers_have_no_layer(fine: ComponentTree) -> None:
    """The embedding and the head belong to no layer."""
    assert fine["transformer.wte"].layer is None
    assert fine["lm_head"].layer is None


def test_leaves_are_those_without_children(fine: ComponentTree) -> None:
    """A component is a leaf or a parent, never both."""
    leaves = {component.name for component in fine.leaves()}
    parents = {component.name for component in fine if fine.children(component.name)}
    assert leaves.isdisjoint(parents)
    assert len(leaves) + len(parents) == len(fine)


def test_missing_part_is_refused_unless_optional(model: nn.Module) -> None:
    """GIVEN a part that the model lacks THEN it is an error, or left out where the adapter says optional."""
    absent = Part("rotary", "transformer.rotary", "coarse")
    with pytest.raises(ModelError, match=r"expects a module 'transformer\.rotary'"):
        component_tree(model, replace(GPT2, parts=(*GPT2.parts, absent)), "coarse")
    optional = replace(absent, optional=True)
    tree = component_tree(model, replace(GPT2, parts=(*GPT2.parts, optional)), "coarse")
    assert len(tree) == len(component_tree(model, GPT2, "coarse"))


def test_a_function_is_a_child_of_the_module_that_calls_it(model: nn.Module, fine: ComponentTree) -> None:
    """The attention core is a sub-component of its attention, with that attention as its caller."""
    core = fine["transformer.h.3.attn.core"]
    assert (core.kind, core.layer, core.level) == ("attention.core", 3, "sub-component")
    assert core.parent == "transformer.h.3.attn"
    assert isinstance(core.module, FunctionCall)
    assert core.module.caller is fine["transformer.h.3.attn"].module
    assert core.module not in set(model.modules())


def test_a_functions_group_is_not_its_callers(fine: ComponentTree) -> None:
    """GIVEN eleven layers THEN the cores are a group, and the attentions another."""
    cores = fine.group("transformer.h.{layer}.attn.core")
    assert [core.layer for core in cores] == list(range(11))
    assert {core.kind for core in cores} == {"attention.core"}
    assert {component.kind for component in fine.group("transformer.h.{layer}.attn")} == {"attention"}


def test_a_function_appears_at_its_granularity(model: nn.Module) -> None:
    """GIVEN a core that is declared fine WHEN the granularity is medium THEN attentions are leaves."""
    tree = component_tree(model, GPT2, "medium")
    assert tree.children("transformer.h.0.attn") == []


def test_a_function_that_does_not_exist_is_an_error(model: nn.Module) -> None:
    """GIVEN a function of another version THEN the error names it."""
    gone = Part("attention.core", "transformer.h.{layer}.mlp", "fine", function="torch.nn.functional.gone")
    with pytest.raises(ModelError, match=r"no function 'torch\.nn\.functional\.gone'"):
        component_tree(model, replace(GPT2, parts=(*GPT2.parts, gone)), "fine")


def test_a_shared_module_has_its_function_once() -> None:
    """GIVEN layers that are one and the same module THEN its attention core is one component."""
    shared: Any = model_class("gpt2")(config("gpt2"))
    shared.transformer.h[1] = shared.transformer.h[0]
    cores = [
        component.name for component in component_tree(shared, GPT2, "fine") if component.kind == "attention.core"
    ]
    assert cores == ["transformer.h.0.attn.core"]


def test_without_leaves_out_what_is_below(fine: ComponentTree) -> None:
    """GIVEN a parent's name THEN the tree without it lacks its children too, and keeps the order of the rest."""
    rest = fine.without(["transformer.h.3.attn", "transformer.h.4.attn.core"])
    gone = {component.name for component in fine} - {component.name for component in rest}
    attention = {"transformer.h.3.attn", *(child.name for child in fine.children("transformer.h.3.attn"))}
    assert gone == attention | {"transformer.h.4.attn.core"}
    assert [component.name for component in rest] == [
        component.name for component in fine if component.name not in gone
    ]
    assert len(fine.without([])) == len(fine)


def test_layers_of_several_stacks_are_numbered_through() -> None:
    """GIVEN an encoder of two layers, a decoder of three, THEN the decoder's first is layer 2 by its own name."""
    model = nn.ModuleDict(
        {
            "encoder": nn.ModuleList(nn.ModuleDict({"mlp": nn.Linear(2, 2)}) for _ in range(2)),
            "decoder": nn.ModuleList(nn.ModuleDict({"mlp": nn.Linear(2, 2)}) for _ in range(3)),
        }
    )
    stacks = ("encoder", "decoder")
    parts = [
        Part(*part)
        for stack in stacks
        for part in (
            ("layer", f"{stack}.{{layer}}", "coarse"),
            ("mlp", f"{stack}.{{layer}}.mlp", "medium"),
        )
    ]
    tree = component_tree(model, replace(GPT2, layers=stacks, parts=tuple(parts)), "fine")
    assert [part.layer for part in tree if part.kind == "layer"] == [0, 1, 2, 3, 4]
    assert (tree["decoder.0.mlp"].layer, tree["decoder.0.mlp"].parent) == (2, "decoder.0")
