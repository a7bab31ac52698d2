"""How far a component's own output changed, beside how far the model's output changed from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from energyscope.impact.methods import is_sensitivity
from energyscope.runs.intervals import Interval

OWN, END = "output_change", "kl"
SPREAD = 1.01  # zeroing changes every output by exactly itself, which says nothing about any component


@dataclass(frozen=True)
class Cascade:
    """One change of one component: relative to its own output, and in nats of KL at the model's end."""

    component: str
    kind: str
    method: str
    own: float
    end: Interval


def cascades(values: Iterable[tuple[str, str, str, str, Interval]]) -> list[Cascade]:
    """Pair own and end changes of one removal and one quantization, each the first whose own changes differ.

    ``values`` are (component, kind, method, metric, value) of valid rows.
    """
    found: dict[tuple[str, str, str], dict[str, Interval]] = {}
    for component, kind, method, metric, value in values:
        if metric in {OWN, END}:
            found.setdefault((component, kind, method), {})[metric] = value
    paired = [Cascade(*key, both[OWN].value, both[END]) for key, both in found.items() if len(both) == 2]
    chosen = _differing(paired)
    return [cascade for cascade in paired if cascade.method in chosen]


def _differing(paired: list[Cascade]) -> set[str]:
    """Return the first removal and the first quantization by which own outputs change by different amounts."""
    chosen: dict[bool, str] = {}
    for method in dict.fromkeys(cascade.method for cascade in paired):
        own = [cascade.own for cascade in paired if cascade.method == method]
        if max(own) > SPREAD * min(own):
            chosen.setdefault(is_sensitivity(method), method)
    return set(chosen.values())
