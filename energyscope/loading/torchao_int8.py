"""INT8 by torchao, for CPUs: static (activation scales calibrated beforehand) and dynamic.

Importing this imports no torchao. On a GPU its products are for torch.compile: in eager mode torchao 0.18
formats the input of every product as text (``safe_int_mm`` looks whether it is a fake tensor), which copies it to
the host, so what would be measured is that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.errors import DataError, ModelError, UsageError
from energyscope.failures import first_line, no_memory_left
from energyscope.loading.linears import exchange, quantizable, require_right
from energyscope.loading.quiet import quieten
from energyscope.reasons import Reason, reason

STATIC = "torchao static INT8"
DYNAMIC = "torchao dynamic INT8"


def reason_against(device: torch.device) -> Reason | None:
    """Return why torchao's INT8 cannot be had on a device; None if it can."""
    if device.type != "cpu":
        return reason("torchao-for-compile", device=device.type)
    try:
        library = _library()
    except ModuleNotFoundError:
        return reason("package-missing", package="torchao", install="'energyscope-llm[torchao]'")
    except Exception as error:  # noqa: BLE001  its libraries may fail to load in many ways
        return reason("package-broken", package="torchao", error=first_line(error))
    if not hasattr(library, "Int8StaticActivationInt8WeightConfig"):
        return reason("torchao-too-old")
    return None


def quantize_static(
    model: nn.Module, keep: list[str], batches: Sequence[Mapping[str, Tensor]]
) -> tuple[Reason, ...]:
    """Exchange the linears of a float32 model on a CPU, in place; return what its readers must know.

    ``keep`` names the modules that stay unquantized; ``batches`` are the model's inputs, as keyword arguments, by
    which activation scales are set: the largest magnitude that a layer was fed is the largest it can
    represent, and what is larger later is clipped to it.

    Raises:
        UsageError: there are no batches.
        DataError: a batch does not fit the model.
        ModelError: a layer computes wrongly on this processor, or was never reached, or there is none to quantize.

    """
    if not batches:
        raise UsageError("static INT8 sets its activation scales by batches of real inputs: give some")
    library = _library()
    linears = quantizable(model, keep)
    count = len(linears)
    largest = _largest_inputs(model, linears, batches)

    spared = _spares_a_bit()

    def quantized(path: str, linear: nn.Linear) -> nn.Module:
        config = library.Int8StaticActivationInt8WeightConfig(
            act_quant_scale=torch.full((1, 1), largest[path] / (63 if spared else 127)),
            granularity=[library.PerTensor(), library.PerRow()],
            set_inductor_config=False,  # it is the whole process's
            reduce_range=spared,
        )
        layer = _converted(library, _FlatLinear.of(linear), config)
        require_right(path, layer, linear, _rows(layer), maker=STATIC, size=largest[path] / 3)
        return layer

    exchange(model, linears, quantized)
    return (reason("int8-static", layers=count, bits=_bits(spared), batches=len(batches)),)


def quantize_dynamic(model: nn.Module, keep: list[str]) -> tuple[Reason, ...]:
    """Exchange the linears of a float32 model on a CPU, in place; return what its readers must know.

    Each row of a weight has its scale, and each token's activations have theirs in every call.

    Raises:
        ModelError: a layer computes wrongly on this processor, or there is none to quantize.

    """
    library = _library()
    linears = quantizable(model, keep)
    count = len(linears)
    spared = _spares_a_bit()

    def quantized(path: str, linear: nn.Linear) -> nn.Module:
        config = library.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False, reduce_range=spared)
        layer = _converted(library, _FlatLinear.of(linear), config)
        require_right(path, layer, linear, _rows(layer), maker=DYNAMIC)
        return layer

    exchange(model, linears, quantized)
    return (reason("int8-dynamic", layers=count, engine="torchao", bits=_bits(spared), per="token"),)


class _FlatLinear(nn.Linear):
    """A Linear that flattens its inputs to (n, in): a static scale must have as many dimensions as they have."""

    @classmethod
    def of(cls, linear: nn.Linear) -> _FlatLinear:
        with torch.device("meta"):
            layer = cls(linear.in_features, linear.out_features, bias=linear.bias is not None)
        layer.weight, layer.bias = linear.weight, linear.bias
        return layer.eval()

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name that callers may use
        """Return the outputs (..., out) for inputs (..., in)."""
        found = super().forward(input.reshape(-1, self.in_features))
        return found.reshape(*input.shape[:-1], self.out_features)


def _converted(library: Any, layer: nn.Module, config: Any) -> nn.Module:
    library.quantize_(layer, config)
    return layer


def _rows(layer: Any) -> Tensor:
    rows: Tensor = layer.weight.dequantize()
    return rows


def _bits(spared: bool) -> int:
    return 7 if spared else 8


def _largest_inputs(
    model: nn.Module, linears: list[tuple[str, nn.Module]], batches: Sequence[Mapping[str, Tensor]]
) -> dict[str, float]:
    """Return the largest magnitude among the inputs of each linear, by its path.

    Raises:
        ModelError: a linear took no part in any pass, or was fed nothing but zeros, or something infinite.
        DataError: a batch does not fit the model.

    """
    largest = dict.fromkeys((path for path, _ in linears), 0.0)

    def watch(path: str) -> Any:
        def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            largest[path] = max(largest[path], float(inputs[0].abs().max()))

        return note

    with ExitStack() as stack, torch.no_grad():
        for path, module in linears:
            stack.callback(module.register_forward_pre_hook(watch(path)).remove)
        for batch in batches:
            _run(model, batch)
    for path, found in largest.items():
        if not 0 < found < float("inf"):
            raise ModelError(
                f"{path} was fed nothing to set a scale by (largest input: {found:g}): calibrate on other "
                "batches, or use another --precision"
            )
    return largest


def _run(model: nn.Module, batch: Mapping[str, Tensor]) -> None:
    try:
        model(**batch)
    except Exception as error:
        if no_memory_left(error):
            raise
        raise DataError(
            f"the model cannot compute a batch to calibrate on ({first_line(error)}): give batches made for it"
        ) from error


def _spares_a_bit() -> bool:
    """Tell whether products of 8 bits overflow here, by trying the largest ones.

    x86 kernels without VNNI instructions add pairs of products in 16 bits, which saturate.
    """
    from torchao.kernel import int_scaled_matmul

    largest = torch.full((32, 64), 127, dtype=torch.int8)
    found = int_scaled_matmul(largest, largest.T, torch.ones(32, 1))
    return not bool((found == 64 * 127 * 127).all())


def _library() -> Any:
    quieten()
    import torchao.quantization as library

    return library
