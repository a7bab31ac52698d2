"""Trials of bitsandbytes' layers against their own weights: some of its kernels are wrong and do not say so.

bitsandbytes 0.50 on a CPU gives a weight's rows blocks of their own when it restores 4-bit weights, though its
quantizer cuts the weight into blocks of 64 through all rows. Where the number of inputs is no multiple of 64
the scales are mixed up, by the layer and by its ``dequantize_4bit`` alike. So the weights that a layer is compared
with are restored here, by plain arithmetic.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from energyscope.errors import ModelError
from energyscope.grouping import group_by
from energyscope.loading.options import LoadOptions
from energyscope.reasons import Reason, reason

TOLERANCE = 0.03  # of `products_error`: right kernels came within 0.01 on the CPUs that were tried
_CHECKED_ROWS = 256
_WHOLE_BLOCKS = 128  # so many rows are a whole number of blocks, of 64 or (on some GPUs) 128, whatever their width
_PROBES = 8


def repair_layers(model: nn.Module, options: LoadOptions) -> tuple[Reason, ...]:
    """Try the quantized layers of a model, repair the 4-bit ones that compute wrongly, and return a note on that.

    On a CPU every layer is tried, elsewhere one of each shape. A repaired layer is one of
    `restoring_layer`. A layer that holds NaN or infinity is left as it is, since nothing can be said of it.

    Raises:
        ModelError: a layer computes wrongly and cannot be repaired.

    """
    layers: list[tuple[str, Any]] = [
        (name, module) for name, module in model.named_modules() if _kind(module) in {"Int8Params", "Params4bit"}
    ]
    on_cpu = options.device.type == "cpu"
    groups = group_by(layers, lambda item: item[0] if on_cpu else (item[1].out_features, item[1].in_features))
    repaired: list[Any] = []
    errors: list[float] = []
    for (name, first), *others in groups.values():
        group = [first, *(layer for _, layer in others)]
        if error := _repair(name, first, group, options):
            repaired += group
            errors.append(error)
    if not repaired:
        return ()
    note = reason(
        "not-its-kernels",
        precision=options.precision,
        inputs=sorted({layer.in_features for layer in repaired}),
        device="CPU" if on_cpu else "GPU",
        error=max(errors),
        layers=len(repaired),
        total=len(layers),
    )
    return (note,)


def _repair(name: str, first: Any, group: list[Any], options: LoadOptions) -> float | None:
    """Try the first layer of a group of one shape; repair all and return its error if it is wrong, else None."""
    weight = first.weight  # a layer that packs its weight when it runs changes this state in place
    values, state = weight.data, copy.copy(getattr(weight, "quant_state", None))
    error = layer_error(first, options.dtype)
    if error is None or error <= TOLERANCE:
        return None
    if options.precision != "int8":
        first.weight.data = values
        first.weight.quant_state = first.quant_state = state
        for layer in group:
            layer.__class__ = restoring_layer()  # its forward alone would not follow copies of the layer
            layer.support_avx512bf16_for_cpu = False
        if (layer_error(first, options.dtype) or 0.0) <= TOLERANCE:
            return error  # otherwise something else decides how it runs
    shape = f"{first.out_features} x {first.in_features} in {options.precision}"
    raise wrong_kernel("bitsandbytes", name, shape, options.device, error)


def wrong_kernel(maker: str, name: str, shape: str, device: torch.device, error: float) -> ModelError:
    """Return the refusal of a layer that computes wrongly; ``maker`` names whose kernel it is."""
    return ModelError(
        f"{maker} computes {name} of {shape} wrongly on {device.type} "
        f"(relative error {error:.2g} on random inputs): use another --precision"
    )


def layer_error(layer: Any, dtype: torch.dtype) -> float | None:
    """Return `products_error` of a layer of bitsandbytes against its own weights; None if these are not finite.

    ``dtype`` is that of its inputs. Not for a layer that has run with packed weights.
    """
    first = first_checked_row(layer.out_features)
    rows = restored_rows(layer.weight, first) if _kind(layer) == "Params4bit" else _int8_rows(layer, first)
    if not rows.isfinite().all():
        return None
    return products_error(layer, random_inputs(layer.in_features, layer.weight.device, dtype), rows)


def first_checked_row(rows: int) -> int:
    """Return the first of a weight's last rows, which are checked: a whole number of blocks comes before it."""
    return max(0, rows - _CHECKED_ROWS) // _WHOLE_BLOCKS * _WHOLE_BLOCKS


