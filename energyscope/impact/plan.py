"""Which changes are made: of every component by itself, of heads, and of several components together.

Joint removals are made in one pass: of a kind in all layers, or of two layers. Where that does much more than the
single removals do, the components replace each other: each seems unimportant only because the others are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from torch import nn

from energyscope.adapters import Adapter
from energyscope.components import Component, ComponentTree, component_tree
from energyscope.impact.methods import REMOVALS
from energyscope.model_inputs import main_input

TOGETHER = tuple(method for method in REMOVALS if method != "skip")
ALL_PAIRS = 16  # with more layers, only neighbours are skipped in pairs: their number grows with the square
CORE = "attention.core"


@dataclass(frozen=True)
class ChangedPart:
    """The changed part of a component: all of its output, or a range of its features."""

    part: Component
    features: tuple[int, int] | None = None


@dataclass(frozen=True)
class Intervention:
    """One change of the model; the impact table has its results.

    ``component`` is the changed component's name, or a common name of several that are changed together.
    """

    component: str
    kind: str
    layer: int | None
    method: str
    targets: tuple[ChangedPart, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.component, self.method


def singles(tree: ComponentTree, methods: Sequence[str]) -> list[Intervention]:
    """Return a change of every component but the root by every method; only layers are skipped."""
    return [
        Intervention(part.name, part.kind, part.layer, method, (ChangedPart(part),))
        for part in tree
        if part is not tree.root
        for method in dict.fromkeys(methods)
        if method != "skip" or part.kind == "layer"
    ]


def further_interventions(
    model: nn.Module, tree: ComponentTree, adapter: Adapter, methods: Sequence[str], *, joint: str, per_head: str
) -> list[Intervention]:
    """Return the changes beside `singles`; ``joint`` is of `methods.JOINT`, ``per_head`` of `methods.HEADS`."""
    interventions = joint_kinds(tree, methods) if joint in {"kinds", "all"} else []
    if joint in {"pairs", "all"}:
        interventions += layer_pairs(tree)
    if per_head != "off":
        interventions += heads(model, adapter, methods, per=per_head)
    return interventions


def joint_kinds(tree: ComponentTree, methods: Sequence[str]) -> list[Intervention]:
    """Return the removal of each kind's components in all layers together; named with ``{layer}`` open."""
    groups = {part.group: tree.group(part.group) for part in tree if part.layer is not None}
    return [
        Intervention(group, parts[0].kind, None, method, tuple(map(ChangedPart, parts)))
        for group, parts in groups.items()
        if len(parts) > 1 and parts[0].kind != "layer"
        for method in dict.fromkeys(methods)
        if method in TOGETHER
    ]


def layer_pairs(tree: ComponentTree) -> list[Intervention]:
    """Return the skipping of two layers at once: of all pairs, in deep models of neighbours."""
    layers = [part for part in tree if part.kind == "layer"]
    pairs = combinations(layers, 2) if len(layers) <= ALL_PAIRS else pairwise(layers)
    return [
        Intervention(f"{a.name}+{b.name}", "layer", None, "skip", (ChangedPart(a), ChangedPart(b)))
        for a, b in pairs
    ]


def heads(model: nn.Module, adapter: Adapter, methods: Sequence[str], *, per: str) -> list[Intervention]:
    """Return the removal of every attention head, or of all heads that share keys and values (``per="kv"``).

    A head is its range of the attention core's output; where the model's attention does not call that function,
    heads cannot be separated.
    """
    kind = "attention.head" if per == "each" else "attention.kv_group"
    return [
        Intervention(f"{core.parent}.{kind.rpartition('.')[2]}.{number}", kind, core.layer, method, (target,))
        for core in component_tree(model, adapter, "fine")
        if core.kind == CORE
        for number, target in enumerate(_ranges(model, core, per))
        for method in methods
        if method in TOGETHER
    ]


def _ranges(model: nn.Module, core: Component, per: str) -> Iterator[ChangedPart]:
    config: Any = model.config
    sees = main_input(model) == "pixel_values" and getattr(config, "vision_config", None) is not None
    config = config.vision_config if sees else config.get_text_config()
    number = int(config.num_attention_heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // number)
    groups = int(getattr(config, "num_key_value_heads", None) or number) if per == "kv" else number
    step = width * number // groups
    for group in range(groups):
        yield ChangedPart(core, (group * step, (group + 1) * step))
