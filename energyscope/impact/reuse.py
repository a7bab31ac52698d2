"""Passes that begin at a layer: what lies before a change is not computed again.

In the first, unchanged pass over the data every layer's input is kept. In a later pass that changes something in
layer n, every layer before it returns layer n's kept input, so that the model's own forward arrives there without
computing these layers; only embeddings, masks and rotary tables are looked up again. The numbers are those of a
full pass bit for bit, because the same kernels run on the same inputs.

It needs a model whose layers pass their output unchanged to the next layer, and nothing else around it. The first
pass checks the former, trial passes the latter (`energyscope.stages.ablate`). Where that fails, passes are full
ones and `LayerStarts.reason` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.components import ComponentTree
from energyscope.functions import FunctionCall, exchanged_forward
from energyscope.impact.outputs import first_tensor, with_first_tensor
from energyscope.reasons import Reason, reason
from energyscope.replay.tensors import tensors_in


@dataclass
class _LayerCalls:
    """The layers' inputs and outputs in one pass, in the order of their calls."""

    numbers: list[int] = field(default_factory=list)
    inputs: list[Tensor | None] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    kept: dict[int, Tensor] = field(default_factory=dict)


class LayerStarts:
    """The inputs of a model's layers on every batch, as many of them as a memory budget (bytes) holds."""

    def __init__(self, tree: ComponentTree, tokens: Sequence[int], budget_bytes: int) -> None:
        """Make room for batches of so many ``tokens`` each, padding included."""
        self.layers = [part for part in tree if part.kind == "layer"]
        self.reason = None if len(self.layers) > 1 else reason("no-chain-of-layers")
        self._modules: Sequence[nn.Module] = [part.module for part in self.layers]
        self._numbers = {part.layer: number for number, part in enumerate(self.layers)}
        self._outside = {part.name: part.module for part in tree if part.layer is None and part is not tree.root}
        self._after: dict[str, int] = {}
        self._templates: dict[int, Any] = {}
        self._kept: dict[int, dict[int, Tensor]] = {}
        self._tokens = tokens
        self._budget = budget_bytes
        self._stride = 1

    def of(self, name: str, layer: int | None) -> int:
        """Return how many layers lie before a component: a pass that changes it may begin there."""
        if self.reason is not None:
            return 0
        return self._after.get(name, 0) if layer is None else self._numbers.get(layer, 0)

    @contextmanager
    def recording(self, index: int) -> Iterator[None]:
        """Keep the layers' inputs of the unchanged pass over one batch that runs in this context."""
        if self.reason is not None:
            yield
            return
        calls = _LayerCalls()
        with ExitStack() as stack:
            for number, module in enumerate(self._modules):
                before = partial(self._before_layer, calls, number, index)
                stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(partial(_after_layer, calls)).remove)
            for name, module in self._outside.items():
                if not isinstance(module, FunctionCall):
                    before_other = partial(self._before_other, calls, name)
                    stack.callback(module.register_forward_pre_hook(before_other).remove)
            yield
        if (why := _why_not(calls, len(self._modules))) is not None:
            self.give_up(why)
            return
        self._kept[index] = calls.kept
        self._templates = {
            number: with_first_tensor(output, torch.empty(0)) for number, output in enumerate(calls.outputs)
        }
        self._keep(calls, len(self._modules), first_tensor(calls.outputs[-1]), first=not index)
        if not index:
            self._thin_out(calls)

    @contextmanager
    def beginning(self, index: int, layer: int) -> Iterator[None]:
        """Let passes over a batch begin at the last layer up to ``layer`` whose input was kept."""
        kept = {} if self.reason is not None else self._kept.get(index, {})
        start = max((number for number in kept if number <= layer), default=0)
        with ExitStack() as stack:
            for number in range(start):
                stub = partial(_kept_input, self._templates[number], kept[start])
                stack.enter_context(exchanged_forward(self._modules[number], stub))
            yield

    def give_up(self, why: Reason) -> None:
        """Compute whole passes from now on."""
        self.reason = why
        self._kept.clear()

    def kept_starts(self, index: int) -> list[int]:
        """Return the layers that a pass over a batch may begin at, and the place after the last."""
        return sorted(self._kept.get(index, {}))

    def _before_layer(
        self, calls: _LayerCalls, number: int, index: int, _module: nn.Module, args: Any, kwargs: Any
    ) -> None:
        hidden = first_tensor((*args, *kwargs.values()))
        calls.numbers.append(number)
        calls.inputs.append(hidden)
        if number:
            self._keep(calls, number, hidden, first=not index)

    def _before_other(self, calls: _LayerCalls, name: str, _module: nn.Module, _args: Any) -> None:
        # a component that is called in several places counts from the first
        self._after[name] = min(self._after.get(name, len(self._modules)), len(calls.outputs))

    def _keep(self, calls: _LayerCalls, number: int, tensor: Tensor | None, *, first: bool) -> None:
        """Keep a layer's input (after the last layer, its output), as far as memory allows."""
        if tensor is None or (not first and (number % self._stride or tensor.nbytes > self._budget)):
            return
        calls.kept[number] = tensor.detach().clone()
        if not first:
            self._budget -= tensor.nbytes

    def _thin_out(self, calls: _LayerCalls) -> None:
        """Keep every layer's input, or every second, third, ... one's, by the memory that the first batch took."""
        per_batch = sum(tensor.nbytes for tensor in calls.kept.values())
        needed = per_batch * sum(self._tokens) / max(1, self._tokens[0])  # the first batch is the shortest
        self._stride = min(len(self._modules), max(1, math.ceil(needed / max(1, self._budget))))
        for number in [number for number in calls.kept if number % self._stride]:
            del calls.kept[number]
        taken = sum(tensor.nbytes for tensor in calls.kept.values())
        if taken > self._budget:
            calls.kept.clear()
            taken = 0
        self._budget -= taken


def _after_layer(calls: _LayerCalls, _module: nn.Module, _args: Any, output: Any) -> None:
    calls.outputs.append(output)


def _kept_input(template: Any, hidden: Tensor, *_args: Any, **_kwargs: Any) -> Any:
    # a copy: a layer may add to its input in place
    return with_first_tensor(template, hidden.clone())


def _why_not(calls: _LayerCalls, layers: int) -> Reason | None:
    """Return why a pass cannot begin at a layer, None where it can."""
    if calls.numbers != list(range(layers)):
        return reason("layers-not-in-order")
    if any(len(list(tensors_in(output))) != 1 for output in calls.outputs):
        return reason("layers-return-several")
    passed_on = zip(calls.outputs, calls.inputs[1:], strict=False)
    if any(first_tensor(output) is not hidden for output, hidden in passed_on):
        return reason("layers-not-chained")
    return None
