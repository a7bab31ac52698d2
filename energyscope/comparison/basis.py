"""What runs are compared by: all energy, or work (dynamic energy) alone where one of them ran eagerly.

In eager execution the host launches every kernel, so idle energy is idle power x the host's time: it depends on
the host and the minute, and not on the model alone. Work hardly does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.intervals import Interval
from energyscope.runs.method import execution_of
from energyscope.runs.tree import Node, sum_energy, sum_known

Basis = Literal["total", "dynamic"]
TOTAL: Basis = "total"
DYNAMIC: Basis = "dynamic"


def _no_drift(_first: Iterable[Node], _second: Iterable[Node]) -> float:
    return 0.0


@dataclass(frozen=True)
class Measure:
    """One number of components: its ``unit``, how it is read, whether its grade is invalid, and how it adds up.

    ``drift`` says how much more (relative) components of the second run have because its idle power was higher.
    """

    unit: str
    of: Callable[[Node], Interval | None]
    invalid: Callable[[Node], bool]
    total: Callable[[Iterable[Node]], Interval | None]
    drift: Callable[[Iterable[Node], Iterable[Node]], float] = _no_drift


def basis_of(documents: Iterable[Mapping[str, Any]], *, eager: bool = False) -> Basis:
    """Return what runs are compared by; ``eager``: what is compared was launched eagerly, whatever was set.

    Modelled energy is time x stated watts, so there is no work in it.
    """
    documents = list(documents)
    if any((document.get("sensor") or {}).get("modelled") for document in documents):
        return TOTAL
    return DYNAMIC if eager or "eager" in map(execution_of, documents) else TOTAL


def _adding(read: Callable[[Node], Interval | None]) -> Callable[[Iterable[Node]], Interval | None]:
    """Return the sum, as far as it is known, of values that share an error: that of the idle power."""

    def add(nodes: Iterable[Node]) -> Interval | None:
        return sum_known(value for node in nodes if (value := read(node)) is not None)

    return add


def _idle_drift(first: Iterable[Node], second: Iterable[Node]) -> float:
    """Return the difference of idle power x the mean time over the mean energy; 0 where a run knows none.

    Idle power moves by half a percent from one run to the next on the same board. Each run measures it, and no
    window's scatter shows it.
    """
    runs = [_totals(first), _totals(second)]
    if not all(energy > 0 and time_us > 0 for energy, _, time_us in runs):
        return 0.0
    idle = [static / time_us for _, static, time_us in runs]
    return (idle[1] - idle[0]) * sum(run[2] for run in runs) / sum(run[0] for run in runs)


def _totals(nodes: Iterable[Node]) -> tuple[float, float, float]:
    """Return the energy, idle energy (mJ) and time (us) of those components that know all three."""
    names = ("energy_mj", "static_mj", "time_us")
    rows = [[node.number(name) for name in names] for node in nodes]
    known = [row for row in rows if None not in row]
    energy, static, time_us = (sum(row[column] or 0.0 for row in known) for column in range(3))
    return energy, static, time_us


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


ENERGY = Measure("mJ", lambda node: node.energy, lambda node: node.invalid, sum_energy, _idle_drift)
WORK = Measure("mJ", _dynamic, _invalid_by("dynamic_quality"), _adding(_dynamic))
SHARE_OF_WORK = Measure("share", _dynamic_share, _invalid_by("dynamic_share_quality"), _adding(_dynamic_share))
MEASURES: Mapping[Basis, Measure] = {TOTAL: ENERGY, DYNAMIC: WORK}
