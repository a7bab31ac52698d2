"""Components are timed in the model's own passes: what they take there, without what the clock takes."""

from __future__ import annotations

import pytest
import torch
from families import FAMILIES, inputs, tree_of
from torch import nn

from energyscope.adapters import Adapter, Part
from energyscope.components import component_tree
from energyscope.metering.modelled import ModelledMeter
from energyscope.replay import in_model
from energyscope.replay.capture import capture
from energyscope.replay.in_model import InModel
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.targets import targets

READ_S = 0.002  # what the clock below takes each time


class Clock:
    """Time that passes only where something says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += READ_S
        return self.now - READ_S / 2


class Takes(nn.Module):
    """A part that takes some seconds before and after its own parts."""

    def __init__(self, clock, seconds, *parts):
        super().__init__()
        self.clock, self.seconds = clock, seconds
        self.parts = nn.ModuleList(parts)
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        self.clock.now += self.seconds
        for part in self.parts:
            x = part(x)
        return x + 1


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(in_model, "TURN_S", 0.0)  # a pass of each level
    return Clock()


def of_parts(clock):
    """Return a model of 2 s of its own with two blocks (3 s each) of two parts (5 and 7 s)."""
    blocks = [Takes(clock, 3.0, Takes(clock, 5.0), Takes(clock, 7.0)) for _ in range(2)]
    return Takes(clock, 2.0, *blocks)


ADAPTER = Adapter(
    name="parts",
    model_types=("parts",),
    task="next-token",
    layers="parts",
    parts=(
        Part("layer", "parts.{layer}", "coarse"),
        Part("norm", "parts.{layer}.parts.0", "medium"),
        Part("mlp", "parts.{layer}.parts.1", "medium"),
    ),
)
READY = {"x": torch.zeros(1)}


def timed_parts(clock):
    """Return the plan of a model of known seconds, and what times it."""
    tree = component_tree(of_parts(clock), ADAPTER, "medium")
    timed = InModel(ReplaySetup(tree, capture(tree, READY), None), ModelledMeter(10.0), clock)
    return targets(tree, "medium", replayed=False), timed


def test_what_each_takes_in_the_model_is_told_apart(clock):
    """GIVEN parts of known seconds THEN each has its own, overhead the rest, and nothing what the clock takes."""
    plan, timed = timed_parts(clock)
    each = {key: window.time_us / 1e6 for key, window in timed.run(plan, 0.0).windows.items()}
    assert each == pytest.approx(
        {
            "node:model": 32.0,
            **{f"node:parts.{layer}": 15.0 for layer in range(2)},
            **{f"node:parts.{layer}.parts.0": 5.0 for layer in range(2)},
            **{f"node:parts.{layer}.parts.1": 7.0 for layer in range(2)},
            "glue:model": 2.0,
            "glue:parts.{layer} like parts.0": 3.0,
            "glue:parts.{layer} like parts.1": 3.0,
        },
        abs=READ_S / 100,
    )


def test_what_a_pass_does_not_call_has_no_window(clock):
    """GIVEN a part that is passed over THEN it has no window, and the others keep theirs."""
    model = of_parts(clock)
    tree = component_tree(model, ADAPTER, "medium")
    timed = InModel(ReplaySetup(tree, capture(tree, READY), None), ModelledMeter(10.0), clock)
    plan = targets(tree, "medium", replayed=False)
    for block in model.parts:
        del block.parts[:]
    windows = timed.run(plan, 0.0).windows
    assert windows["node:parts.0.parts.0"] is None
    assert windows["node:model"].time_us / 1e6 == pytest.approx(
        8.0, abs=2 * READ_S
    )  # no part tells what timing takes


def test_an_overhead_may_be_less_than_nothing_in_one_window(clock):
    """GIVEN turns of another pace THEN the difference stands, so that parts add up to the whole."""
    plan, timed = timed_parts(clock)
    own = {component.name: in_model.Timed(1.0, 1) for component in timed._setup.tree}
    overhead = timed._of(next(target for target in plan if target.key == "glue:model"), own)
    assert sum(part.seconds for part in overhead) == 1.0 - 2 * 1.0


@pytest.mark.parametrize("family", FAMILIES)
def test_every_component_of_a_model_is_timed(family):
    """Modules and functions, and the model computes the same afterwards, without a timer left in it."""
    tree = tree_of(family)
    captures = capture(tree, inputs())
    plan = targets(tree, "fine", replayed=False)
    timed = InModel(ReplaySetup(tree, captures, None), ModelledMeter(65.0))
    windows = timed.run(plan, 0.0).windows
    passes = windows["node:model"].calls
    for target in plan:
        members = target.members[:1] if target.what == "node" else target.members
        assert windows[target.key].calls == passes * sum(captures[name].calls for name in members)
    assert not any("forward" in vars(module) for module in tree.root.module.modules())
    with torch.no_grad():
        again = tree.root.module(**captures["model"].kwargs).logits
    assert torch.equal(again, captures["model"].output.logits)


def test_a_window_is_time_x_watts(clock):
    """GIVEN calls that a clock of their own timed THEN the energy of each is its seconds x watts."""
    plan, timed = timed_parts(clock)
    window = timed.run(plan, 0.0).windows["node:parts.0.parts.0"]
    assert window.energy_mj == pytest.approx(50e3, rel=1e-3)
    assert window.time_us == pytest.approx(5e6, rel=1e-3)
    assert (window.power_w, window.reason) == (10.0, None)
