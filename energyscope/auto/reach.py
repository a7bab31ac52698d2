"""Which components a task's inputs do not lead to: towers for other inputs, and attention to a missing encoder.

image tower -> projector --+
token ids   -> embedding --+-> layers -> head        a pass that gets text alone calls the lower row
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from energyscope.components import ROOT, Component, ComponentTree
from energyscope.model_inputs import main_input

_MAIN = {"input_ids": "text", "pixel_values": "image"}  # all others hold sound


def unreached(tree: ComponentTree, called: Collection[str]) -> dict[str, str]:
    """Return the components that were not called for want of an input, each with the reason.

    What was not called for no such reason is not among them.
    """
    found: dict[str, str] = {}
    if other := _other_inputs(tree):
        found.update(dict.fromkeys(_towers(tree, called), f"for {' and '.join(sorted(other))} input"))
    model: Any = tree.root.module
    if not model.config.is_encoder_decoder:
        found.update(dict.fromkeys(_without_encoder(tree, called), "no encoder's states are fed"))
    return found


def _other_inputs(tree: ComponentTree) -> set[str]:
    """Return what a model, or a part of it, says that it takes beside its main input: images, sound, video."""
    model = tree.root.module
    stated: set[str] = set()
    for module in model.modules():
        words = getattr(module, "input_modalities", ())
        stated.update((words,) if isinstance(words, str) else words)
    return stated - {"text", _MAIN.get(main_input(model), "audio")}


def _towers(tree: ComponentTree, called: Collection[str]) -> Iterator[str]:
    """Yield all outside of what was called, and of the stacks of layers of which one was."""
    stacks = {component.group for component in tree if component.kind == "layer" and component.name in called}
    for component in tree.components[1:]:
        above = _ancestors(tree, component)
        layer = next((item for item in (component, *above) if item.kind == "layer"), None)
        is_in_called_stack = layer is not None and layer.group in stacks
        if not is_in_called_stack and not any(item.name in called for item in (component, *above)):
            yield component.name


def _without_encoder(tree: ComponentTree, called: Collection[str]) -> Iterator[str]:
    """Yield cross attention that was not called, and what is beside it in such a layer and was not called either.

    That is its norm; where a layer is only called with an encoder's states, all of it.
    """
    crossed = {
        component.parent
        for component in tree
        if component.kind == "cross_attention" and component.name not in called and component.parent != ROOT
    }
    for component in tree.components[1:]:
        if component.name in called:
            continue
        with_above = (component, *_ancestors(tree, component))
        is_norm_beside = component.kind == "norm" and component.parent in crossed
        if is_norm_beside or any(
            item.kind.startswith("cross_attention") or item.name in crossed - set(called) for item in with_above
        ):
            yield component.name


def _ancestors(tree: ComponentTree, component: Component) -> list[Component]:
    above = []
    while component.parent is not None and component.parent != ROOT:
        component = tree[component.parent]
        above.append(component)
    return above
