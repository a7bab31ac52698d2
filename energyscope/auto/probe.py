"""One forward pass without numbers, to see which components a model calls.

The model is on the meta device: shapes pass through it, and nothing is computed, however large it is. Where code
asks for a number (is any token masked? which experts were chosen?), a plausible one is answered.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

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
    """Answers what has no value on the meta device: a number is one, a search has one hit, a question is true.

    With ``other``, a question is false, and what a search found is a tensor with numbers, on the CPU: such tensors
    lose them where they meet one without.
    """

    def __init__(self, *, other: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.other = other

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _ATEN._local_scalar_dense.default and args[0].is_meta:  # noqa: SLF001 - what `.item()` calls
            dtype = args[0].dtype
            return not self.other if dtype is torch.bool else 1.0 if dtype.is_floating_point else 1
        if func is _ATEN.nonzero.default and args[0].is_meta:
            device = "cpu" if self.other else "meta"
            return torch.zeros(min(1, args[0].numel()), args[0].dim(), dtype=torch.long, device=device)
        if self.other and _devices(args, kwargs) == {"cpu", "meta"}:
            args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
        return func(*args, **(kwargs or {}))


def _devices(*arguments: Any) -> set[str]:
    return {item.device.type for item in tree_leaves(arguments) if isinstance(item, torch.Tensor)}


def called_components(tree: ComponentTree) -> Calls:
    """Run the model of a tree on the meta device, with a KV cache where it takes one.

    If that fails, without a cache, with other answers, and then in FP32 too, which some code takes for granted.
    Other answers do not count if they lead around what a pass called until it failed.
    """
    first = _forward(tree, use_cache=True)
    if not first.failure:
        return first
    called: set[str] = set()  # without a cache
    for dtype in (None, torch.float):
        if dtype:
            tree.root.module.to(dtype)
        for other_answers in (False, True):
            calls = _forward(tree, use_cache=False, other_answers=other_answers)
            if not calls.failure and calls.names >= called:
                return calls
            called.update(calls.names if not other_answers else ())
    return first


def called_on(tree: ComponentTree, inputs: Mapping[str, Any]) -> Calls:
    """Run the model of a tree on given inputs, as it is."""
    names: dict[str, None] = {}
    with _noted(tree, names), torch.no_grad():
        try:
            tree.root.module(**inputs)
        except Exception as error:  # noqa: BLE001  (a model's own code may raise anything)
            return Calls(tuple(names), first_line(error))
    return Calls(tuple(names), None)


def _forward(tree: ComponentTree, *, use_cache: bool, other_answers: bool = False) -> Calls:
    model: Any = tree.root.module
    parameters = inspect.signature(model.forward).parameters
    arguments = _arguments(model)
    if "use_cache" in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        arguments["use_cache"] = use_cache
    names: dict[str, None] = {}  # in order
    answers = _Answers(other=other_answers)
    with _noted(tree, names), torch.no_grad(), torch.device("meta"), answers:
        try:
            model(**arguments)
        except Exception as error:  # noqa: BLE001  (a model's own code may raise anything)
            return Calls(tuple(names), first_line(error))
    return Calls(tuple(names), None)


def _arguments(model: Any) -> dict[str, Any]:
    dtypes = (weight.dtype for weight in model.parameters() if weight.is_floating_point())
    features = next(dtypes, torch.float)
    return {
        item.name: torch.ones(
            item.shape, dtype=features if item.content == "features" else torch.long, device="meta"
        )
        for item in model_inputs(model, 1, _TOKENS)
    }


@contextmanager
def _noted(tree: ComponentTree, names: dict[str, None]) -> Iterator[None]:
    with ExitStack() as stack:
        for component in tree.components[1:]:
            name = component.name
            hook = component.module.register_forward_pre_hook(lambda *_, name=name: names.update({name: None}))
            stack.callback(hook.remove)
        stack.enter_context(routed(component.module for component in tree))
        yield
