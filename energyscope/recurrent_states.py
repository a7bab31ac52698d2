"""States that a model carries from token to token: those of Mamba, RWKV, and layers of linear attention.

A step changes them in place, wherever its code does, in kernels too. So a window lets them go on, as a generation
does that repeats one token: every step is the same work, on other values. They are put back afterwards, so that
windows begin alike. In a pass over a prompt nothing comes before: its layers are told so again after each pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

STATES = "state"  # as an argument: a list of tensors


def layer_states(layer: Any) -> list[torch.Tensor]:
    """Return the states that a layer of a cache carries; empty if it keeps keys and values alone."""
    states = [
        *getattr(layer, "conv_states", {}).values(),
        *getattr(layer, "recurrent_states", {}).values(),
    ]
    return [state for state in states if state is not None]


def forget_first_tokens(layer: Any) -> None:
    """Let an empty layer stay one that nothing came before, whatever passes go through it."""
    empty = dict(layer.has_previous_state)
    if any(empty.values()):
        return
    for name in ("update_conv_state", "update_recurrent_state"):
        setattr(layer, name, _forgetting(layer, getattr(layer, name), empty))


def _forgetting(layer: Any, update: Any, empty: Mapping[int, bool]) -> Any:
    def forgetting(*args: Any, **kwargs: Any) -> Any:
        try:
            return update(*args, **kwargs)
        finally:
            layer.has_previous_state.update(empty)

    return forgetting


@contextmanager
def put_back(states: list[torch.Tensor]) -> Iterator[None]:
    """Put states back when the context ends, as they were when it began."""
    before = [state.clone() for state in states]
    try:
        yield
    finally:
        with torch.no_grad():
            for state, value in zip(states, before, strict=True):
                state.copy_(value)
