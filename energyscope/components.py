"""The component tree of a loaded model: an adapter's parts found among the model's modules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.adapters import Adapter, Granularity, Part
from energyscope.errors import ModelError
from energyscope.grouping import group_by

if TYPE_CHECKING:
    from torch import nn

ROOT = "model"  # the name and the kind of the tree's root
CACHE_KIND = "attention.cache"


@dataclass(frozen=True)
class Component:
    """A named part of a model that can be hooked and replayed.

    ``name`` is its module path (``"model"`` for the whole model), ``layer`` the number of the layer that it
    belongs to, counted through all stacks of layers, ``level`` one of model, layer, block, sub-component;
    ``parent`` a component's name. Where it is a function that a module calls, ``module`` is a `FunctionCall`, and
    ``name`` has one more word.
    """

    name: str
    kind: str
    layer: int | None
    level: str
    parent: str | None
    module: nn.Module
    part: Part | None = None

    @property
    def group(self) -> str:
        """The name with the layer left open: components of one group differ only in their layer."""
        return self.part.name if self.part else self.name


class ComponentTree:
    """Components in the model's order, parents before children; the root first."""

    def __init__(self, components: list[Component]) -> None:
        self.components = components
        self._by_name = {component.name: component for component in components}
        self._children = group_by(components, lambda component: component.parent)
        self._groups = group_by(components, lambda component: component.group)

    def __iter__(self) -> Iterator[Component]:
        return iter(self.components)

    def __len__(self) -> int:
        return len(self.components)

    def __getitem__(self, name: str) -> Component:
        return self._by_name[name]

    @property
    def root(self) -> Component:
        return self.components[0]

    def children(self, name: str) -> list[Component]:
        return list(self._children.get(name, ()))

    def leaves(self) -> list[Component]:
        parents = {component.parent for component in self.components}
        return [component for component in self.components if component.name not in parents]

    def group(self, group: str) -> list[Component]:
        """Return the components of one group, by layer."""
        return list(self._groups.get(group, ()))

    def without(self, names: Collection[str]) -> ComponentTree:
        """Return the tree without some components and all that is below them."""
        omitted = set(names)
        for component in self.components:  # parents come first
            if component.parent in omitted:
                omitted.add(component.name)
        return ComponentTree([component for component in self.components if component.name not in omitted])


@dataclass(frozen=True)
class _Place:
    """Where a part was found: the module's path, its index in its stack, and its layer's number in the model."""

    part: Part
    path: str
    index: int | None = None
    layer: int | None = None


def component_tree(
    model: nn.Module, adapter: Adapter, granularity: Granularity, *, kv_cache: bool = False
) -> ComponentTree:
    """Find the adapter's parts in a model; updates of a KV cache only for passes that have one (``kv_cache``).

    Whether a module calls a part's function shows only in a forward pass: see `energyscope.replay.capture`.

    Raises:
        ModelError: a part that is not optional matches no module, or its function does not exist.

    """
    modules = dict(model.named_modules(remove_duplicate=False))
    order = {name: index for index, name in enumerate(modules)}
    before = _layers_before(adapter, modules)
    places: dict[str, _Place] = {}
    for part in adapter.parts_at(granularity):
        if part.kind == CACHE_KIND and not kv_cache:
            continue
        matches = _matches(part, modules, before)
        if not matches and not part.optional:
            raise ModelError(
                f"the adapter {adapter.name!r} expects a module {part.path!r}, which this "
                f"{type(model).__name__} does not have: the adapter serves another version of the family"
            )
        places.update({part.name.replace("{layer}", str(place.index)): place for place in matches})
    components = [Component(ROOT, "model", None, "model", None, model)]
    seen: set[tuple[int, str | None]] = set()
    # a function comes after the module that calls it, and before that module's sub-modules
    for name, place in sorted(places.items(), key=lambda item: (order[item[1].path], item[1].part.function or "")):
        part, module = place.part, modules[place.path]
        if (id(module), part.function) in seen:  # one module under several names is one component, called often
            continue
        seen.add((id(module), part.function))
        parent = _nearest(name, places)
        level = _level(part, parent, places)
        components.append(Component(name, part.kind, place.layer, level, parent, _module(part, module), part))
    return ComponentTree(components)


def _layers_before(adapter: Adapter, modules: dict[str, nn.Module]) -> dict[str, int]:
    """Return how many layers lie before each stack, by its path with the layer left open."""
    before, count = {}, 0
    for stack in adapter.stacks:
        before[f"{stack}.{{layer}}"] = count
        count += len(modules[stack]._modules) if stack in modules else 0  # noqa: SLF001 - its length
    return before


def _matches(part: Part, modules: dict[str, nn.Module], before: dict[str, int]) -> list[_Place]:
    if "{layer}" not in part.path:
        return [_Place(part, part.path)] if part.path in modules else []
    pattern = re.compile(re.escape(part.path).replace(r"\{layer\}", r"(\d+)") + r"\Z")
    indices = {name: int(match[1]) for name in modules if (match := pattern.match(name))}
    stack = part.path[: part.path.index("{layer}") + len("{layer}")]
    return [_Place(part, name, index, before.get(stack, 0) + index) for name, index in indices.items()]


def _module(part: Part, module: nn.Module) -> nn.Module:
    if part.function is None:
        return module
    from energyscope.functions import FunctionCall

    return FunctionCall(part.function, module)


def _nearest(name: str, places: dict[str, _Place]) -> str:
    while "." in name:
        name = name.rpartition(".")[0]
        if name in places:
            return name
    return ROOT


def _level(part: Part, parent: str, places: dict[str, _Place]) -> str:
    if part.kind == "layer":
        return "layer"
    if parent == ROOT or places[parent].part.kind == "layer":
        return "block"
    return "sub-component"
