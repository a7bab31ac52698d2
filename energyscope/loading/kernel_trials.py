"""Whether a layer of bitsandbytes computes what its own weights say: kernels can be wrong without a word.

bitsandbytes 0.50 on a CPU gives a weight's rows blocks of their own when it restores 4-bit weights, though its
quantizer cuts the weight into blocks of 64 through all rows. Where the number of inputs is no multiple of 64
the scales are mixed up, by the layer and by its ``dequantize_4bit`` alike. So the weights that a layer is held
against are restored here, by plain arithmetic.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from energyscope.errors import ModelError
from energyscope.loading.options import LoadOptions
from energyscope.reasons import Reason, reason

TOLERANCE = 0.03  # of `products_error`: right kernels came within 0.01 on the CPUs that were tried
_CHECKED_ROWS = 256
_WHOLE_BLOCKS = 128  # so many rows are a whole number of blocks, of 64 or (on some GPUs) 128, whatever their width
_PROBES = 8


def mend_layers(model: nn.Module, options: LoadOptions) -> tuple[Reason, ...]:
    """Try the quantized layers of a model, mend the 4-bit ones that compute wrongly, and return what was done.

    On a CPU every layer is tried, elsewhere one of each shape. A mended layer is one of
    `restoring_layer`. A layer that holds NaN or infinity is left as it is, since nothing can be said of it.

    Raises:
        ModelError: a layer computes wrongly and cannot be mended.

    """
    layers = [(name, module) for name, module in model.named_modules() if _is_quantized(module)]
    mended: list[Any] = []
    worst = 0.0
    for alike in _alike(layers, each=options.device.type == "cpu"):
        name, first = alike[0]
        unpacked = _stored(first)
        error = layer_error(first, options.dtype)
        if error is None or error <= TOLERANCE:
            continue
        if options.precision == "int8":
            raise _refusal(name, first, options, error)
        _store(first, *unpacked)
        for _, layer in alike:
            _restore_in_forward(layer)
        if (layer_error(first, options.dtype) or 0.0) > TOLERANCE:  # something else decides how it runs
            raise _refusal(name, first, options, error)
        mended += [layer for _, layer in alike]
        worst = max(worst, error)
    return (_note(mended, len(layers), worst, options),) if mended else ()


def layer_error(layer: Any, dtype: torch.dtype) -> float | None:
    """Return `products_error` of a layer of bitsandbytes against its own weights; None if these are not finite.

    ``dtype`` is that of its inputs. Not for a layer that has run with packed weights.
    """
    first = first_checked_row(layer.out_features)
    rows = restored_rows(layer.weight, first) if _is_four_bit(layer) else _int8_rows(layer, first)
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
            products = layer(inputs)[:, -len(rows) :].float()
    finally:
        layer.bias = bias
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
    if not state.nested:
        scales: Tensor = state.absmax.float()
        return scales
    outer = state.state2
    levels = outer.code.float()[state.absmax.int()]
    own = outer.absmax.float().repeat_interleave(outer.blocksize)[: len(levels)]
    nested: Tensor = levels * own + state.offset.float()
    return nested


def _int8_rows(layer: Any, first: int) -> Tensor:
    """Return the rows of an INT8 weight: a layer that has run keeps its weight in its state."""
    holder = layer.weight if layer.state.CB is None else layer.state
    rows: Tensor = holder.CB[first:].float() * holder.SCB[first:, None].float() / 127
    return rows


def _is_quantized(module: nn.Module) -> bool:
    return type(getattr(module, "weight", None)).__name__ in {"Int8Params", "Params4bit"}


def _is_four_bit(layer: Any) -> bool:
    return type(layer.weight).__name__ == "Params4bit"


def _alike(layers: list[tuple[str, Any]], *, each: bool) -> Iterator[list[tuple[str, Any]]]:
    """Yield the layers one by one, or those of the same shape together."""
    groups: dict[Any, list[tuple[str, Any]]] = {}
    for name, layer in layers:
        groups.setdefault(name if each else (layer.out_features, layer.in_features), []).append((name, layer))
    yield from groups.values()


def _stored(layer: Any) -> tuple[Any, Any]:
    """Return a weight's values and state; a layer that packs them when it runs changes the state in place."""
    return layer.weight.data, copy.copy(getattr(layer.weight, "quant_state", None))


def _store(layer: Any, values: Tensor, state: Any) -> None:
    layer.weight.data = values
    layer.weight.quant_state = layer.quant_state = state


def _restore_in_forward(layer: Any) -> None:
    """Change a layer's class, not its ``forward`` alone, which would not follow its copies."""
    layer.__class__ = restoring_layer()
    layer.support_avx512bf16_for_cpu = False


@functools.cache
def restoring_layer() -> Any:
    """Return the class of mended layers; made late, since it imports bitsandbytes."""
    import bitsandbytes as bnb

    class RestoringLinear4bit(bnb.nn.Linear4bit):  # type: ignore[misc]
        """A Linear4bit that restores its weight by plain arithmetic each time."""

        def forward(self, x: Tensor) -> Tensor:
            """Return the outputs (..., out) for inputs (..., in), in the inputs' dtype."""
            dtype = x.dtype if self.compute_dtype is None else self.compute_dtype
            bias = None if self.bias is None else self.bias.to(dtype)
            return functional.linear(x.to(dtype), restored_rows(self.weight).to(dtype), bias).to(x.dtype)

    return RestoringLinear4bit


def _refusal(name: str, layer: Any, options: LoadOptions, error: float) -> ModelError:
    return ModelError(
        f"bitsandbytes computes {name} of {layer.out_features} x {layer.in_features} in {options.precision} "
        f"wrongly on {options.device.type} (relative error {error:.2g} on random inputs): use another --precision"
    )


def _note(mended: list[Any], total: int, worst: float, options: LoadOptions) -> Reason:
    return reason(
        "not-its-kernels",
        precision=options.precision,
        inputs=sorted({layer.in_features for layer in mended}),
        device="CPU" if options.device.type == "cpu" else "GPU",
        error=worst,
        layers=len(mended),
        total=total,
    )
