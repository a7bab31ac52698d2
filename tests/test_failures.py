from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from energyscope.errors import DeviceError, MeterError, ModelError
from energyscope.failures import ends_a_run, explained, first_line, is_bug, no_memory_left, out_of_memory
from energyscope.tasks import RULES

ILLEGAL = RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be ...")


def test_an_error_without_words_is_named() -> None:
    """GIVEN an empty message THEN the kind of error is the line; else the first line with words in it."""
    assert first_line(ValueError()) == "ValueError"
    assert first_line("  one\ntwo") == "one"
    assert first_line("\n \n two") == "two"
    assert len(first_line("word " * 100)) == 200


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (MemoryError(), False),
    ],
)
def test_a_device_out_of_memory_is_told_from_other_failures(error: Exception, *, is_so: bool) -> None:
    """PyTorch's own error and CUDA's plain one are so; other CUDA errors, and the host's, are not."""
    assert out_of_memory(error) is is_so


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_the_hosts_memory_counts_where_either_will_do(error: Exception) -> None:
    """The host's errors are no failure of the device, and no memory is left all the same."""
    assert no_memory_left(error)
    assert not out_of_memory(error)
    assert not no_memory_left(RuntimeError("an illegal memory access"))


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (MeterError("the counter is frozen"), True),
        (ILLEGAL, True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasGemmEx"), False),
        (torch.OutOfMemoryError("CUDA out of memory."), False),
        (FileNotFoundError(errno.ENOENT, "No such file"), False),
        (ValueError("a kernel that is missing"), False),
    ],
)
def test_only_what_the_next_trial_meets_too_ends_a_run(error: Exception, *, ends: bool) -> None:
    """A lost meter or GPU, and a full disk, end a run; what one call of CUDA or one kernel lacks does not."""
    assert ends_a_run(error) is ends


class Failing(torch.nn.Module):
    """A model whose code raises."""

    def forward(self, **_inputs: Any) -> None:
        """Raise."""
        raise KeyError("planted")


def raised(call: Callable[[], Any]) -> Exception:
    """Return what a call raises."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any
        return error
    raise AssertionError("nothing was raised")


def test_a_failure_of_the_models_own_code_names_the_module() -> None:
    """GIVEN a module that raises when energyscope runs it THEN the line names it, its file and the exception."""
    error = raised(lambda: RULES["classification"].outputs(Failing(), {"input_ids": torch.tensor([[1, 2]])}))
    known = explained(error)
    assert isinstance(known, ModelError)
    assert "Failing.forward of test_failures.py (KeyError: 'planted')" in str(known)
    assert not is_bug(error)


def test_a_failure_of_our_own_is_a_bug() -> None:
    """GIVEN an exception of energyscope's own code THEN no model is blamed for it."""
    for model, batch in ((None, None), (Failing(), {"pixel_values": torch.ones(1, 2)})):  # has no dtype
        error = raised(functools.partial(RULES["classification"].outputs, model, batch))  # type: ignore[arg-type]
        assert explained(error) is None
    assert is_bug(raised(lambda: RULES["classification"].outputs(None, None)))  # type: ignore[arg-type]


def test_a_lost_gpu_is_one_line() -> None:
    """GIVEN CUDA's error after which nothing works THEN one line has its words, and where its cause may be."""
    known = explained(ILLEGAL)
    assert isinstance(known, DeviceError)
    assert "(CUDA error: an illegal memory access was encountered): look for the cause" in str(known)
