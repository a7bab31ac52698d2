"""Quantization as a change of one component: its output, for the same input, with rounded weights.

While a change lasts, the component runs twice at each call, on the same inputs:

    component.forward:   own weights -> original output | quantized weights -> output that the model continues with

so that the change of its own output is known beside the effect on the model's. Outside of the second run nothing
is exchanged: no weight is written to, and weights shared with another module stay as they are there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.functions import exchanged_forward
from energyscope.impact.outputs import Effect, Masks, compared, features_of, unsuitable
from energyscope.impact.quantizing.matrices import (
    Matrix,
    Shared,
    about,
    is_conv1d,
    matrices_of,
    reason_against,
    sharing_notes,
)
from energyscope.impact.quantizing.quantizers import ACTIVATION_METHODS, quantize_activation, quantize_weight
from energyscope.reasons import Reason, reason
from energyscope.replay.tensors import cloned

Forward = Callable[..., Any]


class Quantization(ABC):
    """One way to quantize one component. ``notes`` say what a reader of its numbers should know.

    Quantized replacements are made when they are first needed and kept until `release`.
    """

    def __init__(self, module: nn.Module, method: str, shared: Shared | None = None) -> None:
        self.module = module
        self.method = method
        self.matrices = matrices_of(module)
        self.notes: tuple[Reason, ...] = tuple(sharing_notes(module, self._exchangeable(), shared or {}))
        self._replacements: dict[Matrix, Any] | None = None

    def _exchangeable(self) -> list[Matrix]:
        """Return the weights that the method quantizes."""
        return self.matrices

    @abstractmethod
    def _replacement(self, matrix: Matrix) -> Any:
        """Return what replaces a weight, or the layer that it belongs to."""

    @abstractmethod
    def reason_not_possible(self) -> Reason | None:
        """Return why this component cannot be quantized so, None where it can."""

    def replacements(self) -> dict[Matrix, Any]:
        """Return what `applied` puts in the place of the component's own weights or layers."""
        if self._replacements is None:
            with torch.no_grad():
                self._replacements = {matrix: self._replacement(matrix) for matrix in self._exchangeable()}
        return self._replacements

    def release(self) -> None:
        """Free the replacements; they are made again when they are needed."""
        self._replacements = None

    @abstractmethod
    def _exchanged(self, forward: Forward) -> AbstractContextManager[Forward]:
        """Put the replacements in place in this context; yield what to call for the component's forward."""

    @contextmanager
    def applied(self, masks: Masks, effect: Effect) -> Iterator[None]:
        """Quantize the component as long as the context lasts; it comes back as it was however that ends.

        ``masks`` say which positions are no padding; ``effect`` records how far the output changed.
        """
        self.replacements()
        forward = self.module.forward

        def twice(*args: Any, **kwargs: Any) -> Any:
            return self._compared(forward, args, kwargs, masks, effect)

        with exchanged_forward(self.module, twice):
            yield

    def _compared(self, forward: Forward, args: Any, kwargs: Any, masks: Masks, effect: Effect) -> Any:
        """Run the component as it is and quantized; record the difference, and return the latter's output."""
        if any(hasattr(value, "get_seq_length") for value in (*args, *kwargs.values())):
            effect.problem = reason("called-with-cache")
            return forward(*args, **kwargs)
        with torch.no_grad():
            copied_args, copied_kwargs = cloned((args, kwargs))  # a module may write into its inputs
            unchanged = forward(*copied_args, **copied_kwargs)
        if not features_of(unchanged):
            effect.problem = unsuitable(unchanged)
            return unchanged
        with self._exchanged(forward) as changed_forward:
            output = changed_forward(*args, **kwargs)
        for original, changed, weights in compared(self.module, unchanged, output, masks):
            # as float32: the same kernels ran on the same inputs, so that even a change as small as the dtype's
            # resolution comes from the weights and is no rounding
            effect.add(original.float(), changed.float(), weights)
        return output


class SimulatedQuantization(Quantization):
    """Weights, and for ``-wa`` the inputs of linear layers too, rounded to what a format holds."""

    def __init__(self, module: nn.Module, method: str, shared: Shared | None = None) -> None:
        super().__init__(module, method, shared)
        self._linears: list[nn.Module] = []
        if method in ACTIVATION_METHODS:
            self._linears = [matrix.owner for matrix in self.matrices if matrix.is_linear]
            others = [matrix for matrix in self.matrices if not matrix.is_linear]
            if others:
                self.notes += (about("inputs-not-quantized", others),)

    def reason_not_possible(self) -> Reason | None:
        return reason_against(self.matrices)

    def _replacement(self, matrix: Matrix) -> nn.Parameter:
        return nn.Parameter(rounded(matrix.owner, matrix.weight.detach(), self.method), requires_grad=False)

    @contextmanager
    def _exchanged(self, forward: Forward) -> Iterator[Forward]:
        with ExitStack() as stack:
            for matrix, quantized in self.replacements().items():
                stack.callback(setattr, matrix.owner, matrix.name, matrix.weight)  # the same object comes back
                setattr(matrix.owner, matrix.name, quantized)
            for linear in self._linears:
                if linear is self.module:
                    forward = self._rounding(forward)
                else:
                    stack.enter_context(exchanged_forward(linear, self._rounding(linear.forward)))
            yield forward

    def _rounding(self, forward: Forward) -> Forward:
        def quantized(value: Any) -> Any:
            return quantize_activation(value, self.method) if isinstance(value, Tensor) else value

        def rounding(*args: Any, **kwargs: Any) -> Any:
            return forward(*map(quantized, args), **{name: quantized(value) for name, value in kwargs.items()})

        return rounding


def input_dim(owner: nn.Module, weight: Tensor) -> int:
    """Return the dimension that a product of an input with a module's weight adds over.

    It is 1 of a Linear (out, in) and of an embedding (tokens, features), 0 of a Conv1D (in, out). Fused experts
    are (experts, out, in), or (experts, in, out) where their class declares ``is_transposed`` or where only that
    makes the first product's output fit the second.
    """
    if weight.dim() == 3:
        return 1 if _is_transposed(owner) else 2
    return 0 if is_conv1d(owner) else weight.dim() - 1


def _is_transposed(experts: nn.Module) -> bool:
    declared = getattr(experts, "is_transposed", None)
    first, second = (getattr(experts, name, None) for name in ("gate_up_proj", "down_proj"))
    if isinstance(declared, bool) or not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return bool(declared)
    # the model's width is what the first takes in and the second gives out
    return first.shape[1] == second.shape[2] and first.shape[2] != second.shape[1]


def rounded(owner: nn.Module, weight: Tensor, method: str) -> Tensor:
    """Return a module's weight as it is after quantizing and dequantizing (see `quantizers.quantize_weight`)."""
    if isinstance(owner, nn.modules.conv._ConvNd):  # noqa: SLF001  adds over all but the output channel
        return quantize_weight(weight.flatten(1), method, input_dim=1).view_as(weight)
    return quantize_weight(weight, method, input_dim=input_dim(owner, weight))
