"""The memory that a forward pass takes beside the weights, by what its operators allocate."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@torch.no_grad()
def pass_bytes(model: nn.Module, inputs: Mapping[str, Any]) -> int:
    """Return the most bytes that a pass holds at once beside weights and inputs.

    What operators allocate inside for a moment is not seen. On the bundled models, 3,000 sequences let the memory
    of the process grow by 0.97 to 1.02 of 3,000 times what this says of one; some models hold much once, whatever
    the batch.
    """
    given = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
    allocations = _Allocations([*model.parameters(), *model.buffers(), *given])
    with allocations:
        model(**inputs)
    return allocations.most


class _Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that operators return, until each is freed."""

    def __init__(self, held: Sequence[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known = {tensor.untyped_storage().data_ptr() for tensor in held}
        self._bytes: int = 0
        self.most: int = 0

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        address = storage.data_ptr()
        if address and address not in self._known:  # else empty, a view, or changed in place
            self._known.add(address)
            self._bytes += storage.nbytes()
            self.most = max(self.most, self._bytes)
            weakref.finalize(storage, self._free, address, storage.nbytes())

    def _free(self, address: int, size: int) -> None:
        self._known.discard(address)
        self._bytes -= size
