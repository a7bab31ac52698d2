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
from energyscope.replay.rotation import (
    MAXIMUM_REPEATS,
    copies_needed,
    footprint_bytes,
    group_round,
    own_round,
)

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
            members = _alike(tree, component)
            found.setdefault(members[0], Subject(_key("group", component, members, tree), "group", members))
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
    seen: set[str] = set()
    for component in tree:
        if component.name in seen or not tree.children(component.name):
            continue
        members = _alike(tree, component)
        seen.update(members)
        yield Subject(_key("glue", component, members, tree), "glue", members)


def _alike(tree: ComponentTree, component: Component) -> tuple[str, ...]:
    """Return the group's components that are built alike: only these can run on each other's inputs."""
    signature = _signature(tree, component)
    return tuple(one.name for one in tree.group(component.group) if _signature(tree, one) == signature)


def _signature(tree: ComponentTree, component: Component) -> tuple[Any, ...]:
    children = tuple(child.group for child in tree.children(component.name))
    return children, tuple(tuple(parameter.shape) for parameter in component.module.parameters())


def _key(what: str, component: Component, members: tuple[str, ...], tree: ComponentTree) -> str:
    whole = len(members) == len(tree.group(component.group))
    return f"{what}:{component.group}" if whole else f"{what}:{component.group} like {members[0]}"


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
                return
            together = sum(footprint_bytes(module) for module in modules)
            repeats = min(MAXIMUM_REPEATS, copies_needed(together, self.model_bytes, self.cache_bytes))
            yield group_round(modules, capture, repeats=repeats)

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
