"""Quantization by layers that compute in few bits: those that need PyTorch alone, and bitsandbytes' linears.

``fp8-real``, ``w8a8-real``, ``w8a16-real`` and ``int4-real`` are those of `energyscope.loading.torch_kernels`.
``bnb-int8`` is LLM.int8() (Dettmers et al. 2022) with its outlier threshold of 6: weights in INT8, activations in
INT8 but for the features that hold outliers. ``bnb-nf4`` stores weights in NF4 (Dettmers et al. 2023) and computes
in the model's dtype.
Only Linear and Conv1D modules have such a layer; a component's other weights stay as they are.

A layer is called in place of the module that it replaces, which stays where it is in the model.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.errors import ModelError
from energyscope.failures import first_line
from energyscope.functions import exchanged_forward
from energyscope.impact.methods import TORCH_KERNELS
from energyscope.impact.quantizing.matrices import Matrix, Shared, about, reason_against
from energyscope.impact.quantizing.quantized import Forward, Quantization
from energyscope.impact.quantizing.quantizers import quantize_activation, quantize_weight
from energyscope.loading.kernel_trials import TOLERANCE, first_checked_row, products_error, random_inputs
from energyscope.loading.linears import fits, is_linear
from energyscope.loading.options import BY_TORCH
from energyscope.loading.random_weights import quantized_linear
from energyscope.loading.torch_kernels import torch_linear
from energyscope.reasons import Reason, reason

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_PRECISIONS = {**dict(zip(TORCH_KERNELS, BY_TORCH, strict=True)), "bnb-int8": "int8", "bnb-nf4": "nf4"}


class RealQuantization(Quantization):
    """The linear layers of a component, exchanged for quantized ones."""

    def __init__(self, module: nn.Module, method: str, shared: Shared | None = None) -> None:
        super().__init__(module, method, shared)
        others = [matrix for matrix in self.matrices if not is_linear(matrix.owner)]
        if others:
            self.notes += (about("only-linear-exchanged", others),)

    def _exchangeable(self) -> list[Matrix]:
        return [matrix for matrix in self.matrices if is_linear(matrix.owner)]

    def reason_not_possible(self) -> Reason | None:
        """Return why the component cannot be quantized so; to find out, layers are tried on random inputs."""
        if problem := reason_against(self.matrices):
            return problem
        linears = self._exchangeable()
        return self._reason_against(linears) if linears else reason("no-linear-layer")

    @abstractmethod
    def _reason_against(self, linears: list[Matrix]) -> Reason | None:
        """Return why linears cannot be exchanged; None if they can."""

    @contextmanager
    def _exchanged(self, forward: Forward) -> Iterator[Forward]:
        with ExitStack() as stack:
            for matrix, layer in self.replacements().items():
                if matrix.owner is self.module:
                    forward = layer.forward
                else:
                    stack.enter_context(exchanged_forward(matrix.owner, layer.forward))
            yield forward


class TorchQuantization(RealQuantization):
    """Exchanged for layers that need PyTorch alone, which are tried when they are made."""

    def _reason_against(self, linears: list[Matrix]) -> Reason | None:
        precision = _PRECISIONS[self.method]
        for matrix in linears:
            if not fits(matrix.owner, precision):
                rows, inputs = _rows(matrix).shape
                return reason("kernel-size", precision=precision, weight=matrix.path, rows=rows, inputs=inputs)
        try:
            self.replacements()
        except ModelError as problem:
            return reason("kernel-fails", precision=precision, error=first_line(problem))
        return None

    def _replacement(self, matrix: Matrix) -> nn.Module:
        return torch_linear(matrix.owner, _PRECISIONS[self.method], matrix.path)


class BitsandbytesQuantization(RealQuantization):
    """Exchanged for bitsandbytes' layers."""

    def _reason_against(self, linears: list[Matrix]) -> Reason | None:
        try:
            import bitsandbytes  # noqa: F401
        except Exception as error:  # noqa: BLE001  its libraries fail to load in many ways
            return reason("bitsandbytes-missing", error=first_line(error))
        problems = (_reason_against_shape(matrix, self.method) for matrix in linears)
        if problem := next(filter(None, problems), None):
            return problem
        layers = self.replacements().items()
        problems = (_reason_against_result(matrix, layer, self.method) for matrix, layer in layers)
        return next(filter(None, problems), None)

    def _replacement(self, matrix: Matrix) -> nn.Module:
        return _layer(matrix, self.method)


def _reason_against_shape(matrix: Matrix, method: str) -> Reason | None:
    weight = matrix.weight.detach()
    if weight.dtype not in _DTYPES:
        return reason("bitsandbytes-dtype", dtype=weight.dtype, weight=matrix.path)
    if method == "bnb-int8":
        largest = float(weight.abs().max())
        fits = largest <= torch.finfo(torch.float16).max
        return None if fits else reason("bitsandbytes-overflow", largest=largest, weight=matrix.path)
    inputs = _rows(matrix).shape[1]
    if weight.device.type == "cpu" and inputs % 2:  # it would compile code for each such shape
        return reason("bitsandbytes-odd-inputs", inputs=inputs, weight=matrix.path)
    return None


def _reason_against_result(matrix: Matrix, layer: Any, method: str) -> Reason | None:
    """Compare a layer's products with those of our own arithmetic for the same quantization.

    The error is that of `products_error`, over the last rows of the weight. Kernels silently return wrong numbers
    for some shapes on some processors.
    """
    weight = _rows(matrix)
    inputs = random_inputs(weight.shape[1], weight.device, weight.dtype)
    activations = quantize_activation(inputs, "int8-wa") if method == "bnb-int8" else None
    checked = quantize_weight(weight[first_checked_row(len(weight)) :], _PRECISIONS[method], input_dim=1)
    error = products_error(layer, inputs, checked, rounded=activations)
    if error <= TOLERANCE:
        return None
    rows, columns = weight.shape
    device = weight.device.type
    return reason("bitsandbytes-wrong", weight=matrix.path, rows=rows, inputs=columns, device=device, error=error)


def _rows(matrix: Matrix) -> Tensor:
    """Return a weight as (out, in)."""
    weight = matrix.weight.detach()
    return weight if isinstance(matrix.owner, nn.Linear) else weight.T


def _layer(matrix: Matrix, method: str) -> nn.Module:
    """Build the layer from a bare Linear, since bitsandbytes may convert the bias that it is given in place."""
    weight, bias = _rows(matrix), getattr(matrix.owner, "bias", None)
    with torch.device("meta"):
        bare = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    bare.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        bare.bias = nn.Parameter(bias.detach(), requires_grad=False)
    return quantized_linear(bare, _PRECISIONS[method], weight.dtype).eval()  # training mode takes other kernels
