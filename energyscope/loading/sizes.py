"""Bytes of weights: of a model that is not built yet, and of layers that keep theirs in ways of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from energyscope.loading.options import NATIVE
from energyscope.loading.random_weights import is_kept, is_linear

if TYPE_CHECKING:
    from torch import Tensor, nn

_SCALE = 4  # bytes of a scale, a float32: one for each row in INT8, one for each block of so many in 4 bits
_BLOCK = 64


def planned_bytes(model: nn.Module, precision: str, keep: list[str]) -> int:
    """Return the bytes that a model's weights take once its linears are quantized, tied weights once.

    ``model`` is unquantized, in the data type of everything that stays so; its weights may be on the meta device.
    ``keep`` names the modules that stay unquantized.
    """
    from torch import nn

    needed, seen = 0, set()
    for path, module in model.named_modules():
        small = precision not in NATIVE and is_linear(module) and not is_kept(path, keep)
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            if small and name == "weight":
                rows = parameter.shape[0 if isinstance(module, nn.Linear) else 1]  # a Conv1D's are its columns
                needed += _quantized_bytes(parameter.numel(), rows, precision)
            else:
                needed += parameter.numel() * parameter.element_size()
    return needed


def _quantized_bytes(count: int, rows: int, precision: str) -> int:
    if precision == "int8":
        return count + _SCALE * rows
    return (count + 1) // 2 + _SCALE * -(-count // _BLOCK)


def stored_bytes(model: nn.Module) -> int:
    """Return the bytes of all weights of a model with their scales, tied ones once.

    Weights that a layer of PyTorch's dynamic INT8 has packed are counted by arithmetic: a byte for each, and a
    float32 scale for each row. How its kernel lays them out (padding, the sums of rows) is not known from outside
    and not counted. Tensors of torchao count as what they hold.
    """
    from energyscope.loading.model import weight_bytes

    composed = [one for one in model.parameters() if hasattr(one, "__tensor_flatten__")]
    plain = weight_bytes(model) - sum(_bytes(one) for one in composed)
    packed = sum(_packed_bytes(module) for module in model.modules())
    return plain + packed + sum(_held_bytes(one) for one in composed)


def _held_bytes(tensor: Any) -> int:
    inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    return sum(_bytes(one) for one in inner)


def _packed_bytes(module: Any) -> int:
    if not hasattr(module, "_packed_params") or not callable(getattr(module, "weight", None)):
        return 0  # those of PyTorch's dynamic INT8 give their weight and bias by methods
    bias = module.bias()
    weights = int(module.in_features * module.out_features)
    return weights + _SCALE * int(module.out_features) + (0 if bias is None else _bytes(bias))


def _bytes(tensor: Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())
