"""The one shape of all laws: the energy of a pass as a sum of coefficients times features of its work.

E = sum of coefficient x feature, with the features 1 (the intercept), calls, FLOPs and bytes; a roofline law adds
static power x time, with the time from a `TimeLaw`. `FORMS` lists which law has which terms. Energies are in mJ,
times in us.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from energyscope.intervals import Interval, total
from energyscope.reasons import Reason, join, reason
from energyscope.scaling.cells import OVERHEAD, Cell, Work
from energyscope.scaling.least_squares import Fit, student_interval
from energyscope.scaling.time_law import TimeLaw

PJ_PER_MJ = 1e9
MJ_PER_US = 1e3  # in W
ROUNDING = 1e-3  # counts of FLOPs and bytes that differ by less are the same

LawName = Literal[
    "constant",
    "two-term",
    "two-term-in-bytes",
    "per-call",
    "roofline-floor",
    "roofline-board-rates",
    "sum-over-parts",
]
Feature = Literal["intercept", "calls", "flops", "bytes"]


@dataclass(frozen=True)
class Term:
    """A coefficient of a law: its name in documents, in ``unit`` per mJ, and what it multiplies.

    ``label`` names it in remarks; without one there are none.
    """

    name: str
    feature: Feature
    label: str = ""
    unit: float = 1.0


@dataclass(frozen=True)
class Form:
    """What a law is made of: its terms, and the fewest cells that it is fitted to.

    ``non_negative`` keeps its coefficients from falling below 0: work gives no joules back. ``timed`` adds static
    power x time. ``grows_with`` names what a line grows with. ``over_models`` shares one law between models, whose
    ranges are then those of a call.
    """

    name: LawName
    terms: tuple[Term, ...]
    fewest: int
    non_negative: bool = False
    timed: bool = False
    grows_with: str | None = None
    over_models: bool = False

    def row(self, work: Work) -> tuple[float, ...]:
        """Return the features of some work, shape (terms,)."""
        return tuple(
            1.0 if term.feature == "intercept" else float(getattr(work, term.feature)) for term in self.terms
        )


E0 = Term("fixed_mj", "intercept", "E0")
K = Term("marginal_pj_per_flop", "flops", "k", PJ_PER_MJ)
K_BYTES = Term("pj_per_byte", "bytes", "k", PJ_PER_MJ)
PER_CALL = (  # of a roofline: what a call, such as its launch, a FLOP and a byte cost beyond static power
    Term("call_mj", "calls", "energy per call"),
    Term("pj_per_flop", "flops", "J/FLOP", PJ_PER_MJ),
    Term("pj_per_byte", "bytes", "J/byte", PJ_PER_MJ),
)
FORMS: dict[LawName, Form] = {
    form.name: form
    for form in (
        Form("constant", (Term("energy_mj", "intercept"),), fewest=1),
        # the CLEAR study, arXiv 2510.02810; over bytes for what has no FLOPs, such as norms and embeddings
        Form("two-term", (E0, K), fewest=2, grows_with="FLOPs"),
        Form("two-term-in-bytes", (E0, K_BYTES), fewest=2, grows_with="bytes"),
        # hidden size, heads, layers and vocabulary come in through calls, FLOPs and bytes of a kind
        Form("per-call", PER_CALL, fewest=4, non_negative=True, over_models=True),
        # the roofline of S. Williams, A. Waterman and D. Patterson, Communications of the ACM 52 (2009), 65-76
        Form("roofline-floor", PER_CALL, fewest=2, non_negative=True, timed=True),
        Form("roofline-board-rates", PER_CALL, fewest=2, non_negative=True, timed=True),
    )
}


@dataclass(frozen=True)
class Prediction:
    """Energy (mJ) and, where the law knows it, time (us) of one shape; ``why`` says how it extrapolates."""

    subject: str
    law: LawName
    energy_mj: Interval
    time_us: Interval | None = None
    why: str | None = None

    @property
    def extrapolated(self) -> bool:
        """Whether the shape lies outside of the law's cells."""
        return self.why is not None


@dataclass(frozen=True)
class NoLaw:
    """Cells give no law, for this reason."""

    subject: str
    reason: Reason


@dataclass(frozen=True)
class FittedRange:
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
        reasons = (
            _beyond("tokens", work.tokens, self.tokens),
            _beyond("sequences", work.batch_size, self.sequences),
            _beyond("FLOPs", work.flops / calls, self.flops),
            _beyond("bytes", work.bytes / calls, self.bytes),
        )
        return join(why for why in reasons if why) or None


