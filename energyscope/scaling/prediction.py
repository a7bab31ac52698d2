"""What a law says of a shape: energy and time with intervals, and whether that lies outside of its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from energyscope.intervals import Interval
from energyscope.reasons import Reason, join, reason
from energyscope.scaling.cell import Cell, Work

LawName = Literal[
    "two-term",
    "two-term-in-bytes",
    "constant",
    "per-call",
    "roofline-floor",
    "roofline-sum",
    "roofline-board-rates",
    "sum-over-parts",
]
ROUNDING = 1e-3  # counts of FLOPs and bytes that differ by less are the same


@dataclass(frozen=True)
class Prediction:
    """Energy (mJ) and, where the law knows it, time (us) of one shape; ``why`` says how it extrapolates."""

    subject: str
    law: LawName
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
    """That cells give no law, with the reason."""

    subject: str
    reason: Reason


@dataclass(frozen=True)
class Span:
    """The range of the cells that a law was fitted to: of FLOPs and of bytes, each per call or in all.

    ``tokens`` and ``sequences`` are the ranges of lengths (or contexts) and of batch sizes; None where they do
    not matter. A long context of one sequence may take no more work than a short one of four: it is outside.
    """

    flops: tuple[float, float]
    bytes: tuple[float, float]
    per_call: bool = False
    tokens: tuple[int, int] | None = None
    sequences: tuple[int, int] | None = None

    def outside(self, work: Work) -> str | None:
        """Return how a shape lies outside of the range, as joined reasons; None where it lies inside."""
        calls = work.calls if self.per_call else 1
        measures: list[tuple[str, float, tuple[float, float] | None]] = [
            ("tokens", work.tokens, self.tokens),
            ("sequences", work.batch_size, self.sequences),
            ("FLOPs", work.flops / calls, self.flops),
            ("bytes", work.bytes / calls, self.bytes),
        ]
        found = [_beyond(name, value, limits) for name, value, limits in measures if limits]
        return join(one for one in found if one) or None


def span_of(cells: Sequence[Cell], *, per_call: bool = False) -> Span:
    """Return the range of some cells."""
    flops = [cell.flops / (cell.calls if per_call else 1) for cell in cells]
    moved = [cell.bytes / (cell.calls if per_call else 1) for cell in cells]
    tokens, sequences = [cell.tokens for cell in cells], [cell.batch_size for cell in cells]
    return Span(
        (min(flops), max(flops)),
        (min(moved), max(moved)),
        per_call,
        (min(tokens), max(tokens)),
        (min(sequences), max(sequences)),
    )


def _beyond(name: str, value: float, limits: tuple[float, float]) -> Reason | None:
    low, high = limits
    if low * (1 - ROUNDING) <= value <= high * (1 + ROUNDING):
        return None
    if not high:
        return reason("none-measured", measure=name)
    end, limit = ("most", high) if value > high else ("least", low)
    return reason("beyond-cells", measure=name, factor=value / limit, end=end)
