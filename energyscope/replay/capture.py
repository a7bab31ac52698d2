"""Record the inputs and the output of every component in one real forward pass."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from energyscope.components import Component, ComponentTree
from energyscope.functions import routed
from energyscope.kv_cache import cache_storages
from energyscope.replay.activations import ActivationStore
from energyscope.replay.tensors import shapes, versions


@dataclass
class Capture:
    """One component's inputs and output, of its first call in the pass; ``calls`` counts all of them.

    ``varied``: a later call had inputs of other shapes, so the first one does not represent it;
    ``altered``: the positions of the input tensors that the component itself writes to, which must be restored
    before each replay.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any = None
    calls: int = 1
    varied: bool = False
    altered: tuple[int, ...] = ()


def forward_inputs(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a forward pass's keyword arguments, without a KV cache, so that replaying it changes nothing.

    An attention with a cache appends to it at every replay: silently wrong, and growing. Inputs that contain
    ``use_cache`` are left as they are.
    """
    arguments: dict[str, Any] = dict(inputs)
    if "use_cache" in inspect.signature(model.forward).parameters:
        arguments.setdefault("use_cache", False)
    return arguments


@torch.no_grad()
def capture(
    tree: ComponentTree, inputs: Mapping[str, Any], store: ActivationStore | None = None
) -> dict[str, Capture]:
    """Run the model once and keep every component's inputs (cloned) and output, by component name.

    Not in inference mode, which does not count writes to tensors. A part that the model did not call has no
    capture: see `not_called`.
    """
    arguments = forward_inputs(tree.root.module, inputs)
    captures = {tree.root.name: Capture((), arguments)}
    store = store or ActivationStore()
    store.standing |= cache_storages(arguments)
    with _recording(tree, captures, store):
        captures[tree.root.name].output = tree.root.module(**arguments)
    return captures


def not_called(tree: ComponentTree, captures: Mapping[str, Capture]) -> list[Component]:
    """Return the components without a capture: parts that this pass does not call.

    A model whose attention is not ``sdpa`` has no attention core, a decode step no encoder. Continue with
    ``tree.without(names)``.
    """
    return [component for component in tree if component.name not in captures]


@contextmanager
def _recording(tree: ComponentTree, captures: dict[str, Capture], store: ActivationStore) -> Iterator[None]:
    with ExitStack() as stack:
        for component in tree.components[1:]:
            before, after = _hooks(component, captures, store)
            stack.callback(component.module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(component.module.register_forward_hook(after, with_kwargs=True).remove)
        stack.enter_context(routed(component.module for component in tree))
        yield


def _hooks(component: Component, captures: dict[str, Capture], store: ActivationStore) -> tuple[Any, Any]:
    name = component.name
    versions_before: list[int] = []

    def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if name in captures:
            captures[name].calls += 1
            captures[name].varied |= shapes((args, kwargs)) != shapes((captures[name].args, captures[name].kwargs))
        else:  # cloned: a later component may change it in place
            captures[name] = Capture(store.keep(args), store.keep(kwargs))
        versions_before[:] = versions((args, kwargs))

    def after(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        pairs = zip(versions_before, versions((args, kwargs)), strict=True)
        captures[name].altered = tuple(index for index, (before, after) in enumerate(pairs) if before != after)
        if captures[name].output is None:
            captures[name].output = store.keep(output)

    return before, after
