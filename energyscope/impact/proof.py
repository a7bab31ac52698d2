"""Proof that a change changed nothing before itself.

In the unchanged pass over the first batch, every component's output is noted, in the order of the calls. While
something is changed, the components that give their output before the changed one does must give the same bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import nn

from energyscope.components import ComponentTree
from energyscope.functions import FunctionCall, routed
from energyscope.impact.outputs import checksum, first_tensor

Sums = dict[str, list[tuple[int, int] | None]]


class Witness:
    """What the components put out in the unchanged pass over one batch."""

    def __init__(self, tree: ComponentTree) -> None:
        self._parts = [part for part in tree if part is not tree.root]
        self._parents = {part.name: part.parent for part in tree}
        self._unchanged: Sums = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note the outputs of the unchanged pass that runs in this context.

        Of two such passes, what does not repeat itself bit for bit cannot prove anything and is left out.
        """
        sums: Sums = {}
        with (
            routed(part.module for part in self._parts),
            self._listening(sums, {part.name for part in self._parts}),
        ):
            yield
        # a component of several calls has no one place, and a pass that begins at a layer may leave out the first
        once = {name: bits for name, bits in sums.items() if len(bits) == 1}
        before = self._unchanged or once
        self._unchanged = {name: bits for name, bits in once.items() if before.get(name) == bits}

    @contextmanager
    def watching(
        self, targets: Collection[str], layers: Collection[int | None], altered: list[str]
    ) -> Iterator[None]:
        """Add to ``altered`` the components before the targets, in their layers, whose output is another now.

        ``targets`` are the names of the components that are changed in the pass that runs in this context.
        """
        first = min((place for place, name in enumerate(self._unchanged) if name in targets), default=0)
        before = set(list(self._unchanged)[:first])
        before -= {name for name in before if self._within(name, targets)}
        watched = (part for part in self._parts if not isinstance(part.module, FunctionCall))
        names = {part.name for part in watched if part.name in before and part.layer in layers}
        sums: Sums = {}
        with self._listening(sums, names):
            yield
        altered.extend(name for name, bits in sums.items() if bits != self._unchanged[name])

    def _within(self, name: str, targets: Collection[str]) -> bool:
        parent = self._parents.get(name)
        return parent is not None and (parent in targets or self._within(parent, targets))

    @contextmanager
    def _listening(self, sums: Sums, names: Collection[str]) -> Iterator[None]:
        with ExitStack() as stack:
            for part in self._parts:
                if part.name in names:
                    hook = partial(_note, sums, part.name)
                    stack.callback(part.module.register_forward_hook(hook).remove)
            yield


def _note(sums: Sums, name: str, _module: nn.Module, _args: Any, output: Any) -> None:
    tensor = first_tensor(output)
    sums.setdefault(name, []).append(None if tensor is None else checksum(tensor))
