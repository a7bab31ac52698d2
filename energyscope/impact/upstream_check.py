"""Proof that a change altered nothing before the component that it changes.

In an unchanged pass over one batch, every component's output is recorded, in the order of the calls. While a
component is changed, those that return their output before it does must return the same bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import nn

from energyscope.components import Component, ComponentTree
from energyscope.functions import FunctionCall, routed
from energyscope.impact.outputs import checksum, first_tensor

Sums = dict[str, list[tuple[int, int] | None]]


class UpstreamCheck:
    """The components' outputs in the unchanged pass over one batch."""

    def __init__(self, tree: ComponentTree) -> None:
        self._tree = tree
        self._unchanged: Sums = {}

    @contextmanager
    def recording_unchanged(self) -> Iterator[None]:
        """Record the outputs of the unchanged pass that runs in this context.

        Outputs that differ between two such passes cannot prove anything and are left out.
        """
        sums: Sums = {}
        parts = [part for part in self._tree if part is not self._tree.root]
        with routed(part.module for part in parts), _recording(parts, sums):
            yield
        # a component of several calls has no one place, and a pass that begins at a layer may leave out the first
        once = {name: bits for name, bits in sums.items() if len(bits) == 1}
        before = self._unchanged or once
        self._unchanged = {name: bits for name, bits in once.items() if before.get(name) == bits}

    @contextmanager
    def watching(
        self, targets: Collection[str], layers: Collection[int | None], altered: list[str]
    ) -> Iterator[None]:
        """Add to ``altered`` the components before the targets, in their layers, whose output differs now.

        ``targets`` are the names of the components that are changed in the pass that runs in this context.
        """
        first = min((place for place, name in enumerate(self._unchanged) if name in targets), default=0)
        before = set(list(self._unchanged)[:first])
        watched = [
            part
            for part in self._tree.without(targets)
            if part.name in before and part.layer in layers and not isinstance(part.module, FunctionCall)
        ]
        sums: Sums = {}
        with _recording(watched, sums):
            yield
        altered.extend(name for name, bits in sums.items() if bits != self._unchanged[name])


@contextmanager
def _recording(parts: Sequence[Component], sums: Sums) -> Iterator[None]:
    with ExitStack() as stack:
        for part in parts:
            stack.callback(part.module.register_forward_hook(partial(_record, sums, part.name)).remove)
        yield


def _record(sums: Sums, name: str, _module: nn.Module, _args: Any, output: Any) -> None:
    tensor = first_tensor(output)
    sums.setdefault(name, []).append(None if tensor is None else checksum(tensor))
