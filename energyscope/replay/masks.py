"""Attention masks in a CUDA graph as in eager execution.

Before a model builds a causal mask, it decides whether attention needs one: a single token on a cache, or a
prompt without padding and of one piece, does not. Some of these decisions need values on the device, which cannot
be read in a capture, and some versions of transformers do not ask at all while a graph is captured. Then the
model in the graph would expand and read a mask, copy the heads of its keys, and run other attention kernels than
outside. So its decisions are recorded in a pass before the capture, on the same inputs, and repeated in it.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

WITHOUT_MASK = ("_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa")  # True: none is needed
PACKED = "find_packed_sequence_indices"  # None: the sequences are of one piece

_Wrapper = Callable[[str, Callable[..., Any]], Callable[..., Any]]


class MaskDecisions:
    """What models decide about masks in a pass, call by call: whether no mask is needed."""

    def __init__(self) -> None:
        self._decisions: dict[str, list[bool]] = {}

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the decisions of a pass outside a capture, in place of those recorded before."""
        self._decisions = {}

        def recording(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
            decisions = self._decisions.setdefault(name, [])

            @functools.wraps(original)
            def decide(*args: Any, **kwargs: Any) -> Any:
                answer = original(*args, **kwargs)
                decisions.append(answer is None if name == PACKED else bool(answer))
                return answer

            return decide

        with _wrapped(recording):
            yield

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Let passes decide as recorded, again and again in the same order; the library decides all else."""

        def repeating(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
            decisions = self._decisions.get(name)
            if not decisions:
                return original
            cycle = itertools.cycle(decisions)

            @functools.wraps(original)
            def decide(*args: Any, **kwargs: Any) -> Any:
                no_mask = next(cycle)
                if name == PACKED:
                    return None if no_mask else original(*args, **kwargs)
                return no_mask

            return decide

        with _wrapped(repeating):
            yield


@contextmanager
def _wrapped(wrapper: _Wrapper) -> Iterator[None]:
    library = sys.modules.get("transformers.masking_utils")  # not loaded: no model uses it
    with ExitStack() as stack:
        for name in (*WITHOUT_MASK, PACKED) if library is not None else ():
            original = getattr(library, name, None)
            if original is not None:
                stack.callback(setattr, library, name, original)
                setattr(library, name, wrapper(name, original))
        yield
