"""Checks of what an adapter declares against a model: paths, calls, weights and matrix work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from energyscope.adapters import SDPA, Adapter, Granularity, Part
from energyscope.auto.kernels import EAGER
from energyscope.components import CACHE_KIND, Component, ComponentTree, component_tree
from energyscope.errors import ModelError
from energyscope.functions import FunctionCall, routed
from energyscope.replay.capture import capture, forward_inputs, not_called
from energyscope.replay.flops import Work, count_work
from energyscope.testing.conformance.check import Check, some

COVERED = 0.99  # of weights and of FLOPs
MOST_SUMS = 2  # layers are alike: more of them are only counted


def lenient(adapter: Adapter) -> Adapter:
    """Return the adapter with all parts optional, so that one wrong part does not hide what else is wrong."""
    return replace(adapter, parts=tuple(replace(part, optional=True) for part in adapter.parts))


def called_tree(
    model: nn.Module, adapter: Adapter, granularity: Granularity, inputs: Mapping[str, Any]
) -> ComponentTree:
    """Return the components that exist and that a forward pass calls, whatever else is declared."""
    tree = component_tree(model, lenient(adapter), granularity)
    return tree.without([component.name for component in not_called(tree, capture(tree, inputs))])


def paths(model: nn.Module, adapter: Adapter) -> Check:
    """Check that every list of layers and every part that is not optional is found in the model."""
    modules = dict(model.named_modules(remove_duplicate=False))
    stacks = [stack for stack in adapter.stacks if not list(getattr(modules.get(stack), "_modules", ()))]
    problems = [f"the model has no list of layers {stack}" for stack in stacks]
    absent: list[str] = []
    for part in adapter.parts:
        why = _unresolved(model, adapter, part)
        if why and part.optional:
            absent.append(part.name)
        elif why:
            problems.append(why)
    found = len(adapter.parts) - len(absent)
    without = f"; optional and not in this model: {some(absent)}" if absent else ""
    return Check.of("paths", problems, f"{found} of {len(adapter.parts)} parts are found{without}")


def _unresolved(model: nn.Module, adapter: Adapter, part: Part) -> str | None:
    """Return why a part is not found in a model."""
    alone = replace(adapter, parts=(replace(part, optional=True),))
    try:
        matches = len(component_tree(model, alone, "fine", kv_cache=True)) > 1
    except ModelError as error:
        return str(error)
    return None if matches else f"the model has no module {part.path}"


def calls(model: nn.Module, adapter: Adapter, inputs: Mapping[str, Any]) -> Check:
    """Check that a forward pass calls every part that is not optional, in all layers."""
    tree = component_tree(model, lenient(adapter), "fine")
    optional = {part.name for part in adapter.parts if part.optional}
    missing = not_called(tree, capture(tree, inputs))
    wrong = [component.name for component in missing if component.group not in optional]
    problems = [f"not called, and not declared optional: {some(wrong)}"] if wrong else []
    others = [component.name for component in missing if component.group in optional]
    also = f"; optional and not called: {some(others)}" if others else ""
    cached = sum(part.kind == CACHE_KIND for part in adapter.parts)
    later = "; the update of the KV cache is seen in a decode step" if cached else ""
    return Check.of("calls", problems, f"{len(tree) - 1 - len(missing)} components are called{also}{later}")


def weights(tree: ComponentTree) -> Check:
    """Check that the components of a tree, the coarse one, own 99 % of the weights."""
    sizes = {name: weight.numel() for name, weight in tree.root.module.named_parameters()}
    orphans = orphan_weights(tree)
    total = sum(sizes.values())
    share = 1 - sum(sizes[name] for name in orphans) / max(1, total)
    detail = f"{share:.2%} of {total:,} weights are in a component at coarse granularity"
    named = f"{detail}; in none: {some(orphans)}" if orphans else detail
    return Check.of("weights", [named] if share < COVERED else [], named)


def orphan_weights(tree: ComponentTree) -> list[str]:
    """Return the names of the parameters that no component owns."""
    owned = {id(weight) for component in tree.components[1:] for weight in component.module.parameters()}
    return [name for name, weight in tree.root.module.named_parameters() if id(weight) not in owned]


def once(tree: ComponentTree, shared: nn.Module | None) -> Check:
    """Check that no weight counts twice; ``shared`` is the model with a tied head, None of a family without."""
    problems = [f"{name} holds {other}, which is no part of it" for name, other in overlapping(tree)]
    for model in (tree.root.module, shared):
        problems += [] if model is None else _aliases(model)
    ties = "this family ties no head" if shared is None else "a tied head is one weight with its embedding"
    return Check.of("once", list(dict.fromkeys(problems)), f"no component holds another's module; {ties}")


def _aliases(model: nn.Module) -> list[str]:
    """Return the weights that lie in one place and are several parameters: each would be counted."""
    places: dict[int, list[str]] = {}
    for name, weight in model.named_parameters():
        places.setdefault(weight.data_ptr(), []).append(name)
    return [
        f"{' and '.join(names)} share their memory, and are not one parameter"
        for names in places.values()
        if names[1:]
    ]


def overlapping(tree: ComponentTree) -> list[tuple[str, str]]:
    """Return components of which one holds the other's module without being above it: it would count twice."""
    above: dict[str, set[str]] = {}
    for component in tree:  # parents come first
        above[component.name] = {component.parent, *above[component.parent]} if component.parent else set()
    modules = [component for component in tree.components[1:] if component.part and not component.part.function]
    inside = {component.name: set(map(id, component.module.modules())) for component in modules}
    return [
        (holder.name, other.name)
        for holder in modules
        for other in modules
        if holder is not other and holder.name not in above[other.name] and id(other.module) in inside[holder.name]
    ]


