"""INT8 linears for CPUs: PyTorch's own dynamic ones, and torchao's, static and dynamic.

Weights are INT8. Activations are rounded by the range of each call (PyTorch), of each token (torchao dynamic), or
by scales that are calibrated beforehand (torchao static). `torch.ao.quantization` is deprecated: torchao's dynamic
INT8 takes the place of PyTorch's where that is gone.

Importing this imports no torchao. On a GPU its products are for torch.compile: in eager mode torchao 0.18 formats
the input of every product as text (``safe_int_mm`` looks whether it is a fake tensor), and the copy to the host
would be most of what is measured.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.errors import DataError, ModelError, UsageError
from energyscope.failures import first_line, no_memory_left
from energyscope.loading.kernel_trials import TOLERANCE, random_inputs, relative_error, wrong_kernel
from energyscope.loading.libraries import missing, silence_loggers
from energyscope.loading.linears import quantized_linears
from energyscope.reasons import Reason, reason

TORCH_DYNAMIC = "PyTorch dynamic INT8"
TORCHAO_DYNAMIC = "torchao dynamic INT8"
TORCHAO_STATIC = "torchao static INT8"

Notes = tuple[Reason, ...]
Linears = list[tuple[str, nn.Module]]  # with their paths


def reason_against_torch() -> Reason | None:
    """Return why PyTorch's own dynamic INT8 cannot be had; None if it can."""
    try:
        from torch.ao.quantization import quantize_dynamic  # noqa: F401
    except ImportError:
        return reason("no-dynamic-int8", version=torch.__version__)
    if torch.backends.quantized.engine in {"none", ""}:
        return reason("no-int8-kernels")
    return None


def reason_against_torchao(device: torch.device) -> Reason | None:
    """Return why torchao's INT8 cannot be had on a device; None if it can."""
    if device.type != "cpu":
        return reason("torchao-for-compile", device=device.type)
    if problem := missing("torchao.quantization", "'energyscope-llm[torchao]'"):
        return problem
    is_new = hasattr(_torchao(), "Int8StaticActivationInt8WeightConfig")
    return None if is_new else reason("torchao-too-old")


def quantize_dynamic(model: nn.Module, keep: Sequence[str]) -> tuple[str, Notes]:
    """Exchange the linears of a float32 model on a CPU, in place; return whose layers it has now, and notes.

    ``keep`` names the modules that stay unquantized.

    Raises:
        ModelError: a layer computes wrongly on this processor, or there is none to quantize.

    """
    if reason_against_torch() is None:
        return TORCH_DYNAMIC, quantize_by_torch(model, keep)
    return TORCHAO_DYNAMIC, quantize_by_torchao(model, keep)


def quantize_by_torch(model: nn.Module, keep: Sequence[str]) -> Notes:
    """Exchange linears for PyTorch's: a scale for each row of a weight, a range for all activations of a call."""
    count = _exchange(model, quantizable(model, keep), torch_dynamic_linear)
    engine = torch.backends.quantized.engine
    bits = 8 if engine == "qnnpack" else 7  # elsewhere PyTorch spares a bit, against overflow of 16-bit sums
    return (reason("int8-dynamic", layers=count, engine=engine, bits=bits, per="call"),)


def quantize_by_torchao(model: nn.Module, keep: Sequence[str]) -> Notes:
    """Exchange linears for torchao's: a scale for each row of a weight, and one for each token in every call."""
    library, spares_a_bit = _torchao(), _spares_a_bit()

    def quantized(path: str, linear: nn.Linear) -> nn.Module:
        config = library.Int8DynamicActivationInt8WeightConfig(
            set_inductor_config=False, reduce_range=spares_a_bit
        )
        return _torchao_layer(path, linear, config, TORCHAO_DYNAMIC)

    count = _exchange(model, quantizable(model, keep), quantized)
    return (reason("int8-dynamic", layers=count, engine="torchao", bits=7 if spares_a_bit else 8, per="token"),)


def quantize_static(model: nn.Module, keep: Sequence[str], batches: Sequence[Mapping[str, Tensor]]) -> Notes:
    """Exchange the linears of a float32 model on a CPU for torchao's, in place; return notes for readers.

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
    library = _torchao()
    linears = quantizable(model, keep)
    largest = _largest_inputs(model, linears, batches)
    spares_a_bit = _spares_a_bit()

    def quantized(path: str, linear: nn.Linear) -> nn.Module:
        config = library.Int8StaticActivationInt8WeightConfig(
            act_quant_scale=torch.full((1, 1), largest[path] / (63 if spares_a_bit else 127)),
            granularity=[library.PerTensor(), library.PerRow()],
            set_inductor_config=False,  # it is the whole process's
            reduce_range=spares_a_bit,
        )
        return _torchao_layer(path, linear, config, TORCHAO_STATIC, size=largest[path] / 3)

    count = _exchange(model, linears, quantized)
    return (reason("int8-static", layers=count, bits=7 if spares_a_bit else 8, batches=len(batches)),)


def quantizable(model: nn.Module, keep: Sequence[str]) -> Linears:
    """Return the linears of a model with their paths, without those that ``keep`` names: Linear and Conv1D.

    Raises:
        ModelError: there are none, so that a quantized model would be the same model.

    """
    linears = list(quantized_linears(model, "int8", keep).items())
    if not linears:
        raise ModelError("the model has no linear layers to quantize: use a --precision that is not quantized")
    return linears


def as_linear(module: Any) -> nn.Linear:
    """Return a Linear with the weights (out, in) of a Linear or of GPT-2's Conv1D, which stores them (in, out)."""
    if isinstance(module, nn.Linear):
        return module
    weight = module.weight.data.T.contiguous()
    with torch.device("meta"):
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias=module.bias is not None)
    linear.weight = nn.Parameter(weight, requires_grad=False)
    linear.bias = module.bias
    return linear.train(module.training)


