"""Simulated quantizers: round a tensor to the values of a low-precision format. Pure.

Every function returns a tensor of the input's shape and dtype, computed in float32. Rounding again changes
nothing (in FP8 the last bit, by which its scale may move), zeros stay zeros, and entries that are not finite pass
unchanged and set no scale: attention may leave NaN at padded positions.

| weights         | values                           | one scale for                             |
|-----------------|----------------------------------|-------------------------------------------|
| ``int8``        | -127 ... 127, symmetric          | each output channel                       |
| ``int8-tensor`` | -127 ... 127, symmetric          | the whole tensor                          |
| ``int4``        | -7 ... 7, symmetric              | 128 weights along the input dimension     |
| ``fp8``         | e4m3 (Micikevicius et al. 2022)  | the whole tensor                          |
| ``nf4``         | 16 levels (Dettmers et al. 2023) | 64 consecutive weights, row by row        |

``int8-wa`` and ``fp8-wa`` also quantize activations, whose scales are taken from the values themselves (dynamic
quantization): INT8 for each token, FP8 for the whole tensor, so that there a batch's examples share one scale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from energyscope.errors import UsageError
from energyscope.impact.methods import SIMULATED

ACTIVATION_METHODS = {"int8-wa": "int8", "fp8-wa": "fp8"}  # with the method for their weights

INT4_GROUP = 128
NF4_BLOCK = 64
FP8_MAXIMUM = 448.0
# The levels of NF4, quantiles of a normal distribution scaled to [-1, 1] (Dettmers et al. 2023, appendix E).
NF4_LEVELS = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


def quantize_weight(weight: Tensor, method: str, *, input_dim: int) -> Tensor:
    """Return a weight as it is after quantizing and dequantizing.

    ``input_dim`` is the dimension that a product with an input adds over: 1 of a Linear (out, in) and of an
    embedding (tokens, features), 0 of a Conv1D (in, out). Every index of the other dimensions is an output
    channel, so that fused experts (experts, out, in) have a scale for each channel of each expert.

    INT4 groups do not cross channels; a channel's last group is shorter where its inputs are no multiple of
    128, so that a weight of at most 128 inputs has one scale for each channel. NF4 blocks are taken from the
    weight laid out as (..., out, in) row by row, as bitsandbytes does: they cross channels whose inputs are no
    multiple of 64, and the last block may be shorter.

    Raises:
        UsageError: there is no such method.

    """
    method = ACTIVATION_METHODS.get(method, method)
    if method not in _QUANTIZERS:
        raise UsageError(f"weights cannot be quantized by {method!r}: use one of {', '.join(SIMULATED)}")
    if not weight.numel():
        return weight.clone()
    rows = weight.movedim(input_dim, -1)
    quantized = _finished(_QUANTIZERS[method](rows.float()), rows).movedim(-1, input_dim)
    return torch.empty_like(weight).copy_(quantized)  # with the weight's strides: kernels are chosen by them too


def quantize_activation(tensor: Tensor, method: str) -> Tensor:
    """Return an activation (..., features) as it is after quantizing and dequantizing.

    ``int8-wa`` has a scale for each token, the features of one position; ``fp8-wa`` one for the tensor.

    Raises:
        UsageError: the method does not quantize activations.

    """
    if method not in ACTIVATION_METHODS:
        known = ", ".join(ACTIVATION_METHODS)
        raise UsageError(f"activations cannot be quantized by {method!r}: use one of {known}")
    if not tensor.numel():
        return tensor.clone()
    return _finished(_QUANTIZERS[ACTIVATION_METHODS[method]](tensor.float()), tensor)


def _finished(values: Tensor, original: Tensor) -> Tensor:
    return torch.where(original.isfinite(), values.to(original.dtype), original)


def _largest(values: Tensor, dim: int | None = None) -> Tensor:
    """Return the largest magnitude of all values, or along a dimension, which is kept; 1 where all are 0."""
    magnitudes = torch.where(values.isfinite(), values.abs(), 0.0)
    largest = magnitudes.max() if dim is None else magnitudes.amax(dim, keepdim=True)
    return torch.where(largest > 0, largest, 1.0)


def _on_integers(values: Tensor, largest: Tensor, levels: int) -> Tensor:
    # in units of the largest value, which is represented exactly: rounding again changes nothing
    return largest * ((values / largest * levels).round() / levels)


def _int8(values: Tensor, dim: int | None) -> Tensor:
    return _on_integers(values, _largest(values, dim), 127)


def _int4_groups(values: Tensor) -> Tensor:
    width = values.shape[-1]
    groups = functional.pad(values, (0, -width % INT4_GROUP)).view(*values.shape[:-1], -1, INT4_GROUP)
    return _on_integers(groups, _largest(groups, -1), 7).flatten(-2)[..., :width]


def _fp8(values: Tensor) -> Tensor:
    scale = _largest(values) / FP8_MAXIMUM
    scale = torch.where(scale > 0, scale, 1.0)  # the smallest numbers of all have no scale: they become 0
    scaled = (values / scale).clamp(-FP8_MAXIMUM, FP8_MAXIMUM)
    return scaled.to(torch.float8_e4m3fn).float() * scale


def _nf4_blocks(values: Tensor) -> Tensor:
    flat = values.flatten()
    blocks = functional.pad(flat, (0, -len(flat) % NF4_BLOCK)).view(-1, NF4_BLOCK)
    largest = _largest(blocks, -1)
    levels = torch.tensor(NF4_LEVELS, device=values.device)
    nearest = torch.bucketize(blocks / largest, (levels[1:] + levels[:-1]) / 2)
    return (levels[nearest] * largest).flatten()[: len(flat)].view(values.shape)


_QUANTIZERS: dict[str, Callable[[Tensor], Tensor]] = {
    "int8": partial(_int8, dim=-1),
    "int8-tensor": partial(_int8, dim=None),
    "int4": _int4_groups,
    "fp8": _fp8,
    "nf4": _nf4_blocks,
}
