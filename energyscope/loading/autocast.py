"""Automatic mixed precision: FP32 weights, and the operations that gain from it in FP16 (`torch.autocast`)."""

from __future__ import annotations

import functools
import types
import warnings
from typing import Any

import torch
from torch import nn

from energyscope.failures import first_line
from energyscope.reasons import Reason, reason


def put_in_autocast(model: nn.Module, device: torch.device) -> None:
    """Make a model compute inside `torch.autocast` to float16 whenever it is called, in place.

    Its class, its modules and its weights stay; a copy of it computes so too. Its outputs are float16 where their
    last operation is one that autocast casts.
    """
    own: Any = type(model).forward

    @functools.wraps(own)  # callers look at the signature
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, torch.float16):
            return own(self, *args, **kwargs)

    bound: Any = types.MethodType(forward, model)  # bound anew when the model is copied, as a closure would not be
    if hasattr(model, "_old_forward"):  # accelerate's hook is around it, and stays so
        model._old_forward = bound  # noqa: SLF001
    else:
        model.forward = bound


def reason_against(device: torch.device) -> Reason | None:
    """Return why autocast to float16 does nothing on a device; None if it works: it is tried on one product."""
    matrix = torch.ones(8, 8, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it is not supported autocast warns, and goes on in float32
        try:
            with torch.autocast(device.type, torch.float16):
                found = (matrix @ matrix).dtype
        except RuntimeError as error:
            return reason("autocast-fails", device=device.type, error=first_line(error))
    if found is torch.float16:
        return None
    return reason("autocast-without-fp16", version=torch.__version__, device=device.type)
