"""A sentence of advice with what it saves. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from energyscope.runs.intervals import Interval

GOOD = ("A", "B")
INVALID = "invalid"  # below grade C
WEAK = " (below grade C: not to be relied on)"
MODELLED = "MODELLED (time x stated watts): "


@dataclass(frozen=True)
class Advice:
    """One sentence on one thing that could be changed (``what``).

    ``saving`` is the share of the joules per token that the change saves, with its 95 % interval (``value``,
    ``low``, ``high``; 0.4: 40 % less, negative: it costs more); None where that is not one number. ``confident``
    says that the measurement carries the sentence.
    """

    what: str
    sentence: str
    saving: Mapping[str, float | None] | None
    confident: bool


def saved(ratio: Interval) -> dict[str, float | None]:
    """Return the share that is saved, from the ratio of joules per token to the run's own."""
    return {
        "value": 1 - ratio.value,
        "low": None if ratio.high is None else 1 - ratio.high,
        "high": None if ratio.low is None else 1 - ratio.low,
    }


def marked(one: Advice) -> Advice:
    """Return advice on modelled joules: it says so, and is not confident."""
    return replace(one, sentence=MODELLED + one.sentence, confident=False)


def by_saving(found: Sequence[Advice]) -> list[Advice]:
    """Return advice in the order of what it surely saves, what can be told first; without a saving it is last."""
    return sorted(found, key=lambda one: (not one.confident, -_sure(one)))


def _sure(one: Advice) -> float:
    """Return the lower limit of a saving; its value where no limit is known."""
    found = one.saving or {}
    value = found.get("value") if found.get("low") is None else found["low"]
    return float("-inf") if value is None else value
