"""The linear layers of a model, and exchanging them for quantized ones that are tried first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from energyscope.errors import ModelError
from energyscope.loading.kernel_trials import TOLERANCE, products_error, random_inputs
from energyscope.loading.random_weights import is_kept, is_linear


def quantizable(model: nn.Module, keep: list[str]) -> list[tuple[str, nn.Module]]:
    """Return the linears of a model with their paths, without those that ``keep`` names: Linear and Conv1D.

    Raises:
        ModelError: there are none, so that a quantized model would be the same model.

    """
    found = [(path, one) for path, one in model.named_modules() if is_linear(one) and not is_kept(path, keep)]
    if not found:
        raise ModelError("the model has no linear layers to quantize: use a --precision that is not quantized")
    return found


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


def exchange(
    model: nn.Module,
    linears: list[tuple[str, nn.Module]],
    quantized: Callable[[str, nn.Linear], nn.Module],
) -> None:
    """Exchange linears one by one, in place: of what is quantized already, the original is no longer held."""
    while linears:
        path, module = linears.pop(0)
        with torch.no_grad():
            model.set_submodule(path, quantized(path, as_linear(module)))


def require_right(
    path: str, layer: nn.Module, linear: nn.Linear, rows: Tensor, *, maker: str, size: float = 1.0
) -> None:
    """Try a quantized layer on random inputs (8, in) times ``size`` against its own weights ``rows`` (out, in).

    ``maker`` names whose kernel it is in the message.

    Raises:
        ModelError: its products lie further off than the rounding of inputs to 7 bits explains.

    """
    inputs = random_inputs(linear.in_features, linear.weight.device, linear.weight.dtype) * size
    error = products_error(_WithoutBias(layer, linear.bias), inputs, rows)
    if error > TOLERANCE:
        raise ModelError(
            f"{maker} computes {path} of {linear.out_features} x {linear.in_features} wrongly on "
            f"{linear.weight.device.type} (relative error {error:.2g} on random inputs): use another --precision"
        )


class _WithoutBias:
    """A layer's outputs less its bias, which some layers have packed with their weights."""

    def __init__(self, layer: nn.Module, bias: Tensor | None) -> None:
        self.layer = layer
        self.packed = bias
        self.bias = None

    def __call__(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.layer(inputs)
        return found if self.packed is None else found - self.packed
