"""Groups of linears that deployments keep alike: query, key and value of an attention, gate and up of an MLP.

Inference engines fuse those into one matrix product, so they have one precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from energyscope.adapters import Adapter
from energyscope.components import component_tree
from energyscope.grouping import group_by
from energyscope.loading.linears import is_kept, is_linear
from energyscope.loading.planning import heads

if TYPE_CHECKING:
    from energyscope.components import Component

FUSED = {
    "attention.query": "attention.qkv",
    "attention.key": "attention.qkv",
    "attention.value": "attention.qkv",
    "mlp.gate": "mlp.up",
}
UNDECLARED = "other"
_KEPT_KINDS = frozenset({"router"})  # which expert a token goes to changes with any rounding


@dataclass(frozen=True)
class LinearGroup:
    """Linears with one precision. ``name`` is their path, with a ``+`` between where there are several.

    ``shapes`` are those of their weights, (out, in). Groups of one ``family``, of one kind and the same shapes,
    cost the same.
    """

    name: str
    kind: str
    layer: int | None
    paths: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]

    @property
    def family(self) -> str:
        sizes = "+".join(f"{outputs}x{inputs}" for outputs, inputs in self.shapes)
        return f"{self.kind} {sizes}"

    @property
    def parameters(self) -> int:
        """The number of weights, biases not counted."""
        return sum(outputs * inputs for outputs, inputs in self.shapes)


def groups_of(model: nn.Module, adapter: Adapter, keep: Sequence[str] = ()) -> list[LinearGroup]:
    """Return the groups of a model's linears in its order, without heads, routers and what ``keep`` names.

    Linears that the adapter does not declare are groups by themselves, of kind ``other``.
    """
    components = {component.name: component for component in component_tree(model, adapter, "fine")}
    kept = [*heads(adapter), *keep]
    linears = {
        path: module
        for path, module in model.named_modules()
        if is_linear(module) and not is_kept(path, kept) and _kind(components.get(path)) not in _KEPT_KINDS
    }

    def key(path: str) -> tuple[str, str]:
        kind = _kind(components.get(path))
        return (path, kind) if kind == UNDECLARED else (path.rpartition(".")[0], kind)

    return [
        LinearGroup(_name(paths), kind, _layer(components.get(paths[0])), tuple(paths), _shapes(linears, paths))
        for (_, kind), paths in group_by(linears, key).items()
    ]


def _kind(component: Component | None) -> str:
    return UNDECLARED if component is None else FUSED.get(component.kind, component.kind)


def _layer(component: Component | None) -> int | None:
    return None if component is None else component.layer


def _name(paths: Sequence[str]) -> str:
    parent = paths[0].rpartition(".")[0]
    return "+".join([paths[0], *(path.removeprefix(f"{parent}.") for path in paths[1:])])


def _shapes(linears: dict[str, Any], paths: Sequence[str]) -> tuple[tuple[int, int], ...]:
    weights = [(linears[path].weight.shape, isinstance(linears[path], nn.Linear)) for path in paths]
    return tuple((rows, columns) if is_plain else (columns, rows) for (rows, columns), is_plain in weights)