@dataclass(frozen=True)
class Law:
    """A fitted law of one subject.

    ``coefficients`` are its terms by name, each in its unit with a 95 % interval: without those of which no cell
    has the feature, and 0 without limits, and a flag, where the bound at 0 is active. ``r2`` is the share of the
    energies' weighted variance that the law explains (None where no cell is left over). ``residuals`` (cells,) are
    (measured - law) / measured, in the cells' order. ``flags`` say what a reader must know, such as a negative E0.

    A further measurement scatters by ``scatter``, a relative deviation with ``freedom`` degrees of freedom; None
    where no cell is left over to estimate it. ``static_w`` is measured: the cells' median static power.
    """

    form: Form
    subject: str
    cells: int
    coefficients: Mapping[str, Interval]
    r2: float | None
    residuals: tuple[float, ...]
    flags: tuple[Reason, ...]
    span: FittedRange
    fit: Fit
    scatter: float | None
    freedom: int
    time: TimeLaw | None = None
    static_w: float = 0.0

    @property
    def name(self) -> LawName:
        """The law's name in documents."""
        return self.form.name

    def predict(self, work: Work) -> Prediction:
        """Return energy and time of a further measurement of this work, with 95 % prediction intervals.

        A time below the board's ceilings is raised to them, with static power for the rest.
        """
        energy, time, why = self._energy(work), None, self.span.outside(work)
        if self.time is not None:
            time, missing = self.time.interval(work), self.time.missing_us(work)
            if missing > 0:
                time, energy = _raised(time, missing), _raised(energy, self.static_w / MJ_PER_US * missing)
        return Prediction(self.subject, self.name, energy, time, why)

    def _energy(self, work: Work) -> Interval:
        """Return the energy below the ceilings; variances of the time, of the terms and the scatter are added."""
        row, watts = self.form.row(work), self.static_w / MJ_PER_US
        value, variance = self.fit.value(row), self.fit.variance(row)
        time_variance: float | None = 0.0
        if self.time is not None:
            value, time_variance = watts * self.time.interval(work).value + value, self.time.variance(work)
        if variance is None or time_variance is None or self.scatter is None:
            return Interval(value)
        deviation = math.sqrt(watts**2 * time_variance + variance + (self.scatter * value) ** 2)
        return student_interval(value, deviation, self.freedom)


def span_of(cells: Sequence[Cell], *, per_call: bool = False) -> FittedRange:
    """Return the range of some cells."""
    calls = [cell.calls if per_call else 1 for cell in cells]
    flops = [cell.flops / number for cell, number in zip(cells, calls, strict=True)]
    moved = [cell.bytes / number for cell, number in zip(cells, calls, strict=True)]
    tokens, sequences = [cell.tokens for cell in cells], [cell.batch_size for cell in cells]
    return FittedRange(
        flops=(min(flops), max(flops)),
        bytes=(min(moved), max(moved)),
        per_call=per_call,
        tokens=(min(tokens), max(tokens)),
        sequences=(min(sequences), max(sequences)),
    )


def sum_of_parts(parts: Sequence[Prediction], subject: str) -> Prediction:
    """Add the predictions of parts that do not overlap, as independent of each other.

    Times add up too where all are known: components run one after the other. Their laws' errors are not quite
    independent (they share a board and its clocks), so that the sum's interval is rather too narrow: held-out
    cells show by how much.
    """
    times = [part.time_us for part in parts if part.time_us is not None]
    time = total(times) if len(times) == len(parts) else None
    why = join(of_part(part.subject, part.why) for part in parts if part.why)
    return Prediction(subject, "sum-over-parts", total(part.energy_mj for part in parts), time, why or None)


def of_part(subject: str, why: str) -> Reason:
    """Return a reason that holds for one part."""
    return reason("of-part", part="overhead" if subject == OVERHEAD else subject, why=why)


def _raised(value: Interval, by: float) -> Interval:
    low, high = (None if limit is None else limit + by for limit in (value.low, value.high))
    return Interval(value.value + by, low, high)


def _beyond(name: str, value: float, limits: tuple[float, float] | None) -> Reason | None:
    low, high = limits or (value, value)
    if low * (1 - ROUNDING) <= value <= high * (1 + ROUNDING):
        return None
    if not high:
        return reason("none-measured", measure=name)
    end, limit = ("most", high) if value > high else ("least", low)
    return reason("beyond-cells", measure=name, factor=value / limit, end=end)
