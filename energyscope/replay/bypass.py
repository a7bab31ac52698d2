"""Run a component without its children's work, to measure its glue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from torch import nn

from energyscope.functions import FunctionCall, answered, exchanged_forward


@contextmanager
def bypassed(modules: Iterable[tuple[nn.Module, Any]]) -> Iterator[None]:
    """Make modules return recorded outputs instead of computing them, and restore them afterwards.

    What is left of the parent's time and energy is its glue: residual additions, mask building, Python and
    launch overhead. The call itself (``nn.Module.__call__``) stays, as it does in the model. Of a
    `FunctionCall`, it is the caller's calls of the function that return the recorded output.
    """
    with ExitStack() as stack:
        for module, output in modules:
            stack.enter_context(_bypass(module, _returning(output)))
        yield


def _bypass(module: nn.Module, recorded: Any) -> AbstractContextManager[None]:
    if isinstance(module, FunctionCall):
        return answered(module, recorded)
    return exchanged_forward(module, recorded)


def _returning(output: Any) -> Any:
    def forward(*_args: Any, **_kwargs: Any) -> Any:
        return output

    return forward