def _exchange(model: nn.Module, linears: Linears, quantized: Callable[[str, nn.Linear], nn.Module]) -> int:
    """Exchange linears one by one, in place, so that each original can go; return their number."""
    count = len(linears)
    while linears:
        path, module = linears.pop(0)
        with torch.no_grad():
            model.set_submodule(path, quantized(path, as_linear(module)))
    return count


def require_right(
    path: str, layer: nn.Module, linear: nn.Linear, weight: Tensor, *, maker: str, size: float = 1.0
) -> None:
    """Try a quantized layer on random inputs (8, in) times ``size`` against its own ``weight`` (out, in).

    ``maker`` names whose kernel it is in the message.

    Raises:
        ModelError: its products lie further off than the rounding of inputs to 7 bits explains.

    """
    device = linear.weight.device
    inputs = random_inputs(linear.in_features, device, linear.weight.dtype) * size
    with torch.no_grad():
        outputs: Tensor = layer(inputs)
        products = outputs if linear.bias is None else outputs - linear.bias  # packed with the weights in some
    error = relative_error(products, inputs, weight)
    if error > TOLERANCE:
        raise wrong_kernel(maker, path, f"{linear.out_features} x {linear.in_features}", device, error)


def torch_dynamic_linear(path: str, linear: nn.Linear) -> nn.Module:
    """Return PyTorch's dynamic INT8 layer of a float32 linear on a CPU, tried.

    Raises:
        ModelError: it computes wrongly on this processor.

    """
    from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is deprecated, which the module's docstring says too
        holder: Any = quantize_dynamic(  # type: ignore[no-untyped-call]
            nn.Sequential(linear), {nn.Linear: per_channel_dynamic_qconfig}, dtype=torch.qint8
        )
        layer: nn.Module = holder[0]
        weight: Tensor = holder[0].weight().dequantize()
    require_right(path, layer, linear, weight, maker=TORCH_DYNAMIC)
    return layer


class _FlatLinear(nn.Linear):
    """A Linear that flattens its inputs to (n, in): a static scale must have as many dimensions as they have."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name that callers may use
        """Return the outputs (..., out) for inputs (..., in)."""
        outputs = super().forward(input.reshape(-1, self.in_features))
        return outputs.reshape(*input.shape[:-1], self.out_features)


def _torchao_layer(path: str, linear: nn.Linear, config: Any, maker: str, *, size: float = 1.0) -> nn.Module:
    with torch.device("meta"):
        layer: Any = _FlatLinear(linear.in_features, linear.out_features, bias=linear.bias is not None)
    layer.weight, layer.bias = linear.weight, linear.bias
    _torchao().quantize_(layer.eval(), config)
    require_right(path, layer, linear, layer.weight.dequantize(), maker=maker, size=size)
    quantized: nn.Module = layer
    return quantized


def _largest_inputs(
    model: nn.Module, linears: Linears, batches: Sequence[Mapping[str, Tensor]]
) -> dict[str, float]:
    """Return the largest magnitude among the inputs of each linear, by its path.

    Raises:
        ModelError: a linear took no part in any pass, or was fed nothing but zeros, or something infinite.
        DataError: a batch does not fit the model.

    """
    largest = dict.fromkeys((path for path, _ in linears), 0.0)

    def watch(path: str, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        largest[path] = max(largest[path], float(inputs[0].abs().max()))

    with ExitStack() as stack, torch.no_grad():
        for path, module in linears:
            stack.callback(module.register_forward_pre_hook(partial(watch, path)).remove)
        for batch in batches:
            try:
                model(**batch)
            except Exception as error:
                if no_memory_left(error):
                    raise
                raise DataError(
                    f"the model cannot compute a batch to calibrate on ({first_line(error)}): give batches made "
                    "for it"
                ) from error
    for path, magnitude in largest.items():
        if not 0 < magnitude < float("inf"):
            raise ModelError(
                f"{path} was fed nothing to set a scale by (largest input: {magnitude:g}): calibrate on other "
                "batches, or use another --precision"
            )
    return largest


def _spares_a_bit() -> bool:
    """Tell whether products of 8 bits overflow here, by trying the largest ones.

    x86 kernels without VNNI instructions add pairs of products in 16 bits, which saturate.
    """
    from torchao.kernel import int_scaled_matmul

    largest = torch.full((32, 64), 127, dtype=torch.int8)
    products = int_scaled_matmul(largest, largest.T, torch.ones(32, 1))
    return not bool((products == 64 * 127 * 127).all())


def _torchao() -> Any:
    silence_loggers()
    import torchao.quantization as library

    return library
