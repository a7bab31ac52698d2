"""Sets a subject up for replay: its round of calls, on inputs of a real forward pass, caches as in the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn

from energyscope.components import Component, ComponentTree
from energyscope.replay.bypass import bypassed
from energyscope.replay.calls import Call
from energyscope.replay.capture import Capture
from energyscope.replay.rotation import MAXIMUM_REPEATS, copies_needed, footprint_bytes, group_round, own_round
from energyscope.replay.subjects import Subject


class Rig:
    """A tree, what its components were given, and the size of the device's cache (bytes, None if unknown)."""

    def __init__(self, tree: ComponentTree, captures: Mapping[str, Capture], cache_bytes: int | None) -> None:
        self.tree = tree
        self.captures = captures
        self.cache_bytes = cache_bytes
        self.model_bytes = footprint_bytes(tree.root.module)

    @contextmanager
    def round(self, subject: Subject) -> Iterator[list[Call]]:
        """Yield the subject's round of calls; what was changed for it is restored afterwards."""
        members = [self.tree[name] for name in subject.members]
        if subject.what == "node":
            yield self._node_round(members[0])
        elif subject.what == "group":
            yield self._group_round(members)
        elif subject.what == "glue":
            with bypassed(self._inside(members)):
                yield group_round([member.module for member in members], self.captures[_middle(members).name])
        else:
            with bypassed([(member.module, self.captures[member.name].output) for member in members]):
                yield self._node_round(self.tree.root)

    def _node_round(self, component: Component) -> list[Call]:
        capture = self.captures[component.name]
        if component.kind == "model":
            return [partial(component.module, **capture.kwargs)]
        instances = copies_needed(footprint_bytes(component.module), self.model_bytes, self.cache_bytes)
        return own_round(component.module, capture, instances=instances, kind=component.kind)

    def _group_round(self, members: Sequence[Component]) -> list[Call]:
        modules = [member.module for member in members]
        together = sum(footprint_bytes(module) for module in modules)
        repeats = min(MAXIMUM_REPEATS, copies_needed(together, self.model_bytes, self.cache_bytes))
        return group_round(modules, self.captures[_middle(members).name], repeats=repeats)

    def _inside(self, members: Sequence[Component]) -> list[tuple[nn.Module, Any]]:
        """Return all members' children with the outputs that the middle member's children gave.

        All members of a group share the input of one of them, so they share its children's outputs too.
        """
        recorded = [self.captures[child.name].output for child in self.tree.children(_middle(members).name)]
        return [
            (child.module, output)
            for member in members
            for child, output in zip(self.tree.children(member.name), recorded, strict=True)
        ]


def _middle(members: Sequence[Component]) -> Component:
    """Return the member whose inputs stand for the kind: the first and last layers are the least typical."""
    return members[len(members) // 2]
