"""Values that a model reads from the device, in a CUDA graph as in a pass before it.

Some models decide by a value on the device: BART in FP16 whether an activation overflowed. A capture cannot wait
for it. So what each line reads is recorded in a pass before the capture, on the same inputs, and repeated in it:
the graph then holds all the work of the model, without the wait. A number that would be copied from the host's
memory, as for the mask of eager attention or the window of a cache, is forbidden in a capture too: it is filled in
on the device, once for all replays. What is read otherwise (``.cpu()``, ``torch.equal``, shapes that depend on
values) stays refused.
"""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

READS = frozenset(
    getattr(torch.Tensor, name) for name in ("__bool__", "__float__", "__int__", "__index__", "item", "tolist")
)

Line = tuple[str, int]  # of a source file
_Read = Callable[[Line, Callable[[], Any]], Any]


class DeviceReads:
    """What the lines of a model read from a device in a pass, in their order."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._values: dict[Line, list[Any]] = {}

    @property
    def count(self) -> int:
        """How many values a pass reads."""
        return sum(map(len, self._values.values()))

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record what a pass outside a capture reads, in place of what was recorded before."""
        self._values = {}

        def record(line: Line, read: Callable[[], Any]) -> Any:
            value = read()
            self._values.setdefault(line, []).append(copy.deepcopy(value))
            return value

        with _Intercepted(self._device, record):
            yield

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Let passes read what was recorded, again and again; lines of which nothing was recorded read as ever."""
        cycles = {line: itertools.cycle(values) for line, values in self._values.items()}

        def repeat(line: Line, read: Callable[[], Any]) -> Any:
            # copied: whoever gets a list may change it
            return copy.deepcopy(next(cycles[line])) if line in cycles else read()

        with _Intercepted(self._device, repeat):
            yield


class _Intercepted(TorchFunctionMode):
    """Hands reads from a device to a function, and makes scalar constants there without the host's memory."""

    def __init__(self, device: torch.device, read: _Read) -> None:
        super().__init__()
        self._type = device.type
        self._read = read

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make a call, or what stands for it."""
        named = dict(kwargs or {})
        if func in READS and args[0].device.type == self._type:
            frame = inspect.currentframe()
            assert frame is not None  # noqa: S101 - CPython has frames
            assert frame.f_back is not None  # noqa: S101 - it is called by what reads
            line = frame.f_back.f_code.co_filename, frame.f_back.f_lineno
            return self._read(line, lambda: func(*args, **named))
        if func is torch.tensor and self._is_constant(args, named):
            one = isinstance(args[0], list)
            return torch.full((1,) if one else (), args[0][0] if one else args[0], **named)
        if func is torch.Tensor.to and (to := self._copied(*args, **named)):
            return torch.full(args[0].shape, args[0].item(), **to)
        return func(*args, **named)

    def _copied(self, tensor: torch.Tensor, *to: Any, **named: Any) -> dict[str, Any]:
        """Return where a single number of the host's would be copied to, and as what; nothing if it is not."""
        if tensor.device.type != "cpu" or tensor.numel() != 1:
            return {}
        try:
            device, dtype, *_ = torch._C._nn._parse_to(*to, **named)  # noqa: SLF001 - as nn.Module.to does
        except (RuntimeError, TypeError):  # it takes less than Tensor.to does
            return {}
        there = device is not None and device.type == self._type != "cpu"
        return {"device": device, "dtype": dtype or tensor.dtype} if there else {}

    def _is_constant(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        if not args:
            return False
        device = named.get("device")
        there = device is not None and torch.device(device).type == self._type
        number = args[0][0] if isinstance(args[0], list) and len(args[0]) == 1 else args[0]
        return there and isinstance(number, bool | int | float) and named.keys() <= {"dtype", "device"}
