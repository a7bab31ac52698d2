"""Checkpoints of transformers with torchao's tensors: FP8 and INT8 with a scale a row.

They are made of the values that were verified and not by torchao's own rounding, so that FP8 can be written on any
device. torchao packs INT4 for one kind of GPU, which is why it is not among them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.loading.torch_kernels import FP8, INT8, round_weight


def tensors(linear: nn.Linear, precision: str) -> dict[str, Tensor]:
    """Return one linear's weight (out, in) as the tensor that torchao multiplies with."""
    from torchao import quantization as torchao
    from torchao.quantization.quantize_.common import KernelPreference
    from torchao.quantization.quantize_.workflows import QuantizeTensorToFloat8Kwargs, QuantizeTensorToInt8Kwargs

    weight = linear.weight.detach()
    values, scales = round_weight(weight, FP8 if precision == "fp8" else INT8, weight.dtype)
    block = [1, weight.shape[1]]
    if precision == "fp8":
        by_torch = KernelPreference.TORCH
        inputs = QuantizeTensorToFloat8Kwargs(granularity=torchao.PerRow(), kernel_preference=by_torch)
        fast = torchao.Float8MMConfig(use_fast_accum=True)
        quantized = torchao.Float8Tensor(values, scales, block, fast, inputs, by_torch, weight.dtype)
    else:
        rounded = QuantizeTensorToInt8Kwargs(granularity=torchao.PerRow()) if precision == "w8a8" else None
        zeros = torch.zeros_like(scales, dtype=torch.int8)
        quantized = torchao.Int8Tensor(
            values, scales, block, weight.dtype, zero_point=zeros, act_quant_kwargs=rounded
        )
    return {"weight": quantized}


def configuration(model: nn.Module, chosen: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG001 - as of the others
    """Return the configuration with the exact name of each linear: what it does not name stays as it is."""
    from torchao import quantization as torchao
    from torchao.quantization.quantize_.common import KernelPreference
    from transformers import TorchAoConfig

    each = {
        "fp8": torchao.Float8DynamicActivationFloat8WeightConfig(
            granularity=torchao.PerRow(), kernel_preference=KernelPreference.TORCH, set_inductor_config=False
        ),
        "w8a8": torchao.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False),
        "w8a16": torchao.Int8WeightOnlyConfig(set_inductor_config=False),
    }
    named = OrderedDict((path, each[precision]) for path, precision in chosen.items())
    return dict(TorchAoConfig(torchao.FqnToConfig(named)).to_dict())


def flattened(weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return weights as plain tensors, as a safetensors file holds them, and the metadata that restores them."""
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

    plain, metadata = flatten_tensor_state_dict(dict(weights))
    return plain, metadata
