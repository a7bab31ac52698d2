"""By how much two boards differ: what each takes for the reference workload, whatever was run there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from energyscope.comparison.basis import DYNAMIC, TOTAL, Basis
from energyscope.intervals import Interval, interval, ratio


@dataclass(frozen=True)
class BoardFactor:
    """How many times the joules of the baseline's board the other run's board takes for the reference workload.

    Of all energy (``basis`` ``total``), or of work (``dynamic``), whichever the runs are compared by.
    """

    workload: str
    factor: Interval
    basis: Basis = TOTAL

    def remaining(self, relative: Interval | None) -> Interval | None:
        """Return a ratio of joules divided by the factor; the errors of both are in its interval."""
        return ratio(relative, self.factor) if relative else None


def board_factor(baseline: Mapping[str, Any], other: Mapping[str, Any], basis: Basis) -> BoardFactor | None:
    """Return the factor of two runs' boards by their documents.

    None on one board, and where a run carries no reference, or that of another workload.
    """
    first, second = ((document.get("device") or {}).get("reference") for document in (baseline, other))
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return None
    if first.get("board") == second.get("board"):
        return None
    if any(first.get(key) != second.get(key) for key in ("workload", "threads")):
        return None
    before, now = _energy(first, basis), _energy(second, basis)
    factor = ratio(now, before) if now and before else None
    return BoardFactor(str(first["workload"]), factor, basis) if factor and factor.known else None


def _energy(reference: Mapping[str, Any], basis: Basis) -> Interval | None:
    value, limits = ("dynamic_mj", "dynamic_") if basis == DYNAMIC else ("energy_mj", "")
    return interval(reference.get(value), reference.get(f"{limits}low_mj"), reference.get(f"{limits}high_mj"))