def random_inputs(width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return the same normal inputs (8, width) every time, within the outlier threshold of LLM.int8()."""
    inputs = torch.randn(_PROBES, width, generator=torch.Generator().manual_seed(0))
    return inputs.clamp(-3, 3).to(device, dtype)


def products_error(layer: Any, inputs: Tensor, rows: Tensor, *, rounded: Tensor | None = None) -> float:
    """Return how far a layer's products with inputs (n, in) lie from those of the weight's last rows (k, in).

    ``rounded`` are the inputs as the kernel is meant to round them. The difference is relative to the size that
    the products would have if the weights' signs were random; infinite if the layer gives NaN.
    """
    bias, layer.bias = layer.bias, None  # a large one would hide the products in its rounding
    try:
        with torch.no_grad():
            products = layer(inputs)
    finally:
        layer.bias = bias
    return relative_error(products, inputs, rows, rounded=rounded)


def relative_error(products: Tensor, inputs: Tensor, rows: Tensor, *, rounded: Tensor | None = None) -> float:
    """Return `products_error` of products (n, out) that a layer has computed already."""
    products = products[:, -len(rows) :].float()
    expected = functional.linear((inputs if rounded is None else rounded).float(), rows.float())
    difference = float((products - expected).norm())
    size = float(functional.linear(inputs.float().square(), rows.float().square()).sum().sqrt())
    error = difference / size if size > 0 else difference
    return error if math.isfinite(error) else math.inf


def restored_rows(weight: Any, first: int = 0) -> Tensor:
    """Return the rows (out, in) of a 4-bit weight from ``first`` on, in float32, by plain arithmetic.

    Two values share a byte, the first in its high half; a value is its code's level times its block's scale, and
    blocks go through all rows (Dettmers et al. 2023). ``first`` rows must be a whole number of blocks.
    """
    state = weight.quant_state
    width, start = state.shape[1], first * state.shape[1]
    count = state.shape.numel() - start
    packed = weight.data.view(-1).view(torch.uint8)[start // 2 :]
    codes = torch.stack([packed >> 4, packed & 15], dim=-1).view(-1)[:count]
    levels = state.code.float()[codes.int()]
    scales = _scales(state)[start // state.blocksize :]
    padded = functional.pad(levels, (0, -count % state.blocksize))
    rows: Tensor = (padded.view(-1, state.blocksize) * scales[:, None]).view(-1)[:count].view(-1, width)
    return rows


def _scales(state: Any) -> Tensor:
    """Return the scales of a 4-bit weight's blocks, in float32, also where they are quantized too.

    Those are bytes that stand for levels of one table, times the scale of their own block, above a common offset
    (Dettmers et al. 2023, double quantization).
    """
    scales: Tensor = state.absmax.float()
    if state.nested:
        outer = state.state2
        levels = outer.code.float()[state.absmax.int()]
        scales = levels * outer.absmax.float().repeat_interleave(outer.blocksize)[: len(levels)]
        scales += state.offset.float()
    return scales


def _int8_rows(layer: Any, first: int) -> Tensor:
    """Return the rows of an INT8 weight: a layer that has run keeps its weight in its state."""
    holder = layer.weight if layer.state.CB is None else layer.state
    rows: Tensor = holder.CB[first:].float() * holder.SCB[first:, None].float() / 127
    return rows


def _kind(module: nn.Module) -> str:
    """Return the type of a module's weight, by its name: importing bitsandbytes takes a while."""
    return type(getattr(module, "weight", None)).__name__


@functools.cache
def restoring_layer() -> Any:
    """Return the class of repaired layers, made on demand: it imports bitsandbytes."""
    import bitsandbytes as bnb

    class RestoringLinear4bit(bnb.nn.Linear4bit):  # type: ignore[misc]
        """A Linear4bit that restores its weight by plain arithmetic each time."""

        def forward(self, x: Tensor) -> Tensor:
            """Return the outputs (..., out) for inputs (..., in), in the inputs' dtype."""
            dtype = x.dtype if self.compute_dtype is None else self.compute_dtype
            bias = None if self.bias is None else self.bias.to(dtype)
            return functional.linear(x.to(dtype), restored_rows(self.weight).to(dtype), bias).to(x.dtype)

    return RestoringLinear4bit
