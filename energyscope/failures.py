"""What other people's exceptions say: which kind of failure it was, and in one readable line."""

from __future__ import annotations


def first_line(error: object) -> str:
    """Return an exception's message cut to one readable line: CUDA's go on with advice on debugging."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    return line if len(line) <= 200 else line[:197] + "..."


def out_of_memory(error: Exception) -> bool:
    """Whether the device had no memory left, by PyTorch's allocator or by CUDA itself (a plain RuntimeError)."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "CUDA error: out of memory" in str(error)


def no_memory_left(error: Exception) -> bool:
    """Whether the device, or the host (whose allocator raises a plain RuntimeError), had no memory left."""
    return isinstance(error, MemoryError) or out_of_memory(error) or "can't allocate memory" in str(error)
