"""Replay of components that write into their own inputs: each call must find them as they were.

A cache that is appended to, or an activation in place: without restoring, the second replay would run on what
the first one left. What restoring costs inside of a window is measured by itself and subtracted.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from energyscope.replay.calls import Call
from energyscope.replay.capture import Capture
from energyscope.replay.tensors import cloned, tensors_in


class Restored:
    """A working copy of a component's inputs, and the way back to how they were."""

    def __init__(self, capture: Capture) -> None:
        self.args, self.kwargs = cloned(capture.args), cloned(capture.kwargs)
        working = list(tensors_in((self.args, self.kwargs)))
        originals = list(tensors_in((capture.args, capture.kwargs)))
        self._pairs = [(working[position], originals[position]) for position in capture.altered]

    def restore(self) -> None:
        """Bring back the values of the inputs that are written to."""
        for working, original in self._pairs:
            working.copy_(original)

    def call(self, module: nn.Module) -> Call:
        """Return a call of the module on its inputs as they were."""
        replay = partial(module, *self.args, **self.kwargs)

        def step() -> Any:
            self.restore()
            return replay()

        return step


def calls_of(modules: list[nn.Module], capture: Capture) -> list[Call]:
    """Return a call of each module on one captured input, restored before each where it is written to."""
    if not capture.altered:
        return [partial(module, *capture.args, **capture.kwargs) for module in modules]
    restored = Restored(capture)
    return [restored.call(module) for module in modules]


def restoring(capture: Capture) -> list[Call]:
    """Return what a call does besides the component's own work: nothing, or restoring its inputs."""
    return [Restored(capture).restore] if capture.altered else []
