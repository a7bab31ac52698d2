"""What a plan replays: the groups of a family at each precision, and the whole model with a choice applied."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn

from energyscope.accounting.records import APPLIED
from energyscope.components import ROOT, Component, ComponentTree
from energyscope.planning.groups import LinearGroup
from energyscope.planning.layers import Layers, bytes_of, exchanged, layer_in
from energyscope.replay.calls import Call
from energyscope.replay.capture import Capture
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.rotation import copies_needed
from energyscope.replay.targets import Target

MODEL = Target(f"node:{ROOT}", "node", (ROOT,))


def price_target(family: str, precision: str) -> Target:
    """Return the target whose windows are what a group of a family costs at a precision."""
    return Target(f"price:{precision}:{family}", "price", ())


def applied_target(name: str) -> Target:
    """Return the target whose windows are the whole model with a choice applied."""
    return Target(f"{APPLIED}{name}", "node", (ROOT,))


def tree_of(model: nn.Module, representatives: Sequence[LinearGroup]) -> ComponentTree:
    """Return the model and the linears whose inputs are to be captured."""
    linears = [
        Component(path, group.kind, group.layer, "sub-component", ROOT, model.get_submodule(path))
        for group in representatives
        for path in group.paths
    ]
    return ComponentTree([Component(ROOT, "model", None, "model", None, model), *linears])


class PlanSetup(ReplaySetup):
    """Rounds of calls for a plan's targets; the model itself is replayed as in a profile."""

    def __init__(self, tree: ComponentTree, captures: Mapping[str, Capture], cache_bytes: int | None) -> None:
        super().__init__(tree, captures, cache_bytes)
        self._rounds: dict[str, list[Call]] = {}
        self._layers: dict[str, Layers] = {}

    def price(self, groups: Sequence[LinearGroup], precision: str, *, own: bool = False) -> int:
        """Set up the replay of a family's ``groups`` at a precision, or their own; return the bytes of one.

        A call computes all linears of one group, on the inputs of the middle one; a round has as many groups as
        it takes for their weights to come from memory, as in the model.

        Raises:
            ModelError: a layer cannot be made.

        """
        model: Any = self.tree.root.module
        inputs = [self._staged(self.tree[path]) for path in middle(groups).paths]

        def made(group: LinearGroup, *, again: bool) -> list[nn.Module]:
            linears = [model.get_submodule(path) for path in group.paths]
            if own:
                return copy.deepcopy(linears) if again else linears
            return [layer_in(each, precision, path) for each, path in zip(linears, group.paths, strict=True)]

        instances = [made(groups[0], again=False)]
        size = bytes_of(instances[0])
        more = copies_needed(size, self.model_bytes, self.cache_bytes) - 1
        instances += [
            made(group, again=number >= len(groups))
            for number, group in enumerate(itertools.islice(itertools.cycle(groups), 1, 1 + more), start=1)
        ]
        key = price_target(groups[0].family, precision).key
        self._rounds[key] = [_call(layers, inputs) for layers in instances]
        return size

    def apply(self, name: str, layers: Layers) -> None:
        """Set up the replay of the whole model with layers in the place of some of its linears."""
        self._layers[applied_target(name).key] = layers

    def clear(self) -> None:
        """Free the layers."""
        self._rounds.clear()
        self._layers.clear()

    @contextmanager
    def round(self, target: Target) -> Iterator[list[Call]]:
        """Yield a target's round of calls; the model is as it was afterwards."""
        if target.key in self._rounds:
            yield self._rounds[target.key]
            return
        with exchanged(self.tree.root.module, self._layers.get(target.key, {})), super().round(target) as round_:
            yield round_

    def overhead(self, target: Target) -> list[Call]:
        """Return what each of the target's calls does besides its own work: linears write to no input."""
        return [] if target.key in self._rounds else super().overhead(target)


def middle(groups: Sequence[LinearGroup]) -> LinearGroup:
    """Return the group on whose inputs its family is priced: first and last layers are the least typical."""
    return groups[len(groups) // 2]


def _call(layers: Sequence[nn.Module], inputs: Sequence[Capture]) -> Call:
    pairs = zip(layers, inputs, strict=True)
    calls = [partial(layer, *captured.args, **captured.kwargs) for layer, captured in pairs]
    if len(calls) == 1:
        return calls[0]

    def step() -> Any:
        return [call() for call in calls]

    return step
