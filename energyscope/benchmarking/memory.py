"""What a model takes of the device's memory, beside others that are there already."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import torch

GB = 1e9


@dataclass(frozen=True)
class Memory:
    """Device memory (bytes): a model's own tensors, the peak in a pass, and what the allocator then held.

    ``reserved`` is all that the allocator holds but the tensors of others, so gaps between those are in it.
    """

    allocated: int
    peak: int
    reserved: int

    def plus(self, own: int) -> Memory:
        """Return it with ``own`` bytes more, of a model that was there before the counting began."""
        return Memory(self.allocated + own, self.peak + own, self.reserved + own)


class MemoryWatch:
    """Counts what is allocated from now on; knows nothing on a device that does not tell (the CPU)."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._others = 0
        if device.type == "cuda":
            release(device)
            torch.cuda.reset_peak_memory_stats(device)
            self._others = torch.cuda.memory_allocated(device)

    def restart(self) -> None:
        """Forget the peak so far, and give back what is free: another shape is counted by itself."""
        if self.device.type == "cuda":
            release(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)

    def read(self) -> Memory | None:
        """Return what has been taken since; None on the CPU."""
        if self.device.type != "cuda":
            return None
        return Memory(
            allocated=torch.cuda.memory_allocated(self.device) - self._others,
            peak=torch.cuda.max_memory_allocated(self.device) - self._others,
            reserved=torch.cuda.memory_reserved(self.device) - self._others,
        )


def release(device: torch.device) -> None:
    """Give back what is no longer used, so that what comes next is counted by itself."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
