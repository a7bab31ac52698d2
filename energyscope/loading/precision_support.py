"""Which of the benchmark's precisions a device can compute, and why not the others. Imports no torch by itself."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from energyscope.errors import UsageError, did_you_mean
from energyscope.failures import first_line
from energyscope.loading.libraries import missing
from energyscope.loading.options import FOUR_BIT, QUANTIZED
from energyscope.reasons import Reason, join, reason

if TYPE_CHECKING:
    import torch

VARIANTS: tuple[str, ...] = (
    "fp32", "fp16", "bf16", "fp16-autocast", "fp8", "int8", "int8-static", "w8a8", "w8a16", "int4", "nf4", "fp4",
)  # fmt: skip

# The first GPUs with BF16 arithmetic (Ampere) and with the INT8 tensor cores that LLM.int8() takes (Turing).
_BF16_CAPABILITY = (8, 0)
_INT8_CAPABILITY = (7, 5)

_OTHER_NAMES = {
    "4bit": "int4, nf4 or fp4",
    "8bit": "w8a16, w8a8, fp8 or int8",
    "half": "fp16 or bf16",
    "amp": "fp16-autocast",
}


def unsupported(precision: str, device: torch.device) -> str | None:
    """Return why a precision cannot be computed on a device, as reasons in one text; None if it can.

    Raises:
        UsageError: there is no such precision.

    """
    if precision not in VARIANTS:
        other = _OTHER_NAMES.get(precision.lower().replace("-", ""))
        hint = f": use {other}" if other else did_you_mean(precision, VARIANTS)
        raise UsageError(f"there is no precision {precision!r}{hint}")
    if precision == "bf16":
        return _too_old(device, _BF16_CAPABILITY, "BF16")
    if precision == "fp16-autocast":
        return reason_against_autocast(device)
    if precision == "int8-static":
        from energyscope.loading import cpu_int8

        return cpu_int8.reason_against_torchao(device)
    return _reason_against_quantized(precision, device) if precision in QUANTIZED else None


def _reason_against_quantized(precision: str, device: torch.device) -> str | None:
    if precision == "int8":
        return _reason_against_int8(device)
    if precision in FOUR_BIT:
        needed = "BF16, in which 4-bit layers compute"
        return missing("bitsandbytes", "bitsandbytes") or _too_old(device, _BF16_CAPABILITY, needed)
    from energyscope.loading import torch_kernels

    return torch_kernels.reason_against(precision, device)


def reason_against_autocast(device: torch.device) -> Reason | None:
    """Return why autocast to float16 does nothing on a device; None if it works: it is tried on one product."""
    import torch

    matrix = torch.ones(8, 8, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it is not supported autocast warns, and goes on in float32
        try:
            with torch.autocast(device.type, torch.float16):
                dtype = (matrix @ matrix).dtype
        except RuntimeError as error:
            return reason("autocast-fails", device=device.type, error=first_line(error))
    if dtype is torch.float16:
        return None
    return reason("autocast-without-fp16", version=torch.__version__, device=device.type)


def _reason_against_int8(device: torch.device) -> str | None:
    from energyscope.loading import cpu_int8

    if device.type != "cpu":
        return missing("bitsandbytes", "bitsandbytes") or _too_old(device, _INT8_CAPABILITY, "INT8 products")
    reasons = (cpu_int8.reason_against_torch(), cpu_int8.reason_against_torchao(device))
    return join(why for why in reasons if why) if all(reasons) else None


def _too_old(device: torch.device, needed: tuple[int, int], what: str) -> Reason | None:
    import torch

    if device.type != "cuda":
        return None
    capability = torch.cuda.get_device_capability(device)
    if capability >= needed:
        return None
    versions = {"has": "{}.{}".format(*capability), "needed": "{}.{}".format(*needed)}
    return reason("gpu-too-old", gpu=torch.cuda.get_device_name(device), what=what, **versions)
