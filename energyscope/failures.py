"""What kind of failure an exception of another library is, and its message in one readable line.

CUDA and allocators raise a plain `RuntimeError` for every failure: only its message says which. Such messages are
matched here and nowhere else.
"""

from __future__ import annotations

from energyscope.errors import EnergyscopeError
from energyscope.reasons import Reason, reason


def first_line(error: object) -> str:
    """Return an exception's message cut to one readable line: CUDA's go on with advice on debugging."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    return line if len(line) <= 200 else line[:197] + "..."


def failure(error: Exception) -> Reason:
    """Return an exception as the reason why something was not measured."""
    if no_memory_left(error):
        return reason("no-memory-left")
    own = isinstance(error, EnergyscopeError)
    return reason("measurement-failed", error=error if own else f"{type(error).__name__}: {first_line(error)}")


def out_of_memory(error: Exception) -> bool:
    """Whether the device had no memory left, by PyTorch's allocator or by CUDA itself (a plain RuntimeError)."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "CUDA error: out of memory" in str(error)


def no_memory_left(error: Exception) -> bool:
    """Whether the device, or the host (whose allocator raises a plain RuntimeError), had no memory left."""
    return isinstance(error, MemoryError) or out_of_memory(error) or "can't allocate memory" in str(error)


def device_failed(error: Exception) -> bool:
    """Whether CUDA itself failed: nothing can be computed on that device any more by this process."""
    return "CUDA error" in str(error)
