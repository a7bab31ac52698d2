"""The ways to change a component, by the names that users give them. Nothing here imports torch.

Removal measures how *critical* a component is; quantization how *sensitive*. These differ: removal destroys a
component's output, quantization keeps most of it.
"""

from __future__ import annotations

from energyscope.loading.options import BY_TORCH

REMOVALS = ("zero", "mean", "resample", "skip")
SIMULATED = ("int8", "int8-tensor", "int4", "fp8", "nf4", "int8-wa", "fp8-wa")
TORCH_KERNELS = tuple(f"{precision}-real" for precision in BY_TORCH)
BITSANDBYTES = ("bnb-int8", "bnb-nf4")
REAL = TORCH_KERNELS + BITSANDBYTES
QUANTIZATIONS = SIMULATED + REAL
METHODS = REMOVALS + QUANTIZATIONS
DEFAULT_METHODS = ("zero", "mean", "skip", "int8", "nf4")
PREDICT = "predict"  # the method of rows that predict an impact from gradients and weights, without a change

JOINT = ("off", "kinds", "pairs", "all")
HEADS = ("off", "each", "kv")


def is_sensitivity(method: str) -> bool:
    """Whether a method's impact is that of quantizing and not that of removing."""
    return method in QUANTIZATIONS
