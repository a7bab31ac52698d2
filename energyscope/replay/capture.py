"""Keep what every component was given, and what it returned, in one real forward pass."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from energyscope.components import Component, ComponentTree
from energyscope.errors import ModelError
from energyscope.functions import routed


@dataclass
class Capture:
    """One component's inputs and output, of its first call in the pass; ``calls`` counts all of them.

    ``varied`` says that a later call was given other shapes, so that the first one does not stand for it.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any = None
    calls: int = 1
    varied: bool = False


def forward_inputs(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a forward pass's keyword arguments, without a KV cache, so that replaying it leaves no trace.

    An attention that is given a cache appends to it at every replay: silently wrong, and growing. Inputs that
    say themselves whether to use one are left as they are.
    """
    arguments: dict[str, Any] = dict(inputs)
    if "use_cache" in inspect.signature(model.forward).parameters:
        arguments.setdefault("use_cache", False)
    return arguments


@torch.inference_mode()
def capture(tree: ComponentTree, inputs: Mapping[str, Any]) -> dict[str, Capture]:
    """Run the model once and keep every component's inputs (cloned) and output, by component name.

    An optional function that its module did not call has none: see `not_called`.

    Raises:
        ModelError: a component was never called, so it cannot be measured.

    """
    arguments = forward_inputs(tree.root.module, inputs)
    captures = {tree.root.name: Capture((), arguments)}
    with _recording(tree, captures):
        captures[tree.root.name].output = tree.root.module(**arguments)
    missing = [one.name for one in not_called(tree, captures) if not _may_be_missing(one)]
    if missing:
        raise ModelError(
            f"{missing[0]} was not called in a forward pass ({len(missing)} such components): "
            "its adapter must not declare it"
        )
    return captures


def not_called(tree: ComponentTree, captures: Mapping[str, Capture]) -> list[Component]:
    """Return the components without a capture: optional functions that this model's modules do not call.

    A model whose attention is not ``sdpa`` has no attention core. Go on with ``tree.without(names)``.
    """
    return [component for component in tree if component.name not in captures]


def _may_be_missing(component: Component) -> bool:
    part = component.part
    return part is not None and part.optional and part.function is not None


@contextmanager
def _recording(tree: ComponentTree, captures: dict[str, Capture]) -> Iterator[None]:
    with ExitStack() as stack:
        for component in tree.components[1:]:
            before, after = _hooks(component, captures)
            stack.callback(component.module.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(component.module.register_forward_hook(after, with_kwargs=True).remove)
        stack.enter_context(routed(component.module for component in tree))
        yield


def _hooks(component: Component, captures: dict[str, Capture]) -> tuple[Any, Any]:
    name = component.name

    def before(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if name in captures:
            captures[name].calls += 1
            captures[name].varied |= shapes((args, kwargs)) != shapes((captures[name].args, captures[name].kwargs))
        else:  # cloned, since what follows may change its input in place
            captures[name] = Capture(cloned(args), cloned(kwargs))

    def after(_module: nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
        if captures[name].output is None:
            captures[name].output = cloned(output)

    return before, after


def shapes(value: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors in nested tuples, lists and dictionaries."""
    return [tuple(tensor.shape) for tensor in tensors_in(value)]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists and dictionaries, in their order."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in items:
        yield from tensors_in(item)


def cloned(value: Any) -> Any:
    """Clone the tensors in nested tuples, lists and dictionaries; leave everything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(cloned(item) for item in value)
    if type(value) is dict:
        return {key: cloned(item) for key, item in value.items()}
    return value
