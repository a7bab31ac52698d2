"""The tensors in what a module is given and what it returns: nested tuples, lists, mappings and model outputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import torch


def shapes(value: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors in nested values."""
    return [tuple(tensor.shape) for tensor in tensors_in(value)]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists and mappings, in their order."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in items:
        yield from tensors_in(item)


def _clone_with_strides(tensor: torch.Tensor) -> torch.Tensor:
    """Clone a tensor with its strides: views with gaps, and expanded ones, which repeat the same memory."""
    if tensor.is_contiguous() or tensor.layout != torch.strided:
        return tensor.clone()
    distinct = tensor
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0:
            distinct = distinct.narrow(dimension, 0, min(1, distinct.shape[dimension]))
    copy = torch.empty_strided(distinct.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(distinct).expand(tensor.shape)


def cloned(value: Any) -> Any:
    """Clone the tensors in nested tuples, lists and mappings; leave everything else as it is.

    A clone lies in memory as its original does: kernels are chosen by strides too.
    """
    return mapped(value, lambda tensor: _clone_with_strides(tensor.detach()))


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Change every tensor in nested tuples, lists and mappings; containers keep their type.

    Everything else stays as it is.
    """
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        items = [mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, MutableMapping):
        copied: Any = copy.copy(value)
        for key, item in value.items():
            copied[key] = mapped(item, change)
        return copied
    return value


def versions(value: Any) -> list[int]:
    """Return how often each tensor was written to; for tensors of inference mode PyTorch does not count it."""
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors_in(value)]  # noqa: SLF001
