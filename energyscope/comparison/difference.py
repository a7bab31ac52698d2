"""One quantity of two runs, and the verdict on its difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.comparison.basis import DYNAMIC, TOTAL, Basis
from energyscope.intervals import Interval, difference, ratio
from energyscope.reasons import Reason, join, reason

Verdict = Literal["less", "more", "no-difference-shown", "not-comparable"]
LESS: Verdict = "less"
MORE: Verdict = "more"
NOT_SHOWN: Verdict = "no-difference-shown"
NOT_COMPARABLE: Verdict = "not-comparable"
SHOWN = frozenset({LESS, MORE})

# The quantities of a whole model: other code finds them by these names.
PER_PASS, PER_STEP = "energy per forward pass", "energy per decode step"
PER_TOKEN, PER_INFERENCE = "energy per generated token", "energy per inference"
PER_PROMPT_TOKEN, LOOP = "energy per prompt token", "generate's loop per step"
WORK, IDLE, LATENCY, POWER, TOKENS_PER_JOULE = "work", "idle energy", "latency", "mean power", "tokens per joule"
WORK_PER_GENERATED = "work per generated token"
HOST, HOST_PER_TOKEN = "host, whole machine", "host per generated token"
ENERGIES = frozenset({PER_PASS, PER_STEP, PER_TOKEN, PER_INFERENCE})
# What idle energy is a part of, and so the host's time in eager execution.
_TOTALS = ENERGIES | {PER_PROMPT_TOKEN, LOOP, IDLE, TOKENS_PER_JOULE, HOST, HOST_PER_TOKEN}
# By which quantities whole models are compared.
LEADS: Mapping[Basis, frozenset[str]] = {TOTAL: ENERGIES, DYNAMIC: frozenset({WORK, WORK_PER_GENERATED})}

Values = tuple[Interval | None, Interval | None]  # of the baseline and of the other run
# Name, unit, how it is read from what a run has, and what tells whether its grade is invalid; None: it has none.
Quantity = tuple[str, str, Callable[[Any], Interval | None], Callable[[Any], bool] | None]


@dataclass(frozen=True)
class Difference:
    """One quantity of the baseline and of another run.

    ``change`` is other - baseline in the quantity's unit, ``relative`` the ratio other / baseline; both
    None where a value is missing. ``reason`` (of `energyscope.reasons`) says why there is no verdict of less or
    more. One difference stands for ``count`` components where both runs measured them together; ``origin`` says
    how a value that was not measured on this component came about. ``invalid``: a value did not reach grade C.
    """

    name: str
    unit: str
    baseline: Interval | None
    other: Interval | None
    change: Interval | None
    relative: Interval | None
    verdict: Verdict
    reason: str | None = None
    kind: str | None = None
    count: int = 1
    origin: str | None = None
    invalid: bool = False

    @property
    def missing(self) -> bool:
        """Whether neither run has a value."""
        return self.baseline is None and self.other is None

    @property
    def together(self) -> Interval | None:
        """The change of all components that the difference stands for; measured together, they err together."""
        return self.change.scaled(self.count) if self.change else None


def compared(
    name: str,
    unit: str,
    values: Values,
    obstacles: Sequence[str] = (),
    invalid: tuple[bool, bool] = (False, False),
    own: Reason | None = None,
    drift: float = 0.0,
) -> Difference:
    """Return the difference of a quantity.

    ``obstacles`` name the conditions that make its values not comparable; ``invalid`` says which of them did not
    reach grade C; ``own`` is a reason for which this quantity is not comparable. ``drift`` is by how much
    (relative) the other run has more because its idle power was higher: the change is one with or without that,
    unless the runs are not comparable: another board, or several, have idle power of their own.
    """
    first, second = values
    change = relative = None
    if first is None or second is None:
        verdict, why = NOT_COMPARABLE, str(reason("in-neither-run" if first is second else "in-one-run"))
    else:
        plain, quotient = difference(second, first), ratio(second, first)
        drift = 0.0 if obstacles else drift
        change = plain.with_or_without(drift * (abs(first.value) + abs(second.value)) / 2)
        relative = quotient.with_or_without(drift * quotient.value) if quotient else None
        verdict, why = _verdict(change, obstacles, invalid, own)
        if verdict == NOT_SHOWN and plain.excludes(0.0):
            why = str(reason("as-idle-power"))
    return Difference(name, unit, first, second, change, relative, verdict, why or None, invalid=any(invalid))


def quantities(
    table: Iterable[Quantity],
    subjects: tuple[Any, Any],
    obstacles: Sequence[str],
    basis: Basis,
    drift: float = 0.0,
) -> list[Difference]:
    """Return the difference of each quantity of a table between two subjects, None of a run that has none.

    Those by which whole models are compared come first.
    """
    differences = []
    for name, unit, read, grade in sorted(table, key=lambda quantity: quantity[0] not in LEADS[basis]):
        first, second = (None if subject is None else read(subject) for subject in subjects)
        weak, weaker = (bool(grade and subject is not None and grade(subject)) for subject in subjects)
        own = reason("eager-total") if basis == DYNAMIC and name in _TOTALS else None
        own_drift = drift if name in ENERGIES else 0.0
        differences.append(
            compared(name, unit, (first, second), obstacles, (weak, weaker), own=own, drift=own_drift)
        )
    return differences


def _verdict(
    change: Interval, obstacles: Sequence[str], invalid: tuple[bool, bool], own: Reason | None
) -> tuple[Verdict, str]:
    why = [reason("other-conditions", names=list(obstacles))] if obstacles else []
    why += [own] if own else []
    if any(invalid) and not own:  # what is not comparable in itself is not so for being noisy
        runs = zip(("the baseline", "the other run"), invalid, strict=True)
        why.append(reason("too-noisy", whose=[name for name, weak in runs if weak]))
    if why or not change.known:
        return NOT_COMPARABLE, join(why) or str(reason("interval-unknown"))
    if not change.excludes(0.0):
        return NOT_SHOWN, str(reason("difference-includes-zero"))
    return (MORE if change.value > 0 else LESS), ""
