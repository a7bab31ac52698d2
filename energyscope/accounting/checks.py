"""Can shares be relied on? What all leaves add up to, and each kind's share seen from two sides. Pure functions.

Read from what a profile wrote (``closure`` and ``differential`` in run.json), for whoever draws a conclusion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from energyscope.accounting.closure import (
    AGREEMENT,
    LEAVES,
    LEAVES_HIGH,
    LEAVES_LOW,
    OVER,
    UNDER,
    WIDEST,
    deciding,
    leaves_state,
)
from energyscope.intervals import Interval, difference, from_entry, interval
from energyscope.reasons import Reason, reason

AGREES, COSTLIER, CHEAPER, UNCLEAR = "agrees", "costlier in replay", "cheaper in replay", "unclear"
NAMES = {"dynamic": "work", "energy": "energy"}  # of quantities, in sentences


@dataclass(frozen=True)
class KindCheck:
    """What a kind takes in replay, and what the model saves without it, as shares of the model."""

    replayed: Interval | None
    saved: Interval | None

    @property
    def verdict(self) -> str:
        """Whether the two agree: `AGREES`, `COSTLIER` or `CHEAPER` (in replay), else `UNCLEAR`.

        They differ where their intervals are apart by more than `AGREEMENT` of the larger value.
        """
        replayed, saved = self.replayed, self.saved
        if replayed is None or saved is None or not (replayed.known and saved.known):
            return UNCLEAR
        apart = difference(replayed, saved)
        tolerated = AGREEMENT * max(abs(replayed.value), abs(saved.value))
        if saved.above + replayed.below + tolerated < apart.value:
            return COSTLIER
        if saved.below + replayed.above + tolerated < -apart.value:
            return CHEAPER
        narrow = max(apart.below, apart.above) <= WIDEST * abs(saved.value)
        return AGREES if narrow and abs(apart.value) <= tolerated else UNCLEAR

    @property
    def disagrees(self) -> bool:
        """Whether replay is shown to take another share than the model saves."""
        return self.verdict in {COSTLIER, CHEAPER}


@dataclass(frozen=True)
class Checks:
    """The checks of one phase: the ``quantity`` that decides, and in it leaves with overhead, and each kind.

    ``leaves`` is their sum as a share of the model, None where it could not be measured.
    """

    quantity: str = "energy"
    leaves: Interval | None = None
    kinds: Mapping[str, KindCheck] = field(default_factory=dict)

    @property
    def state(self) -> str | None:
        """Whether leaves and overhead add up (`closure.leaves_state`); None where that was not measured."""
        return None if self.leaves is None else leaves_state(self.leaves)

    @property
    def add_up_wrongly(self) -> bool:
        """Whether leaves and overhead are shown to add up to too little or too much."""
        return self.state in {UNDER, OVER}

    @property
    def name(self) -> str:
        """What the shares are of: ``work`` or ``energy``."""
        return NAMES[self.quantity]

    def outside(self) -> Reason:
        """Return what is wrong where leaves and overhead do not add up, or where that is unknown."""
        if self.leaves is None:
            return reason("closure-unknown")
        return reason("closure-outside", closure=self.leaves.value, low=LEAVES_LOW, high=LEAVES_HIGH)


def checks(document: Mapping[str, Any], execution: str) -> Checks:
    """Return the checks of a phase as run.json has them; ``document`` holds its closure and differentials."""
    closure = (document.get("closure") or {}).get(LEAVES) or {}
    quantity = str(closure.get("decides") or deciding(execution, closure))
    kinds = {}
    for kind, entry in (document.get("differential") or {}).items():
        if shares := (entry.get("shares") or {}).get(quantity):
            kinds[kind] = KindCheck(from_entry(shares.get("replayed")), from_entry(shares.get("saved")))
    limits = (closure.get(f"{quantity}{end}") for end in ("", "_low", "_high"))
    return Checks(quantity, interval(*limits), kinds)
