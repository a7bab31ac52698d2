"""What simpler methods would have said: attribution by time, and the counter's plain difference, by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from energyscope.reporting import text
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import EnergyTree, sum_column, sum_energy

METHODS = {"proportional_mj": "Attribution by time", "naive_mj": "The counter's plain difference"}


@dataclass(frozen=True)
class SimplerRow:
    """All measured leaves of a kind, mJ per forward pass; a method is None where any of them lacks its value."""

    kind: str
    energy: Interval
    proportional_mj: float | None
    naive_mj: float | None

    def value(self, method: str) -> float | None:
        """Return what a method would have said."""
        return {"proportional_mj": self.proportional_mj, "naive_mj": self.naive_mj}[method]

    def apart(self, method: str) -> float | None:
        """Return by how much of this kind's energy a method is off."""
        value = self.value(method)
        return None if value is None or self.energy.value <= 0 else value / self.energy.value - 1

    def outside(self, method: str) -> bool:
        """Whether what a method would have said lies outside the interval."""
        value = self.value(method)
        return value is not None and self.energy.excludes(value)


def simpler_rows(tree: EnergyTree) -> list[SimplerRow]:
    """Return the leaves by kind, largest first; nothing where the table has neither method."""
    found = []
    for kind in dict.fromkeys(node.kind for node in tree.leaves):
        nodes = [node for node in tree.leaves if node.kind == kind and node.energy is not None]
        energy = sum_energy(nodes)
        if energy is not None:
            found.append(
                SimplerRow(kind, energy, sum_column(nodes, "proportional_mj"), sum_column(nodes, "naive_mj"))
            )
    known = any(row.value(method) is not None for row in found for method in METHODS)
    return sorted(found, key=lambda row: -row.energy.value) if known else []


def simpler_sentences(rows: Sequence[SimplerRow]) -> list[str]:
    """Return, for each method, the kind on which it is most joules away, if that lies outside the interval."""
    return [_sentence(rows, method, title) for method, title in METHODS.items()] if rows else []


def _sentence(rows: Sequence[SimplerRow], method: str, title: str) -> str:
    if all(row.value(method) is None for row in rows):
        return f"{title} is not known for any kind."
    outside = [(row, value) for row in rows if (value := row.value(method)) is not None and row.outside(method)]
    if not outside:
        return f"{title} would have said nothing outside of the intervals."
    row, value = max(outside, key=lambda pair: abs(pair[1] - pair[0].energy.value))
    apart = row.apart(method)
    change = "" if apart is None else f" ({text.signed_percent(apart)})"
    return (
        f"{title} would have given {row.kind} {text.quantity(value, 'mJ')} instead of "
        f"{text.with_limits(row.energy, 'mJ')}{change}; it is outside the interval for {len(outside)} of "
        f"{text.count(len(rows), 'kind')}."
    )
