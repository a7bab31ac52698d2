"""A roofline law of several models that knows the board's best rates, seen in any of its components.

Small models' components wait for launches: their cells do not show how fast the board computes or reads memory,
and a law of theirs foretells a large model as if it waited for launches too. But other components of the same
passes show it, such as the head, which reads more weights than any other: no component can be faster than that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from energyscope.intervals import Interval
from energyscope.reasons import Reason
from energyscope.scaling.cell import Cell, Work
from energyscope.scaling.heldout import scene
from energyscope.scaling.prediction import LawName, NoLaw, Prediction
from energyscope.scaling.roofline import MJ_PER_US, Roofline, roofline


@dataclass(frozen=True)
class Ceilings:
    """The least time for a FLOP (us) and for a byte (us) that any cell shows; infinite where none has any."""

    us_per_flop: float
    us_per_byte: float

    def least_us(self, work: Work) -> float:
        """Return the time that this work takes at least."""
        pairs = ((self.us_per_flop, work.flops), (self.us_per_byte, work.bytes))
        return max((rate * amount for rate, amount in pairs if amount and math.isfinite(rate)), default=0.0)


Rates = Mapping[tuple[object, ...], Ceilings]


@dataclass(frozen=True)
class Bounded:
    """A roofline ``law`` of which no time is below the ``ceilings`` (the board's rates are its roofs)."""

    law: Roofline
    ceilings: Ceilings

    @property
    def subject(self) -> str:
        """The law's subject."""
        return self.law.subject

    @property
    def name(self) -> LawName:
        """The law's name: its form is the same."""
        return self.law.name

    @property
    def flags(self) -> tuple[Reason, ...]:
        """What a reader must know, as in `Roofline`."""
        return self.law.flags

    @property
    def call_mj(self) -> Interval | None:
        """Energy of a call beyond static power, as in `Roofline`."""
        return self.law.call_mj

    @property
    def pj_per_flop(self) -> Interval | None:
        """Energy of a FLOP beyond static power, as in `Roofline`."""
        return self.law.pj_per_flop

    @property
    def pj_per_byte(self) -> Interval | None:
        """Energy of a byte beyond static power, as in `Roofline`."""
        return self.law.pj_per_byte

    def predict(self, work: Work) -> Prediction:
        """Return energy and time; a time below the ceilings is raised to them, with static power for the rest."""
        said = self.law.predict(work)
        missing = 0.0 if said.time_us is None else self.ceilings.least_us(work) - said.time_us.value
        if said.time_us is None or missing <= 0:
            return said
        static = self.law.static_w / MJ_PER_US * missing
        return replace(said, energy_mj=_raised(said.energy_mj, static), time_us=_raised(said.time_us, missing))


def bounded(cells: Sequence[Cell], *, rates: Rates | None = None, mixed: Collection[str] = ()) -> Bounded | NoLaw:
    """Fit the roofline law to one subject's cells, with the ceilings of their passes (`ceilings_of`).

    Raises:
        UsageError: the cells differ in a field that is not in ``mixed``.

    """
    law = _roofline(tuple(cells), frozenset(mixed))
    return law if isinstance(law, NoLaw) else Bounded(law, ceilings_of(cells, rates))


@functools.lru_cache(maxsize=512)
def _roofline(cells: tuple[Cell, ...], mixed: frozenset[str]) -> Roofline | NoLaw:
    """Return the law below the ceilings: of two models left out one after the other, either may be the first."""
    return roofline(cells, mixed=mixed)


def rates_by_pass(cells: Iterable[Cell]) -> Rates:
    """Return the best rates by pass (`heldout.scene`), of cells of all subjects.

    A cell's time over its FLOPs is no less than the board's best, whatever else it waited for.
    """
    found: dict[tuple[object, ...], Ceilings] = {}
    for cell in cells:
        key = scene(cell)
        found[key] = _best([_rates(cell), *([found[key]] if key in found else [])])
    return found


def ceilings_of(cells: Sequence[Cell], rates: Rates | None = None) -> Ceilings:
    """Return the best rates of some cells and, in ``rates``, of their passes.

    Other passes do not count, so that a fit without some passes knows nothing of them.
    """
    passes = {scene(cell) for cell in cells} if rates else set()
    return _best([*map(_rates, cells), *((rates or {})[one] for one in passes if one in (rates or {}))])


def _rates(cell: Cell) -> Ceilings:
    return Ceilings(
        cell.time_us / cell.flops if cell.flops else math.inf,
        cell.time_us / cell.bytes if cell.bytes else math.inf,
    )


def _best(found: Sequence[Ceilings]) -> Ceilings:
    return Ceilings(min(one.us_per_flop for one in found), min(one.us_per_byte for one in found))


def _raised(value: Interval, by: float) -> Interval:
    low, high = (None if limit is None else limit + by for limit in (value.low, value.high))
    return Interval(value.value + by, low, high)
