"""Where captured tensors are kept: on their device within a budget of memory, else on the host."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from energyscope.kv_cache import in_cache
from energyscope.replay.tensors import cloned, mapped

SHARE_OF_FREE = 0.25  # the rest is for copies of weights, activations and graphs


def device_budget(*devices: torch.device) -> int | None:
    """Return the bytes that captured tensors may take on each of some devices; None: no limit (the CPU)."""
    free = [torch.cuda.mem_get_info(device)[0] for device in devices if device.type == "cuda"]
    return int(SHARE_OF_FREE * min(free)) if free else None


class ActivationStore:
    """Clones tensors; beyond ``budget_bytes`` (None: no limit) on the device, the clones go to the host.

    What lies in one of the ``standing`` storages, those of a held KV cache, is not cloned: it does not change, and
    a component must read the same memory as in the model.
    """

    def __init__(self, budget_bytes: int | None = None) -> None:
        self.budget_bytes = budget_bytes
        self.standing: set[int] = set()
        self.kept_bytes: Counter[torch.device] = Counter()  # each device has the budget

    def keep(self, value: Any) -> Any:
        """Return a clone of nested tensors, on the device or on the host."""
        return mapped(value, self._keep)

    def _keep(self, tensor: torch.Tensor) -> Any:
        if in_cache(tensor, self.standing):
            return tensor
        clone = cloned(tensor)
        if self.budget_bytes is None or not clone.is_contiguous():  # a copy on the host would lose its strides
            return clone
        size = clone.untyped_storage().nbytes()
        if self.kept_bytes[clone.device] + size <= self.budget_bytes:
            self.kept_bytes[clone.device] += size
            return clone
        on_host = clone.cpu()
        on_host.home = clone.device  # to which of several devices it belongs
        return on_host


def staged(value: Any) -> Any:
    """Return nested tensors on the devices that they come from; call it before a window begins."""
    return mapped(value, lambda tensor: tensor.to(getattr(tensor, "home", tensor.device)))
