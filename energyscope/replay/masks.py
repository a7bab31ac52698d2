"""Attention masks in a CUDA graph as in eager execution.

Before a model builds a causal mask, it finds out whether attention needs one: a single token on a cache, or a
prompt without padding and of one piece, does not. Some of that it can only tell from values on the device, which a
capture forbids to look at, and some versions of transformers do not ask at all while a graph is captured. Then the
model in the graph would expand and read a mask, copy the heads of its keys, and run other attention kernels than
it does outside. So its answers are noted in a pass before the capture, on the same inputs, and given again in it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

WITHOUT_MASK = ("_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa")  # True: none is needed
PACKED = "find_packed_sequence_indices"  # None: the sequences are of one piece

_Wrapper = Callable[[str, Callable[..., Any]], Callable[..., Any]]


class MaskDecisions:
    """What models decide about masks in a pass, call by call."""

    def __init__(self) -> None:
        self._noted: dict[str, list[bool]] = {}
        self._given: dict[str, int] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is decided in a pass outside of a capture, in place of what was noted before."""
        self._noted = {}
        with _wrapped(self._noting):
            yield

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Let passes decide what was noted, again and again in the same order; the library decides all else."""
        self._given = {}
        with _wrapped(self._repeating):
            yield

    def _noting(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def asked(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            spared = answer is None if name == PACKED else bool(answer)
            self._noted.setdefault(name, []).append(spared)
            return answer

        return asked

    def _repeating(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def asked(*args: Any, **kwargs: Any) -> Any:
            noted = self._noted.get(name)
            if not noted:
                return original(*args, **kwargs)
            index = self._given.get(name, 0)
            self._given[name] = index + 1
            spared = noted[index % len(noted)]
            if name == PACKED:
                return None if spared else original(*args, **kwargs)
            return spared

        return asked


@contextmanager
def _wrapped(wrapper: _Wrapper) -> Iterator[None]:
    library = sys.modules.get("transformers.masking_utils")  # not loaded: no model of its asks anything
    with ExitStack() as stack:
        for name in (*WITHOUT_MASK, PACKED) if library is not None else ():
            original = getattr(library, name, None)
            if original is not None:
                stack.callback(setattr, library, name, original)
                setattr(library, name, wrapper(name, original))
        yield
