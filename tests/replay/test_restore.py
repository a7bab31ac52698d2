"""Components that write into their own inputs are replayed on them as they were."""

from __future__ import annotations

import torch
from torch import nn

from energyscope.adapters import Adapter, Part
from energyscope.components import component_tree
from energyscope.replay.capture import capture
from energyscope.replay.rotation import calls_of, restoring


class Adding(nn.Module):
    """Adds 1 to its second input, in place, and to its first one out of place."""

    def forward(self, x, y):
        y.add_(1)
        return x + 1 + y


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.adding = Adding()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(self.adding(x, torch.zeros_like(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer()])

    def forward(self, x):
        return self.layers[0](x)


ADAPTER = Adapter(
    name="adding",
    model_types=("adding",),
    task="classification",
    layers="layers",
    parts=(
        Part("layer", "layers.{layer}", "coarse"),
        Part("other", "layers.{layer}.adding", "medium"),
        Part("mlp", "layers.{layer}.linear", "medium"),
    ),
)


def captured():
    tree = component_tree(Model().eval(), ADAPTER, "fine")
    return tree, capture(tree, {"x": torch.ones(2, 4)})


def test_what_a_component_writes_to_is_found():
    """GIVEN a component that adds to its second input in place THEN that position, and no other, is altered."""
    _, captures = captured()
    assert captures["layers.0.adding"].altered == (1,)
    assert captures["layers.0.linear"].altered == ()
    assert captures["layers.0"].altered == ()


def test_replay_gives_the_same_output_every_time():
    """WHEN such a component is replayed three times THEN each gives what it gave in the model."""
    tree, captures = captured()
    recorded = captures["layers.0.adding"]
    (call,) = calls_of([tree["layers.0.adding"].module], recorded)
    for _ in range(3):
        torch.testing.assert_close(call(), recorded.output, rtol=0, atol=0)


def test_only_such_components_have_something_to_restore():
    """Restoring is an overhead of components that write to their inputs, and of no other."""
    _, captures = captured()
    assert len(restoring(captures["layers.0.adding"])) == 1
    assert restoring(captures["layers.0.linear"]) == []
