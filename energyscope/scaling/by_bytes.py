"""The two-term law of what has no FLOPs, such as norms and embeddings: E = E0 + k x bytes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from energyscope.intervals import Interval
from energyscope.reasons import Reason
from energyscope.scaling.cell import Cell, Shape, Work
from energyscope.scaling.prediction import LawName, NoLaw, Prediction, Span, span_of
from energyscope.scaling.two_term import TwoTerm, two_term


@dataclass(frozen=True)
class ByBytes:
    """E0 (mJ) and k (pJ/byte) of a subject with 95 % intervals; ``line`` is the fit, as in `TwoTerm`."""

    subject: str
    line: TwoTerm
    span: Span

    name: LawName = "two-term-in-bytes"

    @property
    def fixed_mj(self) -> Interval:
        """E0 in mJ."""
        return self.line.fixed_mj

    @property
    def pj_per_byte(self) -> Interval:
        """K in pJ/byte."""
        return self.line.marginal_pj_per_flop

    @property
    def flags(self) -> tuple[Reason, ...]:
        """What a reader must know, as in `TwoTerm`."""
        return self.line.flags

    def predict(self, work: Work) -> Prediction:
        """Return the energy of a further measurement of this work, with its 95 % prediction interval."""
        said = self.line.predict(Shape(1, 1, work.bytes, work.bytes))
        why = self.span.outside(work)
        return replace(said, law=self.name, extrapolated=why is not None, why=why)


def by_bytes(cells: Sequence[Cell], *, mixed: Collection[str] = ()) -> ByBytes | NoLaw:
    """Fit the law to the cells of one subject, as `two_term` does over FLOPs.

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``.

    """
    line = two_term([replace(cell, flops=cell.bytes) for cell in cells], mixed=mixed, measure="bytes")
    return line if isinstance(line, NoLaw) else ByBytes(line.subject, line, span_of(cells))
