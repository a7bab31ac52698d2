from __future__ import annotations

import pytest
import torch

from energyscope.failures import first_line, no_memory_left, out_of_memory


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
