"""The device memory that a model takes, beside others that are already loaded."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from energyscope.loading.devices import free_bytes
from energyscope.tasks import rules_of

if TYPE_CHECKING:
    from energyscope.benchmarking.context import BenchmarkCell
    from energyscope.loading import LoadedModel

GB = 1e9
HOST_MARGIN = 3


@dataclass(frozen=True)
class Memory:
    """Device memory (bytes): a model's own tensors, the peak in a pass, and what the allocator then held.

    ``reserved`` is all that the allocator holds except the tensors of others; gaps between those are included.
    """

    allocated: int
    peak: int
    reserved: int

    def plus(self, own: int) -> Memory:
        """Return the memory with ``own`` bytes more, of a model that was loaded before the counting began."""
        return Memory(self.allocated + own, self.peak + own, self.reserved + own)


class MemoryWatch:
    """Counts what is allocated on a GPU from now on; on the CPU nothing is known."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.restart()
        self._others = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0

    def restart(self) -> None:
        """Forget the peak so far and release what is free, so that another shape is counted by itself."""
        if self.device.type == "cuda":
            release(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)

    def read(self) -> Memory | None:
        """Return the memory taken since; None on the CPU."""
        if self.device.type != "cuda":
            return None
        return Memory(
            allocated=torch.cuda.memory_allocated(self.device) - self._others,
            peak=torch.cuda.max_memory_allocated(self.device) - self._others,
            reserved=torch.cuda.memory_reserved(self.device) - self._others,
        )


def prepare_kernels(device: torch.device) -> None:
    """Let the libraries allocate what they keep for all models: else it would count for the first one."""
    if device.type == "cuda":
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            square = torch.ones(512, 512, dtype=dtype, device=device)
            torch.addmm(square[0], square, square)


def require_host_room(loaded: LoadedModel, cell: BenchmarkCell) -> None:
    """Refuse a pass that cannot fit in the host's memory: the kernel would kill the process and raise nothing.

    Counted are the outputs and the widest activations of a layer, in float32; a pass takes up to three times that.

    Raises:
        MemoryError: not even these fit.

    """
    if loaded.device.type != "cpu":
        return
    config: Any = loaded.model.config
    config = config.get_text_config()
    hidden = int(getattr(config, "hidden_size", 0) or 0)
    outputs = int(config.vocab_size) if rules_of(loaded.adapter).per_token else 0
    needed = 4 * cell.batch_size * cell.sequence_length * (2 * outputs + 8 * hidden)
    free = free_bytes(loaded.device)
    if free is not None and HOST_MARGIN * needed > free:
        raise MemoryError(f"{cell} needs at least {needed / GB:.1f} GB, and {free / GB:.1f} GB are free")


def release(device: torch.device) -> None:
    """Release the memory that is no longer used, so that what comes next is counted by itself."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
