"""One forward pass without numbers, to see which components a model calls.

The model is on the meta device: shapes pass through it, and nothing is computed, however large it is. Where code
asks for a number (is any token masked? which experts were chosen?), a plausible one is answered.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from energyscope.components import ComponentTree
from energyscope.failures import first_line
from energyscope.functions import routed
from energyscope.model_inputs import model_inputs

_TOKENS = 8
_ATEN = torch.ops.aten


@dataclass(frozen=True)
class Calls:
    """The components that a forward pass called, in that order. ``failure`` says why it ended early, if it did."""

    order: tuple[str, ...]
    failure: str | None

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.order)


class _Answers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers what has no value on the meta device: a number is one, a search has one hit."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _ATEN._local_scalar_dense.default and args[0].is_meta:  # noqa: SLF001 - what `.item()` calls
            dtype = args[0].dtype
            return True if dtype is torch.bool else 1.0 if dtype.is_floating_point else 1
        if func is _ATEN.nonzero.default and args[0].is_meta:
            return torch.zeros(min(1, args[0].numel()), args[0].dim(), dtype=torch.long, device="meta")
        return func(*args, **(kwargs or {}))


def called_components(tree: ComponentTree) -> Calls:
    """Run the model of a tree on the meta device, with a KV cache where it takes one.

    If that fails, without a cache, and then in FP32, which some code takes for granted.
    """
    first = calls = _forward(tree, use_cache=True)
    if calls.failure:
        calls = _forward(tree, use_cache=False)
    if calls.failure:
        tree.root.module.float()
        calls = _forward(tree, use_cache=False)
    return first if calls.failure else calls


def _forward(tree: ComponentTree, *, use_cache: bool) -> Calls:
    model: Any = tree.root.module
    dtype = next((weight.dtype for weight in model.parameters() if weight.is_floating_point()), torch.float)
    arguments: dict[str, Any] = {
        item.name: torch.ones(item.shape, dtype=dtype if item.content == "features" else torch.long, device="meta")
        for item in model_inputs(model, 1, _TOKENS)
    }
    parameters = inspect.signature(model.forward).parameters
    if "use_cache" in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        arguments["use_cache"] = use_cache
    names: dict[str, None] = {}  # in order
    with _noted(tree, names), torch.no_grad(), torch.device("meta"), _Answers():  # type: ignore[no-untyped-call]
        try:
            model(**arguments)
        except Exception as error:  # noqa: BLE001  (a model's own code may raise anything)
            return Calls(tuple(names), first_line(error))
    return Calls(tuple(names), None)


@contextmanager
def _noted(tree: ComponentTree, names: dict[str, None]) -> Iterator[None]:
    with ExitStack() as stack:
        for component in tree.components[1:]:
            name = component.name
            hook = component.module.register_forward_pre_hook(lambda *_, name=name: names.update({name: None}))
            stack.callback(hook.remove)
        stack.enter_context(routed(component.module for component in tree))
        yield
