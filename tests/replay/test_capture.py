"""What is kept of one real forward pass: of modules, and of the attention core, a function that is called."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import families
import pytest
import tiny_models
import torch
from families import FAMILIES, tree_of
from torch import Tensor
from torch.nn import functional

from energyscope.adapter_registry import load_adapter
from energyscope.adapters import SDPA, Part
from energyscope.components import ComponentTree, component_tree
from energyscope.replay.capture import Capture, capture, forward_inputs, not_called

inputs = partial(families.inputs, batch=2)


def cores(tree: ComponentTree) -> list[str]:
    return [component.name for component in tree if component.kind == "attention.core"]


def replayed(tree: ComponentTree, name: str, recorded: Capture) -> Tensor:
    with torch.inference_mode():
        output: Tensor = tree[name].module(*recorded.args, **recorded.kwargs)
    return output


@pytest.mark.parametrize("padded", [0, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_core_replays_to_the_same_output(family: str, padded: int) -> None:
    """GIVEN any family, padded or not, WHEN its core runs alone THEN it returns what it did in the model."""
    tree = tree_of(family)
    captures = capture(tree, inputs(padded=padded))
    assert len(cores(tree)) == 2
    for name in cores(tree):
        assert captures[name].calls == 1
        torch.testing.assert_close(replayed(tree, name, captures[name]), captures[name].output, rtol=0, atol=0)


def test_each_layers_core_has_its_own_inputs() -> None:
    """GIVEN two layers THEN the second core's queries come from the second layer's projection."""
    tree = tree_of("llama")
    first, second = (capture(tree, inputs())[name].args[0] for name in cores(tree))
    assert first.shape == second.shape == (2, 2, 12, 8)
    assert not torch.equal(first, second)


def test_a_cores_output_is_what_the_output_projection_is_given() -> None:
    """The core's output, heads put side by side, is the input of the projection that follows it."""
    tree = tree_of("llama")
    captures = capture(tree, inputs(padded=3))
    output = captures["model.layers.1.self_attn.core"].output
    (projection_input,) = captures["model.layers.1.self_attn.o_proj"].args
    torch.testing.assert_close(output.transpose(1, 2).flatten(2), projection_input, rtol=0, atol=0)


def test_all_arguments_of_the_core_are_kept() -> None:
    """Grouped queries and causality are flags of the call, a padding mask is a tensor: all are replayed."""
    tree = tree_of("llama")
    plain = capture(tree, inputs())[cores(tree)[0]].kwargs
    masked = capture(tree, inputs(padded=4))[cores(tree)[0]].kwargs
    assert plain["is_causal"]
    assert plain["enable_gqa"]
    assert plain["attn_mask"] is None
    assert not masked["is_causal"]
    assert masked["attn_mask"].shape == (2, 1, 12, 12)


def test_the_function_is_its_own_after_the_pass() -> None:
    """After the pass, also after one that failed inside an attention, all is as before."""
    own, tree = functional.scaled_dot_product_attention, tree_of("gpt2")
    capture(tree, inputs())
    tree["transformer.h.1.attn.c_proj"].module.register_forward_pre_hook(lambda *_: {}["no output"])
    with pytest.raises(KeyError, match="no output"):
        capture(tree, inputs())
    assert functional.scaled_dot_product_attention is own
    assert not any("forward" in module.__dict__ for module in tree.root.module.modules())


def test_an_optional_function_that_is_not_called_is_left_out() -> None:
    """GIVEN an attention that multiplies by itself THEN it has no core, and the tree without it is complete."""
    tree = tree_of("gpt2", attn_implementation="eager")
    captures = capture(tree, inputs())
    absent = not_called(tree, captures)
    assert [component.name for component in absent] == cores(tree)
    rest = tree.without([component.name for component in absent])
    assert {component.name for component in rest} == set(captures)


def test_a_function_that_is_not_called_is_none_of_what_was_called() -> None:
    """GIVEN a function that its module does not call, though declared as called, THEN it is told by name."""
    gpt2 = load_adapter("gpt2")
    wrong = Part("attention.core", "transformer.h.{layer}.mlp", "fine", function=SDPA)
    tree = tree_of("gpt2", adapter=replace(gpt2, parts=(*gpt2.parts, wrong)))
    absent = not_called(tree, capture(tree, inputs()))
    assert {component.name for component in absent} >= {f"transformer.h.{layer}.mlp.core" for layer in range(2)}


def test_inputs_may_say_that_they_use_a_cache() -> None:
    """GIVEN inputs that decide about the cache themselves THEN they are left as they are."""
    model = tree_of("gpt2").root.module
    assert forward_inputs(model, {"use_cache": True})["use_cache"] is True
    assert forward_inputs(model, {})["use_cache"] is False


@pytest.mark.parametrize("family", FAMILIES)
def test_every_component_replays_to_the_same_output(family):
    """GIVEN the captured inputs WHEN a component runs alone, twice, THEN it returns what it did in the model."""
    tree = tree_of(family)
    captures = capture(tree, inputs())
    for component in tree.components[1:]:
        recorded = captures[component.name]
        for _ in range(2):
            with torch.inference_mode():
                again = component.module(*recorded.args, **recorded.kwargs)
            torch.testing.assert_close(again, recorded.output, rtol=0, atol=0)


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


def test_a_component_that_is_never_called_has_no_capture():
    """A declared module that the forward pass skips cannot be measured, and is told by name with all in it."""
    tree = tree_of("gpt2")
    tree.root.module.transformer.h[1].forward = lambda hidden, *_args, **_kwargs: hidden
    absent = not_called(tree, capture(tree, inputs()))
    assert {component.layer for component in absent} == {1}
    assert "transformer.h.1.attn" in {component.name for component in absent}


def test_one_module_under_two_names_is_one_component():
    """GIVEN layers that are one and the same module THEN it is one component, called twice."""
    model = tiny_models.model_class("gpt2")(tiny_models.config("gpt2")).eval()
    model.transformer.h[1] = model.transformer.h[0]
    tree = component_tree(model, load_adapter("gpt2"), "medium")
    assert [component.name for component in tree if component.kind == "layer"] == ["transformer.h.0"]
    captures = capture(tree, inputs())
    assert captures["transformer.h.0"].calls == 2
    assert not captures["transformer.h.0"].varied


def test_inputs_of_other_shapes_are_noticed():
    """A module that is called with another shape later is marked."""
    tree = tree_of("gpt2")
    head = tree.root.module.lm_head
    original = head.forward
    tree.root.module.transformer.ln_f.register_forward_hook(lambda *_: head(torch.ones(1, 3, 16)) and None)
    head.forward = lambda hidden: original(hidden) if hidden.shape[1] == 12 else None
    assert capture(tree, inputs())["lm_head"].varied
