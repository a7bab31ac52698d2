"""Bypassing a parent's children: modules, and functions that it calls, return what was recorded."""

from __future__ import annotations

import pytest
import torch
from families import FAMILIES, inputs, tree_of
from torch.nn import functional

from energyscope.components import ComponentTree
from energyscope.replay.capture import Capture, capture
from energyscope.replay.replay_setup import bypassed


@pytest.fixture(scope="module")
def tree() -> ComponentTree:
    return tree_of("llama")


@pytest.fixture(scope="module")
def captures(tree: ComponentTree) -> dict[str, Capture]:
    return capture(tree, {"input_ids": torch.arange(12).reshape(1, 12)})


@torch.inference_mode()
def logits(tree: ComponentTree, captures: dict[str, Capture]) -> torch.Tensor:
    output: torch.Tensor = tree.root.module(**captures["model"].kwargs).logits
    return output


def test_a_bypassed_core_is_not_computed(tree: ComponentTree, captures: dict[str, Capture]) -> None:
    """GIVEN another recorded output WHEN the core is bypassed THEN the attention goes on with that one."""
    attention = "model.layers.1.self_attn"
    recorded, core = captures[attention], captures[f"{attention}.core"]
    zeros = torch.zeros_like(core.output)
    with bypassed([(tree[f"{attention}.core"].module, zeros)]), torch.inference_mode():
        output, _ = tree[attention].module(*recorded.args, **recorded.kwargs)
    assert torch.equal(output, torch.zeros_like(output))  # no bias in its projections


def test_each_layers_core_returns_its_own_record(tree: ComponentTree, captures: dict[str, Capture]) -> None:
    """GIVEN the cores of all layers bypassed at once, in any order, THEN the model computes what it did."""
    names = [component.name for component in tree if component.kind == "attention.core"]
    records = [(tree[name].module, captures[name].output) for name in reversed(names)]
    with bypassed(records):
        assert torch.equal(logits(tree, captures), captures["model"].output.logits)


def test_nested_bypasses_are_restored_one_by_one(tree: ComponentTree, captures: dict[str, Capture]) -> None:
    """GIVEN one layer's bypass inside another's THEN leaving the inner one leaves the outer one in place."""
    own = functional.scaled_dot_product_attention
    first, second = (tree[f"model.layers.{layer}.self_attn.core"] for layer in (0, 1))
    zeros = torch.zeros_like(captures[first.name].output)
    with bypassed([(first.module, zeros)]):
        outer = logits(tree, captures)
        with bypassed([(second.module, zeros)]):
            both = logits(tree, captures)
        assert torch.equal(logits(tree, captures), outer)
    expected = captures["model"].output.logits
    assert len({result.sum().item() for result in (outer, both, expected)}) == 3
    assert torch.equal(logits(tree, captures), expected)
    assert functional.scaled_dot_product_attention is own


def test_a_core_can_be_replayed_while_bypassed(tree: ComponentTree, captures: dict[str, Capture]) -> None:
    """The component itself computes, while its caller's calls are answered from the record."""
    name = "model.layers.0.self_attn.core"
    recorded = captures[name]
    with bypassed([(tree[name].module, torch.zeros_like(recorded.output))]), torch.inference_mode():
        assert torch.equal(tree[name].module(*recorded.args, **recorded.kwargs), recorded.output)


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
        recorded = captures[parent.name]
        with bypassed(outputs), torch.inference_mode():
            result = parent.module(*recorded.args, **recorded.kwargs)
        expected = recorded.output if isinstance(recorded.output, torch.Tensor) else recorded.output[0]
        actual = result if isinstance(result, torch.Tensor) else result[0]
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


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
