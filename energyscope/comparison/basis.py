"""What runs are compared by: all energy, or work (dynamic energy) alone where one of them ran eagerly.

In eager execution the host launches every kernel, so idle energy is idle power x the host's time: it depends on
the host and the minute, and not on the model alone. Work hardly does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.intervals import Interval, total_of_same
from energyscope.runs.method import execution_of
from energyscope.runs.tree import Node, sum_energy

Basis = Literal["total", "dynamic"]
TOTAL: Basis = "total"
DYNAMIC: Basis = "dynamic"


@dataclass(frozen=True)
class Measure:
    """One number of components: its ``unit``, how it is read, whether its grade is invalid, and how it adds up."""

    unit: str
    of: Callable[[Node], Interval | None]
    invalid: Callable[[Node], bool]
    total: Callable[[Iterable[Node]], Interval | None]


def basis_of(documents: Iterable[Mapping[str, Any]], *, eager: bool = False) -> Basis:
    """Return what runs are compared by; ``eager``: what is compared was launched eagerly, whatever was set.

    Modelled energy is time x stated watts, so there is no work in it.
    """
    documents = list(documents)
    if any((document.get("sensor") or {}).get("modelled") for document in documents):
        return TOTAL
    return DYNAMIC if eager or "eager" in map(execution_of, documents) else TOTAL


def _adding(read: Callable[[Node], Interval | None]) -> Callable[[Iterable[Node]], Interval | None]:
    """Return the sum of values that share an error (that of the idle power), which does not average out."""

    def add(nodes: Iterable[Node]) -> Interval | None:
        values = [value for node in nodes if (value := read(node)) is not None]
        return total_of_same(values) if values else None

    return add


def _dynamic(node: Node) -> Interval | None:
    return node.dynamic


def _dynamic_share(node: Node) -> Interval | None:
    return node.dynamic_share


def _invalid_by(column: str) -> Callable[[Node], bool]:
    """Return what tells whether a number's own grade is invalid; that of all energy where it has none."""

    def invalid(node: Node) -> bool:
        own = node.row.get(column)
        return own == "invalid" if isinstance(own, str) else node.invalid

    return invalid


ENERGY = Measure("mJ", lambda node: node.energy, lambda node: node.invalid, sum_energy)
WORK = Measure("mJ", _dynamic, _invalid_by("dynamic_quality"), _adding(_dynamic))
SHARE_OF_WORK = Measure("share", _dynamic_share, _invalid_by("dynamic_share_quality"), _adding(_dynamic_share))
MEASURES: Mapping[Basis, Measure] = {TOTAL: ENERGY, DYNAMIC: WORK}
