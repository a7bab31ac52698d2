"""compressed-tensors checkpoints, which vLLM and transformers read.

Weights and scales are those of the layers that were verified (`energyscope.loading.torch_kernels`). Only they
are formats of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.loading.linears import group_of, is_linear
from energyscope.loading.torch_kernels import LAYERS, RowScaledLinear, int4_groups, round_weight

_PACKED = "pack-quantized"


@dataclass(frozen=True)
class _Format:
    """A precision in compressed-tensors: its format, the weights' type, and whether inputs are quantized too."""

    name: str
    kind: str
    bits: int
    quantizes_inputs: bool


_FORMATS = {
    "fp8": _Format("float-quantized", "float", 8, quantizes_inputs=True),
    "w8a8": _Format("int-quantized", "int", 8, quantizes_inputs=True),
    "w8a16": _Format(_PACKED, "int", 8, quantizes_inputs=False),
    "int4": _Format(_PACKED, "int", 4, quantizes_inputs=False),
}


def tensors(linear: nn.Linear, precision: str) -> dict[str, Tensor]:
    """Return the tensors of one linear's weight (out, in) by the names that the format gives them."""
    weight: Tensor = linear.weight.detach()
    layer, form = LAYERS[precision], _FORMATS[precision]
    if issubclass(layer, RowScaledLinear):
        values, scales = round_weight(weight, layer.kind, weight.dtype)
        if form.name != _PACKED:
            return {"weight": values.contiguous(), "weight_scale": scales.to(weight.dtype).contiguous()}
        codes = values.int() + 2 ** (form.bits - 1)
    else:
        codes, scales = int4_groups(weight.float(), weight.dtype)
        codes = codes.flatten(1)
    return {
        "weight_packed": packed(codes, form.bits),
        "weight_scale": scales.to(weight.dtype).contiguous(),
        "weight_shape": torch.tensor(weight.shape),
    }


def packed(codes: Tensor, bits: int) -> Tensor:
    """Return codes (n, m) from 0 on, of 4 or 8 bits, packed to int32, the first in its lowest bits."""
    per_word = 32 // bits
    rows, columns = codes.shape
    filled = nn.functional.pad(codes.to(torch.int64), (0, -columns % per_word)).view(rows, -1, per_word)
    words = (filled << torch.arange(per_word, device=codes.device) * bits).sum(dim=2)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def configuration(model: nn.Module, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration that names every linear exactly: patterns would match others."""
    targets: dict[tuple[str, int | None], list[str]] = {}
    for path, precision in sorted(chosen.items(), key=lambda item: list(_FORMATS).index(item[1])):
        linear: Any = model.get_submodule(path)
        group_size = group_of(linear.in_features) if precision == "int4" else None
        targets.setdefault((precision, group_size), []).append(path)
    groups = [{"targets": paths, **_scheme(*key)} for key, paths in targets.items()]
    formats = {str(group["format"]) for group in groups}
    linears = [path for path, module in model.named_modules() if is_linear(module)]
    return {
        "quant_method": "compressed-tensors",
        "format": formats.pop() if len(formats) == 1 else "mixed-precision",
        "quantization_status": "compressed",
        "config_groups": {f"group_{number}": group for number, group in enumerate(groups)},
        "ignore": [path for path in linears if path not in chosen],
    }


def _scheme(precision: str, group_size: int | None) -> dict[str, Any]:
    """Return how weights and inputs are quantized; without a ``group_size``, each output has one scale."""
    form = _FORMATS[precision]
    values = {"num_bits": form.bits, "type": form.kind, "symmetric": True}
    shared = {"strategy": "group", "group_size": group_size} if group_size else {"strategy": "channel"}
    inputs = {**values, "strategy": "token", "dynamic": True} if form.quantizes_inputs else None
    return {
        "format": form.name, "weights": {**values, **shared, "dynamic": False}, "input_activations": inputs,
    }  # fmt: skip
