"""Models of the true shape with random weights, built on the device itself, in any precision.

Nothing passes through host memory, so that the shape of a 70 B model can be measured on a machine whose
memory is smaller than the GPU's. Quantized models are filled one module at a time: the unquantized model
never exists as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from energyscope.loading.options import QUANTIZED, LoadOptions

if TYPE_CHECKING:
    import torch
    from torch import nn


def build(make: Callable[[], nn.Module], options: LoadOptions, keep: list[str]) -> nn.Module:
    """Build a model with seeded random weights on a device.

    ``make`` builds the (transformers) model in whatever device context it is called in; ``keep`` names the
    modules that stay unquantized. The global random state is left as it was.
    """
    import torch

    device = options.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        torch.manual_seed(options.seed)
        if options.precision in QUANTIZED:
            return _build_quantized(make, options, keep)
        with device:
            return make()


def _build_quantized(make: Callable[[], nn.Module], options: LoadOptions, keep: list[str]) -> nn.Module:
    import torch

    with torch.device("meta"):
        model: Any = make()
    for name, module in list(model.named_modules()):
        module.to_empty(device=options.device, recurse=False)
        model._init_weights(module)  # noqa: SLF001  (every transformers model defines it: weights and buffers)
        if is_linear(module) and not is_kept(name, keep):
            model.set_submodule(name, quantized_linear(module, options.precision, options.dtype))
    model.tie_weights()
    result: nn.Module = model
    return result


def is_linear(module: nn.Module) -> bool:
    """Tell whether a module is one that bitsandbytes can stand in for: Linear, or GPT-2's Conv1D."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    return type(module) in {nn.Linear, Conv1D}


def is_kept(name: str, keep: list[str]) -> bool:
    return any(name == path or name.endswith(f".{path}") for path in keep)


def quantized_linear(module: Any, precision: str, dtype: torch.dtype) -> nn.Module:
    """Return the bitsandbytes layer for a Linear or Conv1D, quantized on the device where its weight is.

    A Conv1D's weight is (in, out) and is transposed; ``dtype`` is what a 4-bit layer computes in.
    """
    import torch
    from torch import nn

    weight = module.weight.data if isinstance(module, nn.Linear) else module.weight.data.T
    rows, columns = weight.shape
    with torch.device("meta"):
        layer = _empty_layer(columns, rows, precision, dtype, bias=module.bias is not None)
    if precision == "int8":
        layer.weight = _int8_parameter(weight)
    else:
        layer.weight = _four_bit_parameter(weight, layer, precision)
    layer.bias = module.bias
    quantized: nn.Module = layer.requires_grad_(False)
    spare_small_layers(quantized)
    return quantized


def spare_small_layers(model: nn.Module) -> None:
    """Keep small 4-bit layers from bitsandbytes' packed kernel for CPUs with AVX512-BF16.

    It asserts that outputs come in blocks of 32, and its scales assume whole blocks of 64 inputs.
    """
    for module in model.modules():
        if getattr(module, "support_avx512bf16_for_cpu", False):
            layer: Any = module
            layer.support_avx512bf16_for_cpu = layer.out_features % 32 == 0 and layer.in_features % 64 == 0


def _empty_layer(columns: int, rows: int, precision: str, dtype: torch.dtype, *, bias: bool) -> Any:
    import bitsandbytes as bnb

    if precision == "int8":
        return bnb.nn.Linear8bitLt(columns, rows, bias, has_fp16_weights=False, threshold=6.0)
    return bnb.nn.Linear4bit(columns, rows, bias, dtype, compress_statistics=False, quant_type=precision)


def _int8_parameter(weight: torch.Tensor) -> Any:
    import bitsandbytes as bnb
    import torch

    values, scales, _ = bnb.functional.int8_vectorwise_quant(weight.contiguous().to(torch.float16))
    return bnb.nn.Int8Params(values, requires_grad=False, has_fp16_weights=False, CB=values, SCB=scales)


def _four_bit_parameter(weight: torch.Tensor, layer: Any, precision: str) -> Any:
    import bitsandbytes as bnb

    parameter = bnb.nn.Params4bit(
        weight.contiguous(), requires_grad=False, compress_statistics=False, quant_type=precision, module=layer
    )
    return parameter.to(weight.device)
