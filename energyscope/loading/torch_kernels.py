"""Quantized linears by PyTorch's own kernels, and by ours in Triton, which comes with PyTorch.

    fp8     weights and inputs in float8 (e4m3); a scale for each output of a weight, and one for each token
    w8a8    weights and inputs in INT8, scaled likewise; sums in INT32
    w8a16   weights in INT8, with a scale for each output; inputs and products as the model has them
    int4    weights in 4 bits, with a scale for each group of 128 inputs (64 or 32 where 128 does not divide a
            layer's); inputs and products in BF16

Values and scales are as compressed-tensors checkpoints hold them; w8a8 and w8a16 are their names, and vLLM's.

Nothing is installed for them. On a GPU one kernel rounds inputs (`triton_kernels`): several would take more than
the product saves.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from energyscope.errors import ModelError
from energyscope.failures import first_line, out_of_memory
from energyscope.loading.kernel_trials import (
    TOLERANCE,
    first_checked_row,
    products_error,
    random_inputs,
    wrong_kernel,
)
from energyscope.loading.linears import group_of, quantized_linears
from energyscope.reasons import Reason, reason

IMPLEMENTATIONS = {
    "fp8": "PyTorch FP8 per row",
    "w8a8": "energyscope INT8 per row",
    "w8a16": "energyscope INT8 weights per row",
    "int4": "PyTorch INT4 in groups",
}

FP8, INT8 = torch.float8_e4m3fn, torch.int8
LARGEST = {FP8: 448.0, INT8: 127.0}
_INT4_LEVELS = 15
_INT4_MIDDLE = 8  # the code of 0
_TILES = (8, 4, 2)  # of 16 inputs, that a GPU's kernel takes at once; it packs weights by them
_TRIED = 256  # outputs and inputs of the layer by which a device is tried
_TINY = 1e-12


class QuantizedLinear(nn.Module, ABC):
    """A linear with a weight (out, in) that one of PyTorch's kernels multiplies, packed, and its ``scales``."""

    weight: nn.Parameter
    scales: nn.Parameter

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        packed, scales = self.packed(weight.float(), weight.dtype)
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.scales = nn.Parameter(scales, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias.detach(), requires_grad=False)

    @classmethod
    @abstractmethod
    def packed(cls, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return a float32 weight (out, in) as the kernel takes it, and its scales; ``dtype`` is the products'."""

    @classmethod
    @abstractmethod
    def restored(cls, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """Return a float32 weight (out, in) as it is after rounding, in float32, by plain arithmetic."""

    @classmethod
    def rounded(cls, inputs: Tensor) -> Tensor:
        """Return inputs (n, in) as the kernel rounds them, in float32."""
        return inputs.float()

    @abstractmethod
    def product(self, rows: Tensor) -> Tensor:
        """Return the outputs (n, out) of inputs (n, in), in their dtype, with the bias."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (..., out) for inputs (..., in), in the inputs' dtype."""
        rows = x.reshape(-1, self.in_features)
        products = self.product(rows) if len(rows) else rows.new_empty(0, self.out_features)
        return products.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Return the sizes, as torch prints those of a Linear."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class RowScaledLinear(QuantizedLinear):
    """Weights and inputs in 8 bits, each row scaled by its largest value; products in the inputs' dtype."""

    kind: torch.dtype

    @classmethod
    def packed(cls, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        values, scales = round_weight(weight, cls.kind, dtype)
        return values, scales.T.contiguous()

    @classmethod
    def restored(cls, weight: Tensor, dtype: torch.dtype) -> Tensor:
        values, scales = round_weight(weight, cls.kind, dtype)
        return values.float() * scales

    @classmethod
    def rounded(cls, inputs: Tensor) -> Tensor:
        values, scales = round_rows(inputs, cls.kind)
        return values.float() * scales


class Fp8Linear(RowScaledLinear):
    """Weights and inputs in FP8 (e4m3).

    A GPU sums up as deployments do (``use_fast_accum``): slow sums in float32 are another, costlier kernel.
    """

    kind = FP8

    def product(self, rows: Tensor) -> Tensor:
        values, scales = _rounding_on(rows.device.type)(rows.contiguous(), self.kind)
        product: Tensor = torch._scaled_mm(  # noqa: SLF001 - there is no public one
            values, self.weight.T, scale_a=scales, scale_b=self.scales, out_dtype=rows.dtype,
            bias=self.bias if self._takes_bias(rows) else None, use_fast_accum=True,
        )  # fmt: skip
        return product if self.bias is None or self._takes_bias(rows) else product + self.bias

    @staticmethod
    def _takes_bias(rows: Tensor) -> bool:
        return rows.dtype is not torch.float32  # for float32 products, GPUs' kernels take none


class Int8Linear(RowScaledLinear):
    """Weights and inputs in INT8; sums in INT32."""

    kind = INT8

    def product(self, rows: Tensor) -> Tensor:
        values, scales = _rounding_on(rows.device.type)(rows.contiguous(), self.kind)
        if rows.device.type != "cpu":
            return _int8_product()(values, scales, self.weight, self.scales, self.bias, rows.dtype)
        sums = torch._int_mm(values, self.weight.T)  # noqa: SLF001 - there is no public one
        product = (sums.float() * scales * self.scales).to(rows.dtype)
        return product if self.bias is None else product + self.bias


class Int8WeightLinear(RowScaledLinear):
    """Weights in INT8; inputs stay as they are."""

    kind = INT8

    @classmethod
    def rounded(cls, inputs: Tensor) -> Tensor:
        return inputs.float()

    def product(self, rows: Tensor) -> Tensor:
        if rows.device.type != "cpu":
            return _int8_product()(rows.contiguous(), None, self.weight, self.scales, self.bias, rows.dtype)
        scales = self.scales.flatten().to(rows.dtype)
        if rows.dtype is torch.float32:  # the kernel is for 16 bits, and slower than this at several rows
            product = functional.linear(rows, self.weight.float()) * scales
        else:
            product = torch.ops.aten._weight_int8pack_mm(rows.contiguous(), self.weight, scales)  # noqa: SLF001
        return product if self.bias is None else product + self.bias


class Int4Linear(QuantizedLinear):
    """Weights in 4 bits: 16 levels of each group of inputs, -8 to 7 times its scale."""

    @classmethod
    def packed(cls, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        codes, scales = int4_groups(weight, dtype)
        codes, aten = codes.flatten(1).int(), torch.ops.aten
        if weight.device.type == "cpu":
            packed = aten._convert_weight_to_int4pack_for_cpu(codes, 1)  # noqa: SLF001 - there is no public one
        else:
            pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
            tiles = next(number for number in _TILES if weight.shape[1] % (16 * number) == 0)
            packed = aten._convert_weight_to_int4pack(pairs, tiles)  # noqa: SLF001
        offsets = torch.zeros_like(scales)  # which kernels add
        return packed, torch.stack([scales, offsets], dim=-1).transpose(0, 1).contiguous()

    @classmethod
    def restored(cls, weight: Tensor, dtype: torch.dtype) -> Tensor:
        codes, scales = int4_groups(weight, dtype)
        return ((codes - _INT4_MIDDLE) * scales.float()[..., None]).flatten(1)

    def product(self, rows: Tensor) -> Tensor:
        aten = torch.ops.aten
        multiply = aten._weight_int4pack_mm_for_cpu if rows.device.type == "cpu" else aten._weight_int4pack_mm  # noqa: SLF001
        product: Tensor = multiply(rows.contiguous(), self.weight, group_of(self.in_features), self.scales)
        return product if self.bias is None else product + self.bias


LAYERS: dict[str, type[QuantizedLinear]] = {
    "fp8": Fp8Linear,
    "w8a8": Int8Linear,
    "w8a16": Int8WeightLinear,
    "int4": Int4Linear,
}


def round_rows(rows: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return rows (n, k) in FP8 or INT8, and the scale of each (n, 1) in float32, by which its largest value is
    the type's.
    """
    values = rows.float()
    scales = values.abs().amax(dim=1, keepdim=True).clamp(min=_TINY) / LARGEST[kind]
    return _converted(values / scales, kind), scales


def round_weight(weight: Tensor, kind: torch.dtype, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return a weight (out, in) in FP8 or INT8, and each output's scale (out, 1).

    Scales are rounded to the model's ``dtype``, in which checkpoints hold them.
    """
    _, scales = round_rows(weight, kind)
    smallest = torch.finfo(dtype).tiny * torch.finfo(dtype).eps  # above 0
    scales = scales.clamp(min=smallest).to(dtype).float()
    return _converted((weight.float() / scales).clamp(-LARGEST[kind], LARGEST[kind]), kind), scales


def _converted(values: Tensor, kind: torch.dtype) -> Tensor:
    return (values.round() if kind is INT8 else values).to(kind)


@functools.cache
def _rounding_on(device: str) -> Callable[[Tensor, torch.dtype], tuple[Tensor, Tensor]]:
    """Return what rounds inputs (n, in) on a type of device."""
    if device == "cpu":
        return round_rows
    from energyscope.loading import triton_kernels

    return triton_kernels.round_rows


@functools.cache
def _int8_product() -> Callable[..., Tensor]:
    from energyscope.loading.triton_kernels import int8_product

    return int8_product


def int4_groups(weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return codes (out, groups, inputs) of a float32 weight (out, in), and its groups' scales (out, groups).

    A code, 0 to 15 in float32, stands for (code - 8) x scale. Scales are in ``dtype``, and codes are those of them
    as they are stored.
    """
    groups = weight.reshape(len(weight), -1, group_of(weight.shape[1]))
    most = torch.maximum(groups.amax(dim=2) / (_INT4_LEVELS - _INT4_MIDDLE), -groups.amin(dim=2) / _INT4_MIDDLE)
    scales = most.clamp(min=torch.finfo(dtype).tiny).to(dtype)
    codes = groups / scales.float()[..., None] + _INT4_MIDDLE
    return codes.round().clamp(0, _INT4_LEVELS), scales


def torch_linear(module: Any, precision: str, path: str = "") -> QuantizedLinear:
    """Return the layer of one of ``LAYERS`` for a Linear or Conv1D, on the device and in the dtype of its weight.

    A Conv1D's weight is (in, out) and is transposed. The layer is tried: its products with random inputs must be
    those of its rounded weights by plain arithmetic.

    Raises:
        ModelError: the kernel computes wrongly, or fails on this device.

    """
    weight = (module.weight.data if isinstance(module, nn.Linear) else module.weight.data.T).contiguous()
    shape = f"{weight.shape[0]} x {weight.shape[1]} in {precision}"
    try:
        layer = LAYERS[precision](weight, module.bias)
        error = _error(layer, weight)
    except Exception as problem:  # kernels, and Triton, refuse in many ways
        if out_of_memory(problem):
            raise
        raise ModelError(f"PyTorch cannot compute {path} of {shape}: {first_line(problem)}") from problem
    if error > TOLERANCE:
        raise wrong_kernel("PyTorch", path, shape, weight.device, error)
    return layer.eval()


def _error(layer: QuantizedLinear, weight: Tensor) -> float:
    """Return `products_error` of a layer against its weight's last rows; 0 where these are not finite."""
    rows = weight[first_checked_row(len(weight)) :].float()
    if not rows.isfinite().all():
        return 0.0
    inputs = random_inputs(weight.shape[1], weight.device, weight.dtype)
    restored = layer.restored(rows, weight.dtype)
    return products_error(layer, inputs, restored, rounded=layer.rounded(inputs))


def exchange(model: nn.Module, precision: str, keep: Sequence[str]) -> None:
    """Exchange a model's linears for those of ``LAYERS``, in place, but for those that ``keep`` names.

    Raises:
        ModelError: a kernel computes wrongly, or fails on this device.

    """
    for path in list(quantized_linears(model, precision, keep)):  # names alone: what is exchanged must be freed
        model.set_submodule(path, torch_linear(model.get_submodule(path), precision, path))


def reason_against(precision: str, device: torch.device) -> Reason | None:
    """Return why a device cannot compute a precision of ``LAYERS``, tried on a small layer; None if it can."""
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    linear = nn.Linear(_TRIED, _TRIED, bias=False, device="meta")  # draws no random numbers
    rows = random_inputs(_TRIED, device, dtype)
    linear.weight = nn.Parameter(rows.repeat(_TRIED // len(rows), 1), requires_grad=False)
    try:
        torch_linear(linear, precision, "a layer")
    except ModelError as problem:
        return reason("kernel-fails", precision=precision, error=first_line(problem))
    return None
