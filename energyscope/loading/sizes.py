"""Parameters and bytes of a model's weights: as planned before they are read, and as layers store them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from energyscope.loading.linears import group_of, quantized_linears
from energyscope.loading.options import EIGHT_BIT

if TYPE_CHECKING:
    from torch import Tensor, nn

_SCALE = 4  # bytes of a scale, a float32: one for each row in 8 bits, one for each block of so many in 4 bits
_BLOCK = 64
_NESTED_BLOCK = 256  # double quantization keeps a scale in one byte, and a float32 for each block of so many


def planned_bytes(model: nn.Module, precision: str, keep: list[str], *, double_quant: bool = False) -> int:
    """Return the bytes that a model's weights take once its linears are quantized, tied weights once.

    ``model`` is unquantized, in the data type of everything that stays so; its weights may be on the meta device.
    ``keep`` names the modules that stay unquantized; ``double_quant`` says that scales are quantized too.
    """
    return sum(needed for _, needed in planned_parameters(model, precision, keep, double_quant=double_quant))


def planned_parameters(
    model: nn.Module, precision: str, keep: list[str], *, double_quant: bool = False
) -> Iterator[tuple[str, int]]:
    """Yield the path of each parameter and the bytes of `planned_bytes` that it takes."""
    from torch import nn

    seen = set()
    quantized = quantized_linears(model, precision, keep)
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            needed = parameter.numel() * parameter.element_size()
            if path in quantized and name == "weight":
                rows = parameter.shape[0 if isinstance(module, nn.Linear) else 1]  # a Conv1D's are its columns
                needed = _quantized_bytes(parameter, rows, precision, double_quant=double_quant)
            yield f"{path}.{name}".lstrip("."), needed


def _quantized_bytes(weight: Tensor, rows: int, precision: str, *, double_quant: bool) -> int:
    count = weight.numel()
    if precision in EIGHT_BIT:
        return count + _SCALE * rows
    if precision == "int4":  # a group has a scale and an offset, as long as the weights were
        return count // 2 + 2 * weight.element_size() * (count // group_of(count // rows))
    blocks = -(-count // _BLOCK)
    scales = blocks + _SCALE * -(-blocks // _NESTED_BLOCK) if double_quant else _SCALE * blocks
    return (count + 1) // 2 + scales


def parameter_count(model: nn.Module) -> int:
    """Return the number of parameters, tied ones once; packed weights count as what they stand for."""
    from energyscope.loading.torch_kernels import QuantizedLinear

    counts: dict[int, int] = {}
    for layer in model.modules():
        if isinstance(layer, QuantizedLinear):
            counts |= {id(layer.weight): layer.in_features * layer.out_features, id(layer.scales): 0}
    weights = list(_distinct_parameters(model))
    return sum(counts.get(id(weight), _values(weight)) for weight in weights)


def _values(weight: Any) -> int:
    """Return how many values a weight has, unpacked ones of bitsandbytes."""
    return int(getattr(weight, "quant_state", weight).shape.numel())


def weight_bytes(model: nn.Module) -> int:
    """Return the bytes of all parameters, tied ones once, with the scales of quantized ones."""
    return sum(tensor_bytes(parameter) for parameter in _distinct_parameters(model))


def _distinct_parameters(model: nn.Module) -> Iterator[Any]:
    """Yield a model's parameters, tied ones once, also those whose values wait on the host."""
    seen = set()
    for module in model.modules():
        waiting = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
        for name, parameter in module.named_parameters(recurse=False):
            host = waiting[name] if waiting is not None and parameter.is_meta else None
            key = id(parameter) if host is None else (host.data_ptr(), host.shape)
            if key not in seen:
                seen.add(key)
                yield parameter


def tensor_bytes(weight: Tensor) -> int:
    """Return a weight's bytes as it is stored, with the scales of a quantized one, and theirs."""
    state = getattr(weight, "quant_state", None)
    if state is not None:
        nested = state.state2.absmax.nbytes if state.nested else 0
        return int(weight.nbytes + state.absmax.nbytes + nested)
    scales = _SCALE * weight.shape[0] if type(weight).__name__ == "Int8Params" else 0  # a float32 for each row
    return int(weight.nbytes + scales)


def stored_bytes(model: nn.Module) -> int:
    """Return the bytes of all weights of a model with their scales, tied ones once.

    Weights that a layer of PyTorch's dynamic INT8 has packed are counted by arithmetic: a byte for each, and a
    float32 scale for each row. How its kernel lays them out (padding, the sums of rows) is not known from outside
    and not counted. Tensors of torchao count as what they hold.
    """
    packed = sum(_packed_bytes(module) for module in model.modules())
    wrapped: list[Any] = [tensor for tensor in model.parameters() if _is_wrapper(tensor)]
    inner = sum(int(getattr(each, name).nbytes) for each in wrapped for name in each.__tensor_flatten__()[0])
    plain = sum(tensor_bytes(tensor) for tensor in _distinct_parameters(model) if not _is_wrapper(tensor))
    return packed + inner + plain


def _is_wrapper(tensor: Any) -> bool:
    """Tell whether a tensor is a subclass that holds others, as torchao's do."""
    return hasattr(tensor, "__tensor_flatten__")


def _packed_bytes(module: Any) -> int:
    if not hasattr(module, "_packed_params") or not callable(getattr(module, "weight", None)):
        return 0  # those of PyTorch's dynamic INT8 give their weight and bias by methods
    bias = module.bias()
    weights = int(module.in_features * module.out_features)
    return weights + _SCALE * int(module.out_features) + (0 if bias is None else int(bias.nbytes))
