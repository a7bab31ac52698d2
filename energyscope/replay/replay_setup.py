"""Sets up a target for replay: its round of calls, on inputs of a real forward pass, caches as in the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from energyscope.components import Component, ComponentTree
from energyscope.functions import FunctionCall, answered, exchanged_forward
from energyscope.kv_cache import cache_bytes as kept_bytes
from energyscope.kv_cache import cache_storages, caches_in, in_cache, states_put_back
from energyscope.replay.activations import staged
from energyscope.replay.calls import Call
from energyscope.replay.capture import Capture
from energyscope.replay.rotation import (
    MAXIMUM_REPEATS,
    calls_of,
    copies_needed,
    footprint_bytes,
    group_round,
    own_round,
    restoring,
    waits_on_host,
)
from energyscope.replay.targets import Target
from energyscope.replay.tensors import tensors_in


class ReplaySetup:
    """A tree, what its components were given, and the size of the device's cache (bytes, None if unknown)."""

    def __init__(self, tree: ComponentTree, captures: Mapping[str, Capture], cache_bytes: int | None) -> None:
        self.tree = tree
        self.captures = captures
        self.cache_bytes = cache_bytes
        root_inputs = captures[tree.root.name].kwargs
        self.kept = cache_storages(root_inputs)
        layers = sum(len(cache.layers) for cache in caches_in(root_inputs))
        self.layer_bytes = kept_bytes(root_inputs) // max(1, layers)
        self.model_bytes = footprint_bytes(tree.root.module) + kept_bytes(root_inputs)

    @contextmanager
    def round(self, target: Target) -> Iterator[list[Call]]:
        """Yield the target's round of calls; what was changed for it is restored afterwards."""
        with states_put_back(self.captures[self.tree.root.name].kwargs), self._round(target) as round_:
            yield round_

    @contextmanager
    def _round(self, target: Target) -> Iterator[list[Call]]:
        members = [self.tree[name] for name in target.members]
        component = self._run_on(target)
        if target.what == "node":
            yield self._node_round(component)
        elif target.what == "group":
            yield self._group_round(members, component)
        elif target.what == "glue":
            with bypassed(self._inside(members, component)):
                yield group_round([member.module for member in members], self._staged(component))
        else:
            with bypassed([(member.module, self._output(member)) for member in members]):
                yield self._node_round(component)

    def device_of(self, target: Target) -> torch.device | None:
        """Return the device on which a target's work ends: that of its output, None where it has no tensor."""
        output = self.captures[self._run_on(target).name].output
        return next((getattr(tensor, "home", tensor.device) for tensor in tensors_in(output)), None)

    def overhead(self, target: Target) -> list[Call]:
        """Return what each of the target's calls does besides its own work: nothing, or restoring its inputs."""
        return restoring(self._staged(self._run_on(target)))

    def _run_on(self, target: Target) -> Component:
        """Return the component whose captured inputs a target is run on.

        For a group it is the middle member: the first and the last layer are the least typical.
        """
        if target.what == "without":
            return self.tree.root
        return self.tree[target.members[0 if target.what == "node" else len(target.members) // 2]]

    def _staged(self, component: Component) -> Capture:
        """Return what a component was given, on its device: it may be stored on the host."""
        capture = self.captures[component.name]
        return replace(capture, args=staged(capture.args), kwargs=staged(capture.kwargs))

    def _output(self, component: Component) -> Any:
        return staged(self.captures[component.name].output)

    def _node_round(self, component: Component) -> list[Call]:
        capture = self._staged(component)
        if component.kind == "model":
            return calls_of([component.module], capture)
        cache_share = self.layer_bytes if self._reads_kept(component) else 0
        own_bytes = footprint_bytes(component.module) + cache_share
        instances = copies_needed(own_bytes, self.model_bytes, self.cache_bytes)
        if waits_on_host(component.module):  # its weights are new to the device at every call
            instances = 1
        if cache_share and isinstance(component.module, FunctionCall):
            group = self.tree.group(component.group)
            index = [member.name for member in group].index(component.name)
            return self._in_turn([*group[index:], *group[:index]][:instances])
        return own_round(component.module, capture, instances=instances, kind=component.kind)

    def _group_round(self, members: Sequence[Component], component: Component) -> list[Call]:
        if self._reads_kept(component) and isinstance(component.module, FunctionCall):
            return self._in_turn(members)
        modules = [member.module for member in members]
        total_bytes = sum(footprint_bytes(module) for module in modules)
        repeats = min(MAXIMUM_REPEATS, copies_needed(total_bytes, self.model_bytes, self.cache_bytes))
        if any(waits_on_host(module) for module in modules):
            repeats = 1
        return group_round(modules, self._staged(component), repeats=repeats)

    def _in_turn(self, members: Sequence[Component]) -> list[Call]:
        """Return a round over a function's calls in several layers, each on its own inputs.

        A module knows its own layer of a KV cache; a function gets it as an argument.
        """
        return [call for member in members for call in calls_of([member.module], self._staged(member))]

    def _reads_kept(self, component: Component) -> bool:
        """Tell whether a component reads keys and values of a KV cache that no kernel just wrote."""
        capture = self.captures[component.name]
        inputs = (capture.args, capture.kwargs)
        return any(caches_in(inputs)) or any(in_cache(tensor, self.kept) for tensor in tensors_in(inputs))

    def _inside(self, members: Sequence[Component], component: Component) -> list[tuple[nn.Module, Any]]:
        """Return all members' children with the outputs of one member's children.

        All members of a group share the input of one of them, so they share its children's outputs too, except
        memory of a KV cache, which is another one in each layer.
        """
        recorded = [self._output(child) for child in self.tree.children(component.name)]
        return [
            (child.module, self._output(child) if self._is_kept(child) else output)
            for member in members
            for child, output in zip(self.tree.children(member.name), recorded, strict=True)
        ]

    def _is_kept(self, component: Component) -> bool:
        """Tell whether a component's output is memory of a KV cache."""
        return any(in_cache(tensor, self.kept) for tensor in tensors_in(self.captures[component.name].output))


@contextmanager
def bypassed(modules: Iterable[tuple[nn.Module, Any]]) -> Iterator[None]:
    """Make modules return recorded outputs instead of computing them, and restore them afterwards.

    What is left of the parent's time and energy is its overhead: residual additions, mask building, Python and
    launch overhead. The call itself (``nn.Module.__call__``) stays, as it does in the model. For a
    `FunctionCall`, the caller's calls of the function return the recorded output.
    """
    with ExitStack() as stack:
        for module, output in modules:
            stack.enter_context(_bypass(module, output))
        yield


def _bypass(module: nn.Module, output: Any) -> AbstractContextManager[None]:
    def recorded(*_args: Any, **_kwargs: Any) -> Any:
        return output

    return answered(module, recorded) if isinstance(module, FunctionCall) else exchanged_forward(module, recorded)
