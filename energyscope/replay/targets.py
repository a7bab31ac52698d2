"""What is measured: components, kinds as a mean over their layers, overhead, and the model without a kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from energyscope.adapters import Granularity
from energyscope.components import Component, ComponentTree
from energyscope.grouping import group_by

Layers = Literal["mean", "all", "sample", "kinds"]
LAYERS: tuple[Layers, ...] = ("mean", "all", "sample", "kinds")
Peers = Mapping[str, tuple[str, ...]]
What = Literal["node", "group", "glue", "without", "price"]


@dataclass(frozen=True)
class Target:
    """One thing that is replayed and measured.

    ``what``: ``node`` (one component), ``group`` (a kind's mean over layers), ``glue`` (a parent's overhead: it
    runs with its children bypassed, as a mean over layers) or ``without`` (the model with all components of a
    kind bypassed); in a plan, ``price`` (linears at a precision). ``members`` are the components that get its
    value; a node is the first of them, and its value stands in for the others.
    """

    key: str
    what: What
    members: tuple[str, ...]


def targets(
    tree: ComponentTree, granularity: Granularity, layers: Layers = "mean", *, replayed: bool = True
) -> list[Target]:
    """Return what a granularity measures, the whole model first.

    Coarse measures the layers as their mean, or each with ``layers="all"``; medium every layer and block by
    itself; fine, in addition, sub-components as the mean of their kind, or one by one with ``layers="all"``. With
    ``layers="sample"`` only the first, the middle and the last layer and their blocks are measured by
    themselves, and each stands in for the layers nearest to it. With ``layers="kinds"`` everything in a layer is
    measured as the mean of its kind, and the model without a kind is not measured. Where nothing is ``replayed``,
    all is timed at once: nothing stands in for another, single components have their own overhead, and the model
    without a kind, which shows whether replay was faithful, is not measured.
    """
    layers = measured_layers(layers, replayed=replayed)
    peers, chosen = _peers(tree), dict[str, Target]()
    for component in tree:
        if _as_mean(component, granularity, layers):
            members = peers[component.name]
            chosen.setdefault(members[0], Target(_key("group", component, members, tree), "group", members))
        else:
            name = _measured_on(tree, component, peers[component.name]) if layers == "sample" else component.name
            members = chosen[name].members if name in chosen else (name,)
            others = () if component.name == name else (component.name,)
            chosen[name] = Target(f"node:{name}", "node", (*members, *others))
    alone = () if replayed else [target.members[0] for target in chosen.values() if target.what == "node"]
    checked = replayed and layers != "kinds"
    return [*chosen.values(), *_overheads(tree, peers, alone), *(_without(tree) if checked else ())]


def measured_layers(layers: Layers, *, replayed: bool) -> Layers:
    """Return how each layer is measured: a sample of them would save nothing where nothing is ``replayed``."""
    return "mean" if layers == "sample" and not replayed else layers


def _as_mean(component: Component, granularity: Granularity, layers: Layers) -> bool:
    if component.layer is None:
        return False
    if component.level == "sub-component" or layers == "kinds":
        return layers != "all"
    return granularity == "coarse" and layers == "mean"


def _measured_on(tree: ComponentTree, component: Component, names: Sequence[str]) -> str:
    """Return the peer in the nearest sampled layer: the first, the middle or the last."""
    peers = [tree[name] for name in names]
    if component.layer is None or component is peers[0]:
        return component.name
    # a first peer in a later layer fetches from another device: it represents no other
    first = peers[0] if peers[0] is tree.group(component.group)[0] else peers[1]
    sampled = (first, peers[len(peers) // 2], peers[-1])
    nearest = min(sampled, key=lambda peer: abs((peer.layer or 0) - (component.layer or 0)))
    return nearest.name


def _overheads(tree: ComponentTree, peers: Peers, alone: Collection[str]) -> Iterator[Target]:
    """Yield the overhead of each component with parts, as a mean of its peers unless it is measured ``alone``."""
    done: set[str] = set()
    for component in tree:
        if component.name in done or not tree.children(component.name):
            continue
        members = (component.name,) if component.name in alone else peers[component.name]
        done.update(members)
        yield Target(_key("glue", component, members, tree), "glue", members)


def _without(tree: ComponentTree) -> Iterator[Target]:
    """Yield the model without each kind: what it saves shows whether replay was faithful."""
    kinds = dict.fromkeys(component.kind for component in tree if component.kind != "model")
    for kind in kinds:
        members = tuple(component.name for component in tree if component.kind == kind)
        yield Target(f"without:{kind}", "without", members)


def _peers(tree: ComponentTree) -> Peers:
    """Return those of a component's group with its structure and device: these can run on each other's inputs."""
    alike = group_by(tree, lambda component: (component.group, _signature(tree, component)))
    return {each.name: names for members in alike.values() for names in [_names(members)] for each in members}


def _names(members: Sequence[Component]) -> tuple[str, ...]:
    return tuple(member.name for member in members)


def _signature(tree: ComponentTree, component: Component) -> tuple[Any, ...]:
    children = tuple(child.group for child in tree.children(component.name))
    owner = component
    while owner.parent and not any(True for _ in owner.module.parameters()):  # a function, an activation
        owner = tree[owner.parent]
    weights = list(owner.module.parameters())
    shapes, devices = tuple(tuple(each.shape) for each in weights), frozenset(each.device for each in weights)
    return children, shapes, devices, tuple(_options(module) for module in owner.module.modules())


def _options(module: nn.Module) -> frozenset[tuple[str, Any]]:
    """Return a module's switches and words; of numbers and names with digits their type: each layer has its own.

    A layer that attends to a window of the context gets another mask than one that attends to all of it.
    """
    return frozenset(
        (name, type(value) if _is_numbered(value) else value)
        for name, value in vars(module).items()
        if not name.startswith("_") and (value is None or isinstance(value, bool | int | float | str))
    )


def _is_numbered(value: object) -> bool:
    return not isinstance(value, bool) and any(character.isdigit() for character in str(value))


def _key(what: str, component: Component, members: tuple[str, ...], tree: ComponentTree) -> str:
    whole = len(members) == len(tree.group(component.group))
    return f"{what}:{component.group}" if whole else f"{what}:{component.group} like {members[0]}"
