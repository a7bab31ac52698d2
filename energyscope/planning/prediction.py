"""What a choice is expected to take of what the model takes: what its groups save, alone and together.

Groups are priced by replaying them alone. In the model the same work can cost otherwise: the board draws another
power and keeps other clocks around it. So each precision is also measured in all groups at once that it saves
something in, in turn with the model, and what that takes otherwise than its groups say is shared out among them,
by what they take as they are. Where that leaves some of them no saving, the precision is measured again in the
others: the difference between the two is the cost of those left out. Each of the two choices is then expected to
take what it was measured to; a mixture gets its part of each, and groups in which a precision saves nothing alone
are expected to cost what they cost alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from energyscope.accounting import records
from energyscope.accounting.measured import CallTerm, Measured, Total, quotient, total
from energyscope.planning.replaying import price_target

_NOTHING = Total(0.0, 0.0)
_LEAST = 1e-9  # of a group: what is left where counts cancel

Counts = Mapping[tuple[str, str], float]  # of groups, by family and precision


@dataclass(frozen=True)
class Together:
    """One precision in many groups at once: how many of each family have it, and what the model took then.

    With ``others``, the windows are of these groups and the others together; the others were measured alone, too.
    """

    families: Mapping[str, int]
    changed: Measured | None
    model: Measured | None
    others: Together | None = None

    def taken(self, quantity: str) -> Total | None:
        """Return what the model took more in these windows, of what it takes; None where that is not known."""
        taken = ratio(self.changed, self.model, quantity)
        return None if taken is None or taken.half is None else Total(taken.value - 1.0, taken.half)

    def more(self, quantity: str) -> float | None:
        """Return what the model takes more with the precision in these groups, of what it takes."""
        taken = self.taken(quantity)
        if taken is None or self.others is None:
            return None if taken is None else taken.value
        without = self.others.taken(quantity)
        return None if without is None else taken.value - without.value


def ratio(changed: Measured | None, model: Measured | None, quantity: str) -> Total | None:
    """Return what one target took of what another one took."""
    both = (total([CallTerm("whole", 1.0, one)], quantity) for one in (changed, model))
    return quotient(*both)


@dataclass(frozen=True)
class Prediction:
    """The prices of a workload's groups, by target, and each precision that was measured in the model."""

    own: str
    prices: Mapping[str, Measured]
    together: Mapping[str, Sequence[Together]]  # of different families, by precision

    def price(self, family: str, precision: str) -> Measured | None:
        """Return what a group of a family costs a call, replayed alone; None where that was not measured."""
        return self.prices.get(price_target(family, precision).key)

    def cost(self, family: str, precision: str, quantity: str) -> float | None:
        """Return the mJ or us of a group of a family, as its precision in all of them showed it to be."""
        alone, model = self._mean(family, precision, quantity), self.prices.get(records.MODEL)
        if alone is None or model is None or precision == self.own:
            return alone
        more = sum(
            self._weight(family, whole, quantity) * self._more_than_alone(precision, whole, quantity)
            for whole in self.together.get(precision, ())
            if family in whole.families
        )
        return alone + more * (getattr(model, quantity).mean or 0.0)

    def share(self, counts: Counts, quantity: str) -> Total | None:
        """Return what a choice takes of what the model takes (1: as much), with its interval.

        ``counts`` are of the groups that it changes.
        """
        left = {pair: float(count) for pair, count in counts.items()}
        shift, variance = 0.0, 0.0
        for precision, wholes in self.together.items():
            shares = [self._share_of(whole, precision, counts, quantity) for whole in wholes]
            for whole, share in zip(wholes, shares, strict=True):
                for family, count in whole.families.items():
                    left[family, precision] = left.get((family, precision), 0.0) - share * count
            for whole, share, beside in zip(wholes, shares, [*shares, 0.0][1:], strict=True):
                taken = whole.taken(quantity)
                if taken is not None and taken.half is not None:
                    shift += (share - beside) * taken.value  # the next one's windows are of this one's groups, too
                    variance += ((share - beside) * taken.half) ** 2
        parts = self._parts(left, quantity)
        if parts is None:
            return None
        return Total(
            1.0 + shift + parts.value, None if parts.half is None else math.sqrt(variance + parts.half**2)
        )

    def _share_of(self, whole: Together, precision: str, counts: Counts, quantity: str) -> float:
        """Return which part of a choice's groups a mixture has; 0 where that is not known of it."""
        if whole.more(quantity) is None:
            return 0.0
        families = whole.families
        return sum(
            counts.get((family, precision), 0.0) * self._weight(family, whole, quantity) for family in families
        )

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

    def _more_than_alone(self, precision: str, whole: Together, quantity: str) -> float:
        """Return what groups take together more than each alone, of what the model takes."""
        counts = {(family, precision): count for family, count in whole.families.items()}
        more, parts = whole.more(quantity), self._parts(counts, quantity)
        return 0.0 if more is None or parts is None else more - parts.value

    def _weight(self, family: str, whole: Together, quantity: str) -> float:
        """Return the part of one group, as it is, in all of a choice that have its precision."""
        takes = {each: self._mean(each, self.own, quantity) or 0.0 for each in whole.families}
        together = sum(count * takes[each] for each, count in whole.families.items())
        return takes[family] / together if together else 0.0

    def _mean(self, family: str, precision: str, quantity: str) -> float | None:
        price = self.price(family, precision)
        return None if price is None else getattr(price, quantity).mean
