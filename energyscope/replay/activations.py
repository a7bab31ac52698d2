"""Where captured tensors are kept: on their device within a budget of memory, else on the host."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from energyscope.kv_cache import is_kept
from energyscope.replay.tensors import cloned, mapped

SHARE_OF_FREE = 0.25  # the rest is for copies of weights, activations and graphs


def device_budget(*devices: torch.device) -> int | None:
    """Return the bytes that captured tensors may take on each of some devices; None: no limit (the CPU)."""
    free = [torch.cuda.mem_get_info(device)[0] for device in devices if device.type == "cuda"]
    return int(SHARE_OF_FREE * min(free)) if free else None


class ActivationStore:
    """Clones tensors; beyond ``budget_bytes`` (None: no limit) on the device, the clones go to the host.

    What lies in one of the ``standing`` storages, those of a held KV cache, stays where it is: it does not change,
    and a component must find it in the memory in which the model does.
    """

    def __init__(self, budget_bytes: int | None = None) -> None:
        self.budget_bytes = budget_bytes
        self.standing: set[int] = set()
        self.kept_bytes: Counter[torch.device] = Counter()  # each device has the budget

    def keep(self, value: Any) -> Any:
        """Return a clone of nested tensors, on the device or on the host."""
        return mapped(value, self._kept)

    def _kept(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if is_kept(tensor, self.standing) else self._placed(cloned(tensor))

    def _placed(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.budget_bytes is None or not tensor.is_contiguous():  # a copy on the host would lose its strides
            return tensor
        size = tensor.untyped_storage().nbytes()
        if self.kept_bytes[tensor.device] + size > self.budget_bytes:
            return _waiting(tensor)
        self.kept_bytes[tensor.device] += size
        return tensor


def _waiting(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on the host that knows which of several devices it comes from."""
    copy: Any = tensor.cpu()
    copy.home = tensor.device
    result: torch.Tensor = copy
    return result


def staged(value: Any) -> Any:
    """Return nested tensors where they were: what waits on the host must be back before a window begins."""
    return mapped(value, lambda tensor: tensor.to(getattr(tensor, "home", tensor.device)))
