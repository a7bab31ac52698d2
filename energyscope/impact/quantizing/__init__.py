"""Quantization of one component: simulated, or by the kernels that a user would deploy."""

from __future__ import annotations

from torch import nn

from energyscope.errors import UsageError
from energyscope.impact.methods import BITSANDBYTES, QUANTIZATIONS, SIMULATED, TORCH_KERNELS
from energyscope.impact.quantizing.matrices import Shared
from energyscope.impact.quantizing.quantized import Quantization, SimulatedQuantization
from energyscope.impact.quantizing.real_quantization import BitsandbytesQuantization, TorchQuantization
from energyscope.reasons import Reason

__all__ = ["Quantization", "quantization"]

_KINDS: dict[str, type[Quantization]] = {
    **dict.fromkeys(SIMULATED, SimulatedQuantization),
    **dict.fromkeys(TORCH_KERNELS, TorchQuantization),
    **dict.fromkeys(BITSANDBYTES, BitsandbytesQuantization),
}


def quantization(module: nn.Module, method: str, *, shared: Shared | None = None) -> Quantization | Reason:
    """Return how a method quantizes a component, or why it cannot.

    ``shared`` comes from `matrices.shared_weights`; without it, no notes name shared weights.

    Raises:
        UsageError: there is no such method.

    """
    if method not in QUANTIZATIONS:
        raise UsageError(f"no such quantization: {method!r} (known: {', '.join(QUANTIZATIONS)})")
    change = _KINDS[method](module, method, shared)
    return change.reason_not_possible() or change
