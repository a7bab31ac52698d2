"""PyTorch's dynamic INT8 for CPUs: INT8 weights, activations rounded by the range of each call's own.

`torch.ao.quantization` is deprecated and will go; torchao's dynamic INT8 takes its place where it is gone.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.loading.linears import exchange, quantizable, require_right
from energyscope.reasons import Reason, reason

NAME = "PyTorch dynamic INT8"


def reason_against() -> Reason | None:
    """Return why PyTorch's own dynamic INT8 cannot be had; None if it can."""
    try:
        from torch.ao.quantization import quantize_dynamic  # noqa: F401
    except ImportError:
        return reason("no-dynamic-int8", version=torch.__version__)
    if torch.backends.quantized.engine in {"none", ""}:
        return reason("no-int8-kernels")
    return None


def quantize(model: nn.Module, keep: list[str]) -> tuple[Reason, ...]:
    """Exchange the linears of a float32 model on a CPU, in place; return what its readers must know.

    ``keep`` names the modules that stay unquantized. Each weight has one scale a row, and each call one range for
    all its activations.

    Raises:
        ModelError: a layer computes wrongly on this processor, or there is none to quantize.

    """
    linears = quantizable(model, keep)
    count = len(linears)
    exchange(model, linears, _quantized)
    engine = torch.backends.quantized.engine
    bits = 8 if engine == "qnnpack" else 7  # elsewhere PyTorch spares a bit, against overflow of 16-bit sums
    return (reason("int8-dynamic", layers=count, engine=engine, bits=bits, per="call"),)


def _quantized(path: str, linear: nn.Linear) -> nn.Module:
    from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it is deprecated, which the module's docstring says too
        holder: Any = quantize_dynamic(  # type: ignore[no-untyped-call]
            nn.Sequential(linear), {nn.Linear: per_channel_dynamic_qconfig}, dtype=torch.qint8
        )
        layer: nn.Module = holder[0]
        rows: Tensor = holder[0].weight().dequantize()
    require_right(path, layer, linear, rows, maker=NAME)
    return layer
