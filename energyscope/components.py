"""The component tree of a loaded model: an adapter's parts found among the model's modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from energyscope.adapters import Adapter, Granularity, Part
from energyscope.errors import ModelError

if TYPE_CHECKING:
    from torch import nn

ROOT = "model"  # the name and the kind of the tree's root


@dataclass(frozen=True)
class Component:
    """A named part of a model that can be hooked and replayed.

    ``name`` is its module path (``"model"`` for the whole model), ``layer`` the index of the layer that it
    belongs to, ``level`` one of model, layer, block, sub-component; ``parent`` a component's name.
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
        """The path with the layer left open: components of one group differ only in their layer."""
        return self.part.path if self.part else self.name


class ComponentTree:
    """Components in the model's order, parents before children; the root first."""

    def __init__(self, components: list[Component]) -> None:
        self.components = components
        self._by_name = {component.name: component for component in components}

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
        return [component for component in self.components if component.parent == name]

    def leaves(self) -> list[Component]:
        parents = {component.parent for component in self.components}
        return [component for component in self.components if component.name not in parents]

    def group(self, group: str) -> list[Component]:
        """Return the components of one group, by layer."""
        return [component for component in self.components if component.group == group]


def component_tree(model: nn.Module, adapter: Adapter, granularity: Granularity) -> ComponentTree:
    """Find the adapter's parts in a model.

    Raises:
        ModelError: a part that is not optional matches no module.

    """
    modules = dict(model.named_modules(remove_duplicate=False))
    order = {name: index for index, name in enumerate(modules)}
    found: dict[str, tuple[Part, int | None]] = {}
    for part in adapter.parts_at(granularity):
        matches = _matches(part, modules)
        if not matches and not part.optional:
            raise ModelError(
                f"the adapter {adapter.name!r} expects a module {part.path!r}, which this "
                f"{type(model).__name__} does not have: the adapter serves another version of the family"
            )
        found.update({name: (part, layer) for name, layer in matches})
    components = [Component(ROOT, "model", None, "model", None, model)]
    seen: set[int] = set()
    for name in sorted(found, key=order.__getitem__):
        if id(modules[name]) in seen:  # one module under several names is one component, called several times
            continue
        seen.add(id(modules[name]))
        part, layer = found[name]
        parent = _nearest(name, found)
        level = _level(part, parent, found)
        components.append(Component(name, part.kind, layer, level, parent, modules[name], part))
    return ComponentTree(components)


def _matches(part: Part, modules: dict[str, nn.Module]) -> list[tuple[str, int | None]]:
    if "{layer}" not in part.path:
        return [(part.path, None)] if part.path in modules else []
    pattern = re.compile(re.escape(part.path).replace(r"\{layer\}", r"(\d+)") + r"\Z")
    return [(name, int(match[1])) for name in modules if (match := pattern.match(name))]


def _nearest(name: str, found: dict[str, tuple[Part, int | None]]) -> str:
    while "." in name:
        name = name.rpartition(".")[0]
        if name in found:
            return name
    return ROOT


def _level(part: Part, parent: str, found: dict[str, tuple[Part, int | None]]) -> str:
    if part.kind == "layer":
        return "layer"
    if parent == ROOT or found[parent][0].kind == "layer":
        return "block"
    return "sub-component"
