"""What a choice is expected to take of what the model takes: what its groups save, alone and together.

Groups are priced by replaying them alone. In the model the same work can cost otherwise: the board draws another
power and keeps other clocks around it. So each precision is also measured in all groups at once that it saves
something in, in turn with the model, and what that takes otherwise than its groups say is shared out among them,
by what they take as they are. That choice is then expected to take what it was measured to; a mixture gets its
part of each, and groups in which a precision saves nothing are expected to cost what they cost alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from energyscope.accounting import records
from energyscope.accounting.measured import CallTerm, Measured, Total, quotient, total
from energyscope.planning.replaying import price_target

_NOTHING = Total(0.0, 0.0)
_LEAST = 1e-9  # of a group: what is left where counts cancel

Counts = Mapping[tuple[str, str], float]  # of groups, by family and precision


@dataclass(frozen=True)
class Everywhere:
    """One precision in all groups that it saves in: how many of each family have it, and what was measured."""

    families: Mapping[str, int]
    changed: Measured | None
    model: Measured | None

    def ratio(self, quantity: str) -> Total | None:
        """Return what it took of what the model took, in turn with it; None where that is not known."""
        return ratio(self.changed, self.model, quantity)


def ratio(changed: Measured | None, model: Measured | None, quantity: str) -> Total | None:
    """Return what one target took of what another one took."""
    both = (total([CallTerm("whole", 1.0, one)], quantity) for one in (changed, model))
    return quotient(*both)


@dataclass(frozen=True)
class Prediction:
    """The prices of a workload's groups, by target, and each precision that was measured in the model."""

    own: str
    prices: Mapping[str, Measured]
    everywhere: Mapping[str, Everywhere]

    def price(self, family: str, precision: str) -> Measured | None:
        """Return what a group of a family costs a call, replayed alone; None where that was not measured."""
        return self.prices.get(price_target(family, precision).key)

    def cost(self, family: str, precision: str, quantity: str) -> float | None:
        """Return the mJ or us of a group of a family, as its precision in all of them showed it to be."""
        alone, model = self._mean(family, precision, quantity), self.prices.get(records.MODEL)
        if alone is None or model is None or precision == self.own:
            return alone
        more = self._weight(family, precision, quantity) * self._more(precision, quantity)
        return alone + more * (getattr(model, quantity).mean or 0.0)

    def share(self, counts: Counts, quantity: str) -> Total | None:
        """Return what a choice takes of what the model takes (1: as much), with its interval.

        ``counts`` are of the groups that it changes.
        """
        left = {pair: float(count) for pair, count in counts.items()}
        shift, variance = 0.0, 0.0
        for precision, whole in self.everywhere.items():
            share = sum(
                count * self._weight(family, precision, quantity)
                for (family, chosen), count in counts.items()
                if chosen == precision
            )
            taken = whole.ratio(quantity)
            if share == 0 or taken is None or taken.half is None:
                continue
            for family, count in whole.families.items():
                left[family, precision] = left.get((family, precision), 0.0) - share * count
            shift, variance = shift + share * (taken.value - 1.0), variance + (share * taken.half) ** 2
        parts = self._parts(left, quantity)
        if parts is None:
            return None
        half = None if parts.half is None else math.sqrt(variance + parts.half**2)
        return Total(1.0 + shift + parts.value, half)

    def _parts(self, counts: Counts, quantity: str) -> Total | None:
        """Return what so many groups take more than now, alone, of what the model takes."""
        terms = [
            CallTerm(price_target(family, name).key, sign * count, self.price(family, name))
            for (family, precision), count in counts.items()
            if abs(count) > _LEAST
            for sign, name in ((-1.0, self.own), (1.0, precision))
        ]
        if not terms:
            return _NOTHING
        model = total([CallTerm(records.MODEL, 1.0, self.prices.get(records.MODEL))], quantity)
        return quotient(total(terms, quantity), model)

    def _more(self, precision: str, quantity: str) -> float:
        """Return what a precision where it saves takes more than its groups say, of what the model takes."""
        whole = self.everywhere.get(precision)
        if whole is None:
            return 0.0
        counts = {(family, precision): count for family, count in whole.families.items()}
        taken, parts = whole.ratio(quantity), self._parts(counts, quantity)
        return 0.0 if taken is None or taken.half is None or parts is None else taken.value - 1.0 - parts.value

    def _weight(self, family: str, precision: str, quantity: str) -> float:
        """Return the part of a group, as it is, in all that have a precision where it saves."""
        whole = self.everywhere.get(precision)
        families = {} if whole is None else whole.families
        together = sum(count * (self._mean(each, self.own, quantity) or 0.0) for each, count in families.items())
        own = self._mean(family, self.own, quantity) or 0.0
        return own / together if together and family in families else 0.0

    def _mean(self, family: str, precision: str, quantity: str) -> float | None:
        price = self.price(family, precision)
        return None if price is None else getattr(price, quantity).mean
