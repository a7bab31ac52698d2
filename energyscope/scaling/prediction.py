"""What a law says of a shape: energy and time with intervals, and whether that lies outside of its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from energyscope.runs.intervals import Interval
from energyscope.scaling.cell import Cell, Work

ROUNDING = 1e-3  # counts of FLOPs and bytes that differ by less are the same


@dataclass(frozen=True)
class Prediction:
    """Energy (mJ) and, where the law knows it, time (us) of one shape; ``why`` says how it extrapolates."""

    subject: str
    law: str
    energy_mj: Interval
    time_us: Interval | None
    extrapolated: bool
    why: str | None = None


class Law(Protocol):
    """A fitted law of one subject."""

    @property
    def subject(self) -> str: ...
    def predict(self, work: Work) -> Prediction: ...


@dataclass(frozen=True)
class NoLaw:
    """That cells give no law, with the reason in a sentence that ends without a full stop."""

    subject: str
    reason: str


@dataclass(frozen=True)
class Span:
    """The range of the cells that a law was fitted to: of FLOPs and of bytes, each per call or in all."""

    flops: tuple[float, float]
    bytes: tuple[float, float]
    per_call: bool = False

    def outside(self, work: Work) -> str | None:
        """Return how a shape lies outside of the range, None where it lies inside."""
        said = [
            _beyond(name, value / (work.calls if self.per_call else 1), limits)
            for name, value, limits in (("FLOPs", work.flops, self.flops), ("bytes", work.bytes, self.bytes))
        ]
        return "; ".join(words for words in said if words) or None


def span_of(cells: Sequence[Cell], *, per_call: bool = False) -> Span:
    """Return the range of some cells."""
    flops = [cell.flops / (cell.calls if per_call else 1) for cell in cells]
    moved = [cell.bytes / (cell.calls if per_call else 1) for cell in cells]
    return Span((min(flops), max(flops)), (min(moved), max(moved)), per_call)


def _beyond(name: str, value: float, limits: tuple[float, float]) -> str | None:
    low, high = limits
    if low * (1 - ROUNDING) <= value <= high * (1 + ROUNDING):
        return None
    if value > high:
        return (
            f"{value:.3g} {name} are {value / high:.2g} times the most measured" if high else f"no {name} measured"
        )
    return f"{value:.3g} {name} are {value / low:.2g} times the least measured"