def flops(tree: ComponentTree, inputs: Mapping[str, Any]) -> Check:
    """Check that blocks, the leaves of a tree at medium granularity, do 99 % of the model's matrix work."""
    work = count_work(_with_all_modules(tree), inputs)
    if unknown := _unknown(tree, work):
        return unknown
    total = work[tree.root.name].flops or 0.0
    if not total:
        return Check("FLOPs", passed=None, detail="this model does no matrix work")
    share = sum(work[leaf.name].flops or 0.0 for leaf in tree.leaves()) / total
    orphans = _working_outside(tree, work) if share != 1 else []
    detail = f"{share:.2%} of {total:,.0f} FLOPs are in a block"
    named = f"{detail}; in none: {some(orphans)}" if orphans else detail
    return Check.of("FLOPs", [named] if abs(1 - share) > 1 - COVERED else [], named)


def _with_all_modules(tree: ComponentTree) -> ComponentTree:
    """Return a tree with all modules that lie in no leaf as further components, so that their work is counted."""
    inside = {id(module) for leaf in tree.leaves() for module in leaf.module.modules()}
    inside |= {id(component.module) for component in tree}
    others = [
        Component(name, "other", None, "block", None, module)
        for name, module in tree.root.module.named_modules()
        if id(module) not in inside and name != tree.root.name
    ]
    return ComponentTree([*tree, *others])


def _working_outside(tree: ComponentTree, work: Mapping[str, Work]) -> list[str]:
    """Return the smallest modules outside all leaves that do matrix work, and parents that do it themselves."""
    leaves, root = {leaf.name for leaf in tree.leaves()}, tree.root.name
    done = {name: item.flops for name, item in work.items() if item.flops is not None}  # those that are called
    below: Counter[str] = Counter()
    for name, count in done.items():
        if name != root:
            below[_above(name, done, root)] += int(count)
    return [
        name for name, count in done.items() if name not in leaves and count - below[name] > (1 - COVERED) * count
    ]


def _above(name: str, names: Collection[str], root: str) -> str:
    while "." in name:
        name = name.rpartition(".")[0]
        if name in names:
            return name
    return root


def sums(tree: ComponentTree, inputs: Mapping[str, Any]) -> Check:
    """Check that the parts of every component do its matrix work together, within 1 %.

    What a component does in its own code, where no function can be made a part, is told and is no problem.
    """
    work = count_work(_with_all_modules(tree), inputs)
    if unknown := _unknown(tree, work):
        return replace(unknown, name="sums")
    parents = [component for component in tree if tree.children(component.name)]
    outside = _working_outside(tree, work)
    problems, notes = [], []
    for parent, share in _apart(tree, work, parents):
        modules = [name for name in outside if name.startswith(f"{parent.name}.")]
        function = _function_called(tree, parent, inputs) if parent.name in outside else None
        text = f"{parent.name}: its parts do {share:.1%} of its FLOPs"
        if modules or function:
            problems.append(f"{text}; outside them: {some([*modules, *filter(None, [function])])}")
        elif share < 1:
            notes.append(f"{text}, its own code the rest")
        else:
            problems.append(f"{text}: some of it is counted twice, or is called elsewhere")
    whole = f"the parts of {len(parents) - len(notes)} components add up to their FLOPs"
    return Check.of("sums", _first(problems), "; ".join([whole, *_first(notes)]))


def _first(texts: list[str]) -> list[str]:
    more = [f"and {len(texts) - MOST_SUMS} more"] if len(texts) > MOST_SUMS else []
    return texts[:MOST_SUMS] + more


def _function_called(tree: ComponentTree, component: Component, inputs: Mapping[str, Any]) -> str | None:
    """Return a function of attention that a component calls itself, and that could therefore be a part."""
    model, module = tree.root.module, component.module
    for path in (SDPA, f"{type(module).__module__}.{EAGER}"):
        calls: list[str] = []
        with suppress(ModelError):  # the class's file has no such function
            call = FunctionCall(path, module)
            call.register_forward_hook(lambda *_, found=calls: found.append(""))
            with routed([call]), torch.no_grad():
                model(**forward_inputs(model, inputs))
        if calls:
            return path
    return None


def _apart(
    tree: ComponentTree, work: Mapping[str, Work], parents: list[Component]
) -> Iterator[tuple[Component, float]]:
    for parent in parents:
        whole = work[parent.name].flops or 0.0
        parts = sum(work[child.name].flops or 0.0 for child in tree.children(parent.name))
        if abs(whole - parts) > (1 - COVERED) * whole:
            yield parent, parts / whole if whole else float("inf")


def _unknown(tree: ComponentTree, work: Mapping[str, Work]) -> Check | None:
    """Return a check that says which operation's work is not known; None where all is."""
    reasons = [work[part.name].reason for part in tree if work[part.name].flops is None]
    why = reasons[0].words if reasons and reasons[0] else None
    return Check("FLOPs", passed=None, detail=f"not counted: {why}") if reasons else None
