"""Where along batch sizes or lengths more of them stops to pay, in tokens per joule.

The knee is, as V. Satopaa, J. Albrecht, D. Irwin and B. Raghavan put it (Finding a "Kneedle" in a Haystack, ICDCS
Workshops 2011), where more of the parameter is no longer worth what it brings; here: the first size after which
every further doubling raises tokens/J by less than 10 %. It needs no law. Beside it stands a size that a law
gives: E = E0 + e n makes tokens/J reach half of its limit 1 / e at n = E0 / e, which is n_1/2 of R. W. Hockney and
C. R. Jesshope (Parallel Computers, 1981), told for joules instead of seconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from energyscope.intervals import Interval, ratio
from energyscope.reasons import Reason, reason
from energyscope.scaling.cells import FLOOR
from energyscope.scaling.least_squares import line

WORTH = 0.10  # gain of tokens/J per doubling that is worth it
LEAST = 3  # points of which a knee can be told


@dataclass(frozen=True)
class Knee:
    """The size at the knee, None with a ``reason``; ``words`` say what it means.

    ``half_at`` is the size at which fixed energy is half of the whole; None where no law tells it.
    """

    at: int | None
    words: Reason | None
    reason: Reason | None
    half_at: float | None


@dataclass(frozen=True)
class _Step:
    start: int
    end: int
    gain: Interval  # of tokens/J per doubling

    @property
    def pays(self) -> bool:
        return self.gain.value >= WORTH

    @property
    def sure(self) -> bool:
        return not self.gain.known or self.gain.excludes(WORTH)


def knee_of(sizes: Sequence[int], tokens_per_j: Sequence[Interval], noun: str) -> Knee:
    """Return the knee of tokens/J over ``sizes`` (n,), which rise; ``noun`` names a size ("batch").

    Gains are per doubling: between sizes 1 and 8, the cube root of the ratio. Where the interval of the gain just
    before or just after the knee includes 10 %, it cannot be told; without limits the values decide.
    """
    half = _half_at(sizes, tokens_per_j)
    if len(sizes) < LEAST:
        return Knee(None, None, reason("few-sizes", sizes=len(sizes), needed=LEAST), half)
    steps = [_step(*pair) for pair in itertools.pairwise(zip(sizes, tokens_per_j, strict=True))]
    last = max((index for index, step in enumerate(steps) if step.pays), default=-1)
    why = _no_knee(steps, last, noun)
    if why is not None:
        return Knee(None, None, why, half)
    knee = reason(
        "knee",
        noun=noun,
        least=sizes[0],
        at=steps[last].end,
        factor=tokens_per_j[last + 1].value / tokens_per_j[0].value,
        gain=steps[last + 1].gain.value,
    )
    return Knee(steps[last].end, knee, None, half)


def _step(first: tuple[int, Interval], second: tuple[int, Interval]) -> _Step:
    (start, before), (end, after) = first, second
    change = ratio(after, before) or Interval(math.nan)
    power = 1 / math.log2(end / start)
    limits = [None if limit is None else limit**power - 1 for limit in (change.low, change.high)]
    return _Step(start, end, Interval(change.value**power - 1, *limits))


def _no_knee(steps: Sequence[_Step], last: int, noun: str) -> Reason | None:
    """Return why there is no knee after the ``last`` step that pays (-1: none does), None where there is one."""
    deciding = steps[last : last + 2] if 0 <= last < len(steps) - 1 else steps if last == -1 else steps[last:]
    unsure = next((step for step in deciding if not step.sure), None)
    if unsure is not None:
        return reason("knee-unclear", **_named(unsure, noun), low=unsure.gain.low, high=unsure.gain.high)
    if last == -1:
        return reason("no-gain-from-start", **_named(steps[0], noun))
    return reason("no-knee-yet", **_named(steps[last], noun)) if last == len(steps) - 1 else None


def _named(step: _Step, noun: str) -> dict[str, Any]:
    return {"noun": noun, "start": step.start, "end": step.end, "gain": step.gain.value}


def _half_at(sizes: Sequence[int], tokens_per_j: Sequence[Interval]) -> float | None:
    """Return n_1/2 = E0 / e of E = E0 + e n, fitted to relative residuals; None without two positive terms."""
    if len(sizes) < LEAST or any(rate.value <= 0 for rate in tokens_per_j):
        return None
    counts = np.array(sizes, dtype=float)
    energy = counts / np.array([rate.value for rate in tokens_per_j])
    fit = line(counts, energy, FLOOR * energy)
    if fit is None or min(fit.coefficients) <= 0:
        return None
    return fit.coefficients[0] / fit.coefficients[1]
