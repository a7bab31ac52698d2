"""What is measured: single components, kinds as a mean over their layers, and the glue of parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import nn

from energyscope.adapters import Granularity
from energyscope.components import Component, ComponentTree
from energyscope.replay.bypass import bypassed
from energyscope.replay.capture import Capture
from energyscope.replay.replayer import Call
from energyscope.replay.rotation import copies_needed, footprint_bytes, group_round, own_round

Layers = Literal["mean", "all"]


@dataclass(frozen=True)
class Subject:
    """One thing that is replayed and measured.

    ``what``: ``node`` (one component), ``group`` (a kind's mean over layers) or ``glue`` (a parent with its
    children bypassed, as a mean over layers). ``members`` are the components whose value it gives.
    """

    key: str
    what: Literal["node", "group", "glue"]
    members: tuple[str, ...]


def subjects(tree: ComponentTree, granularity: Granularity, layers: Layers = "mean") -> list[Subject]:
    """Return what a granularity measures, the whole model first.

    Coarse measures the layers as their mean; medium every layer and block by itself; fine, in addition,
    sub-components as the mean of their kind over the layers, or one by one with ``layers="all"``.
    """
    found: dict[str, Subject] = {}
    for component in tree:
        if _as_mean(component, granularity, layers):
            members = tuple(member.name for member in tree.group(component.group))
            found.setdefault(component.group, Subject(f"group:{component.group}", "group", members))
        else:
            found[component.name] = Subject(f"node:{component.name}", "node", (component.name,))
    return [*found.values(), *_glue(tree)]


def _as_mean(component: Component, granularity: Granularity, layers: Layers) -> bool:
    if component.layer is None:
        return False
    if granularity == "coarse":
        return True
    return component.level == "sub-component" and layers == "mean"


def _glue(tree: ComponentTree) -> Iterator[Subject]:
    seen = set()
    for component in tree:
        if component.group in seen or not tree.children(component.name):
            continue
        seen.add(component.group)
        members = tuple(member.name for member in tree.group(component.group))
        yield Subject(f"glue:{component.group}", "glue", members)


class Rig:
    """Sets a subject up for replay: a tree, what its components were given, and the device's cache."""

    def __init__(self, tree: ComponentTree, captures: Mapping[str, Capture], cache_bytes: int | None) -> None:
        self.tree = tree
        self.captures = captures
        self.cache_bytes = cache_bytes
        self.model_bytes = footprint_bytes(tree.root.module)

    @contextmanager
    def round(self, subject: Subject) -> Iterator[list[Call]]:
        """Yield the subject's round of calls; what was changed for it is restored afterwards."""
        members = [self.tree[name] for name in subject.members]
        # the middle layer's inputs stand for the kind: the first and last are the least typical
        middle = members[len(members) // 2]
        capture = self.captures[middle.name]
        modules = [member.module for member in members]
        with ExitStack() as stack:
            if subject.what == "node":
                yield self._node_round(middle, capture)
                return
            if subject.what == "glue":
                for member in members:
                    stack.enter_context(bypassed(self._outputs(member, middle)))
            yield group_round(modules, capture)

    def _node_round(self, component: Component, capture: Capture) -> list[Call]:
        if component.kind == "model":
            return [partial(component.module, **capture.kwargs)]
        instances = copies_needed(footprint_bytes(component.module), self.model_bytes, self.cache_bytes)
        return own_round(component.module, capture, instances=instances, kind=component.kind)

    def _outputs(self, member: Component, like: Component) -> list[tuple[nn.Module, Any]]:
        """Return a member's children with the outputs that the children of ``like`` gave.

        All members of a group share the input of one of them, so they share its children's outputs too.
        """
        own = self.tree.children(member.name)
        recorded = self.tree.children(like.name)
        return [
            (child.module, self.captures[other.name].output) for child, other in zip(own, recorded, strict=True)
        ]
