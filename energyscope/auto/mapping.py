"""The adapter of a model without one, made from its configuration, and all that a reader needs to judge it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from energyscope.adapters import BY_STRUCTURE, Adapter, Granularity, Part
from energyscope.auto.probe import Calls, called_components, called_on
from energyscope.auto.reach import unreached
from energyscope.auto.structure import OTHER, Finding, find_parts
from energyscope.auto.tasks import EMBEDDING, AutoTask, task_of
from energyscope.components import Component, ComponentTree, component_tree
from energyscope.errors import ModelError

_UNNAMED = {OTHER, "layer", "model"}


@dataclass(frozen=True)
class StructureMap:
    """Parts found by structure, and what one forward pass called of them.

    ``found`` are all findings, ``model`` the model without weights that they were found in; ``calls`` is what its
    forward pass called.
    """

    model: Any
    task: AutoTask
    stacks: tuple[str, ...]
    found: tuple[Finding, ...]
    tree: ComponentTree
    calls: Calls

    @cached_property
    def layers(self) -> str | tuple[str, ...]:
        """The path of the stack of layers, or of all that the pass calls, in the order of their calls."""
        first = {name: place for place, name in reversed(list(enumerate(self.calls.order)))}
        calls = {
            stack: min((first[name] for name in first if name.startswith(f"{stack}.")), default=None)
            for stack in self.stacks
        }
        called = {stack: place for stack, place in calls.items() if place is not None}
        ordered = (
            self.stacks if self.calls.failure or not called else tuple(sorted(called, key=called.__getitem__))
        )
        return ordered[0] if len(ordered) == 1 else ordered

    @property
    def missing(self) -> list[Component]:
        """The components, functions aside, that the forward pass did not call."""
        return [
            component
            for component in self.tree.components[1:]
            if component.name not in self.calls.names and not (component.part and component.part.function)
        ]

    @cached_property
    def not_called(self) -> dict[str, str]:
        """The parts, functions aside, that the pass did not call, and in how many layers; empty if it failed."""
        if self.calls.failure:
            return {}
        groups = Counter(component.group for component in self.tree.components[1:])
        missing = Counter(component.group for component in self.missing)
        reasons = {component.group: self.unreached.get(component.name) for component in self.missing}
        return {
            name: f"{missing[name]} of {groups[name]}" + (f": {reasons[name]}" if reasons[name] else "")
            for name in groups
            if missing[name]
        }

    @cached_property
    def unreached(self) -> dict[str, str]:
        """Those of the missing that the task's inputs do not lead to, each with the reason."""
        reasons = {} if self.calls.failure else unreached(self.tree, self.calls.names)
        return {item.name: reasons[item.name] for item in self.missing if item.name in reasons}

    @cached_property
    def kept(self) -> tuple[Finding, ...]:
        """The findings that become the adapter's parts: what is called; optional if not always, or not known."""
        groups: dict[str, list[bool]] = {}
        for component in self.tree.components[1:]:
            called = bool(self.calls.failure) or component.name in self.calls.names
            groups.setdefault(component.group, []).append(called)
        called_in_all = {name: all(calls) and not self.calls.failure for name, calls in groups.items()}
        return tuple(
            item if called_in_all[item.part.name] else replace(item, part=replace(item.part, optional=True))
            for item in self.found
            if any(groups.get(item.part.name, ()))
        )

    @cached_property
    def adapter(self) -> Adapter:
        """The adapter of the parts that are called."""
        return Adapter(
            name=BY_STRUCTURE,
            model_types=(_type_of(self.model),),
            task=self.task.task,
            auto_class=self.task.auto_class,
            layers=self.layers,
            dataset=self.task.dataset,
            parts=_parts(self.kept),
        )

    @cached_property
    def parameters(self) -> int:
        """The number of weights, tied ones counted once."""
        return sum(weight.numel() for weight in self.model.parameters())

    @cached_property
    def in_no_part(self) -> dict[str, int]:
        """The weights that no part owns, by name, with their number."""
        tree = component_tree(self.model, self.adapter, "fine")
        owned = {id(weight) for component in tree.components[1:] for weight in component.module.parameters()}
        return {name: weight.numel() for name, weight in self.model.named_parameters() if id(weight) not in owned}

    def share_named(self, granularity: Granularity = "fine") -> float:
        """Return the share of weights whose smallest component, at a granularity, is of a known kind.

        Parts that are not called count: they were found.
        """
        tree = component_tree(self.model, replace(self.adapter, parts=_parts(self.found)), granularity)
        kinds: dict[int, str] = {}
        for component in tree:  # children come later
            kinds.update(dict.fromkeys(map(id, component.module.parameters()), component.kind))
        weights = {id(weight): weight.numel() for weight in self.model.parameters()}
        named = sum(count for key, count in weights.items() if kinds[key] not in _UNNAMED)
        return float(named / max(1, sum(weights.values())))


def _parts(findings: Iterable[Finding]) -> tuple[Part, ...]:
    return tuple(finding.part for finding in findings)


def structure_map(config: Any, *, trust_remote_code: bool = False) -> StructureMap:
    """Find the components of the model that a configuration describes, without its weights.

    Raises:
        ModelError: the model is for a task that is not supported, or has no list of layers that it calls.

    """
    import torch
    import transformers

    task = task_of(config)
    with torch.device("meta"):
        model = getattr(transformers, task.auto_class).from_config(
            copy.deepcopy(config), dtype=torch.bfloat16, trust_remote_code=trust_remote_code
        )
    structure = map_model(model.eval(), task)
    if not any(part.kind == "layer" for part in structure.adapter.parts):
        name = type(model).__name__
        raise ModelError(
            f"{name} does not call its layers as modules: its components cannot be measured one by one"
        )
    return structure


def map_model(model: Any, task: AutoTask, inputs: Mapping[str, Any] | None = None) -> StructureMap:
    """Find the components of a model on the meta device, or of one in memory by a pass on given inputs."""
    stacks, findings = find_parts(model)
    found = tuple(findings)
    whole = Adapter(BY_STRUCTURE, (BY_STRUCTURE,), task.task, stacks, _parts(found))
    tree = component_tree(model, whole, "fine", kv_cache=inputs is None)
    calls = called_components(tree) if inputs is None else called_on(tree, inputs)
    return StructureMap(model, task, stacks, found, tree, calls)


def live_map(model: Any, inputs: Mapping[str, Any]) -> StructureMap:
    """Find the components of a module in memory, by one pass on its inputs.

    Raises:
        ModelError: it has no list of layers, or the forward fails on the inputs.

    """
    config = getattr(model, "config", None)
    structure = map_model(model, EMBEDDING if config is None else task_of(config), inputs)
    if structure.calls.failure:
        raise ModelError(f"the forward of {type(model).__name__} fails on these inputs: {structure.calls.failure}")
    return structure


def _type_of(model: Any) -> str:
    return str(getattr(getattr(model, "config", None), "model_type", None) or type(model).__name__)
