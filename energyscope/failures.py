"""What kind of failure an exception of another library is, and its message in one readable line.

CUDA and allocators raise a plain `RuntimeError` for every failure: only its message says which. Such messages are
matched here and nowhere else.
"""

from __future__ import annotations

import errno
import sys
import traceback
from pathlib import Path
from types import FrameType

from energyscope.errors import DeviceError, EnergyscopeError, MeterError, ModelError
from energyscope.reasons import Reason, reason

HERE = Path(__file__).parent
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)  # nothing more can be kept
LASTING = (  # CUDA's errors after which a process can use its device no more; others are of one call
    "an illegal memory access",
    "an illegal instruction",
    "unspecified launch failure",
    "device-side assert triggered",
    "misaligned address",
    "ECC error",
    "the launch timed out",
    "GPU is lost",
)
OUT_OF_MEMORY = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "Triton Error [CUDA]: out of memory")


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

    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


def no_memory_left(error: Exception) -> bool:
    """Whether the device, or the host (whose allocator raises a plain RuntimeError), had no memory left."""
    return isinstance(error, MemoryError) or out_of_memory(error) or "can't allocate memory" in str(error)


def device_failed(error: Exception) -> bool:
    """Whether CUDA itself failed."""
    return "CUDA error" in str(error)


def device_lost(error: Exception) -> bool:
    """Whether this process cannot use the device any more: whatever it asks of CUDA then fails."""
    text = str(error)
    return "CUDA" in text and any(words in text for words in LASTING)


def ends_a_run(error: Exception) -> bool:
    """Whether what comes next would fail as well: the meter or the device is lost, or nothing can be written."""
    if isinstance(error, MeterError) or (isinstance(error, OSError) and error.errno in NO_ROOM):
        return True
    return device_lost(error)


def is_bug(error: BaseException) -> bool:
    """Whether an exception was raised by energyscope's own code, and not by a model, an adapter or a library."""
    frames = _frames(error)
    return not frames or _is_own(frames[-1])


def explained(error: Exception) -> EnergyscopeError | None:
    """Return a failure of CUDA, or of a model's own code, with what to do; None of any other."""
    said = f"{type(error).__name__}: {first_line(error)}"
    if device_lost(error):
        return DeviceError(
            f"the GPU failed ({first_line(error)}): look for the cause in the kernel's log (dmesg, lines with Xid)"
        )
    if place := _failed_module(error):
        return ModelError(f"the model fails in {place} ({said}): check that it runs on such inputs by itself")
    return None


def _frames(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def _is_own(frame: FrameType) -> bool:
    return HERE in Path(frame.f_code.co_filename).parents


def _failed_module(error: Exception) -> str | None:
    """Return the innermost module that code of energyscope's called and that failed, and where; None of others."""
    if "torch" not in sys.modules:
        return None
    from torch.nn import Module

    frames = _frames(error)
    last = max((place for place, frame in enumerate(frames) if _is_own(frame)), default=-1)
    torchs = Module.__call__.__code__.co_filename  # calls, and looks attributes up, for every module
    inside = [
        frame
        for frame in frames[last + 1 :]
        if isinstance(frame.f_locals.get("self"), Module) and frame.f_code.co_filename != torchs
    ]
    if not inside:
        return None
    code = inside[-1].f_code
    return f"{type(inside[-1].f_locals['self']).__name__}.{code.co_name} of {Path(code.co_filename).name}"
