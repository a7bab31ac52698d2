"""A linear at another precision, by the kernels that one deploys, and models with some linears exchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from energyscope.errors import ModelError
from energyscope.failures import first_line, out_of_memory
from energyscope.functions import exchanged_forward
from energyscope.loading.cpu_int8 import as_linear, torch_dynamic_linear
from energyscope.loading.kernel_trials import TOLERANCE, layer_error, wrong_kernel
from energyscope.loading.linears import fits
from energyscope.loading.options import BY_TORCH, EIGHT_BIT, NATIVE
from energyscope.loading.precision_support import unsupported
from energyscope.loading.random_weights import quantized_linear
from energyscope.loading.sizes import stored_bytes
from energyscope.loading.torch_kernels import torch_linear
from energyscope.reasons import Reason, read, reason

USUAL = {  # what a plan chooses from on a type of device, beside the model's own precision
    "cuda": ("bf16", "fp8", "w8a8", "w8a16", "int8", "int4", "nf4"),
    "cpu": ("bf16", "int8", "int4"),
}
BITS = {"fp32": 32, "fp16": 16, "bf16": 16, **dict.fromkeys(EIGHT_BIT, 8), "int4": 4, "nf4": 4, "fp4": 4}

Layers = Mapping[str, nn.Module]  # what takes the place of a linear, by its path


class CastLinear(nn.Module):
    """A linear whose weights and products are in a shorter type than the model's around it."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight = nn.Parameter(linear.weight.detach().to(dtype), requires_grad=False)
        bias = linear.bias
        self.bias = None if bias is None else nn.Parameter(bias.detach().to(dtype), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (..., out) for inputs (..., in), in the inputs' dtype."""
        return functional.linear(x.to(self.weight.dtype), self.weight, self.bias).to(x.dtype)


def candidates(asked: Sequence[str], own: str, device: torch.device) -> tuple[list[str], dict[str, Reason]]:
    """Return the precisions that linears of a model can be exchanged for, and why the others cannot.

    ``asked`` are names, none of them the usual ones; ``own`` is the model's, which is not among them.
    """
    possible, left_out = list[str](), dict[str, Reason]()
    for precision in dict.fromkeys(asked or USUAL[device.type]):
        if precision == own:
            continue
        why = unsupported(precision, device)
        if why is not None:
            left_out[precision] = read(why)
        elif precision not in BITS:
            left_out[precision] = reason("plan-no-layer", precision=precision)
        elif BITS[precision] >= BITS.get(own, 0):
            left_out[precision] = reason("plan-no-shorter", precision=precision, own=own)
        elif precision == "int8" and device.type == "cpu" and own != "fp32":
            left_out[precision] = reason("plan-int8-fp32", own=own)
        else:
            possible.append(precision)
    return possible, left_out


def layer_in(module: nn.Module, precision: str, path: str) -> nn.Module:
    """Return the layer that computes a Linear or Conv1D at a precision; what is quantized is tried.

    Raises:
        ModelError: there is no kernel for its size, or it computes wrongly.

    """
    if not fits(module, precision):
        raise ModelError(f"{precision} has no kernel for the size of {path}")
    with torch.no_grad():
        if precision in BY_TORCH:
            return torch_linear(module, precision, path)
        linear = as_linear(module)
        if precision in NATIVE:
            return CastLinear(linear, getattr(torch, NATIVE[precision])).eval()
        if precision == "int8" and linear.weight.device.type == "cpu":
            return torch_dynamic_linear(path, linear)
        return _bitsandbytes(linear, precision, path)


def _bitsandbytes(linear: nn.Linear, precision: str, path: str) -> nn.Module:
    shape = f"{linear.out_features} x {linear.in_features} in {precision}"
    try:
        layer = quantized_linear(alone(linear), precision, linear.weight.dtype).eval()
        error = layer_error(layer, linear.weight.dtype)
    except Exception as problem:  # its kernels refuse in many ways
        if out_of_memory(problem):
            raise
        raise ModelError(f"bitsandbytes cannot compute {path} of {shape}: {first_line(problem)}") from problem
    if error is not None and error > TOLERANCE:
        raise wrong_kernel("bitsandbytes", path, shape, linear.weight.device, error)
    return layer


def alone(linear: nn.Linear) -> nn.Linear:
    """Return a linear with the same weights in objects of its own: bitsandbytes converts them in place."""
    with torch.device("meta"):
        bare = nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)
    bare.weight = nn.Parameter(linear.weight.detach(), requires_grad=False)
    if linear.bias is not None:
        bare.bias = nn.Parameter(linear.bias.detach(), requires_grad=False)
    return bare


def bytes_of(modules: Iterable[nn.Module]) -> int:
    """Return the bytes of layers' weights, with their scales."""
    return sum(stored_bytes(module) for module in modules)


@contextmanager
def exchanged(model: nn.Module, layers: Layers) -> Iterator[None]:
    """Let layers compute in the place of a model's linears, as long as the context lasts.

    The model keeps its own modules and weights.
    """
    with ExitStack() as stack:
        for path, layer in layers.items():
            forward: Any = layer.forward
            stack.enter_context(exchanged_forward(model.get_submodule(path), forward))
        yield


def exchange(model: nn.Module, layers: Layers) -> None:
    """Put layers in the place of a model's linears for good, so that these are freed."""
    for path, layer in layers.items():
        model.set_submodule(path, layer)
