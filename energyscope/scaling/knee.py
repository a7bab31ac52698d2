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

import numpy as np

from energyscope.runs.intervals import Interval, ratio
from energyscope.scaling.cell import FLOOR
from energyscope.scaling.least_squares import weighted

WORTH = 0.10  # gain of tokens/J per doubling that is worth it
LEAST = 3  # points of which a knee can be told


@dataclass(frozen=True)
class Knee:
    """The size at the knee, None with a ``reason`` in a sentence without a full stop; ``words`` say what it means.

    ``half_at`` is the size at which fixed energy is half of the whole; None where no law tells it.
    """

    at: int | None
    words: str | None
    reason: str | None
    half_at: float | None


@dataclass(frozen=True)
class _Step:
    start: int
    end: int
    gain: Interval  # of tokens/J per doubling

    def said(self, noun: str) -> str:
        limits = "" if not self.gain.known else f" [{_percent(self.gain.low)}, {_percent(self.gain.high)}]"
        return f"from {noun} {self.start} to {self.end} tokens/J change by {_percent(self.gain.value)} %{limits}"

    @property
    def pays(self) -> bool:
        return self.gain.value >= WORTH

    @property
    def told(self) -> bool:
        return not self.gain.known or self.gain.excludes(WORTH)


def knee_of(sizes: Sequence[int], tokens_per_j: Sequence[Interval], noun: str) -> Knee:
    """Return the knee of tokens/J over ``sizes`` (n,), which rise; ``noun`` names a size ("batch").

    Gains are per doubling: between sizes 1 and 8, the cube root of the ratio. Where the interval of the gain just
    before or just after the knee includes 10 %, it cannot be told; without limits the values decide.
    """
    half = _half_at(sizes, tokens_per_j)
    if len(sizes) < LEAST:
        return Knee(None, None, f"{len(sizes)} of the {LEAST} points that a knee needs at least", half)
    steps = [_step(*pair) for pair in itertools.pairwise(zip(sizes, tokens_per_j, strict=True))]
    last = max((index for index, step in enumerate(steps) if step.pays), default=-1)
    reason = _untold(steps, last, noun)
    if reason is not None:
        return Knee(None, None, reason, half)
    return Knee(steps[last].end, _words(steps, last, tokens_per_j, noun, half), None, half)


def _step(first: tuple[int, Interval], second: tuple[int, Interval]) -> _Step:
    (start, before), (end, after) = first, second
    change = ratio(after, before) or Interval(math.nan)
    power = 1 / math.log2(end / start)
    limits = [None if limit is None else limit**power - 1 for limit in (change.low, change.high)]
    return _Step(start, end, Interval(change.value**power - 1, *limits))


def _untold(steps: Sequence[_Step], last: int, noun: str) -> str | None:
    """Return why there is no knee after the ``last`` step that pays (-1: none does), None where there is one."""
    least = f"less than {WORTH:.0%} per doubling"
    deciding = steps[last : last + 2] if 0 <= last < len(steps) - 1 else steps if last == -1 else steps[last:]
    unsure = next((step for step in deciding if not step.told), None)
    if unsure is not None:
        return f"the knee cannot be told: {unsure.said(noun)} per doubling, an interval that includes {WORTH:.0%}"
    if last == -1:
        return f"no knee: {steps[0].said(noun)} per doubling, {least} from the least measured on"
    if last == len(steps) - 1:
        return f"no knee up to {noun} {steps[last].end}: {steps[last].said(noun)} per doubling, still rising"
    return None


def _words(steps: Sequence[_Step], last: int, values: Sequence[Interval], noun: str, half: float | None) -> str:
    after = steps[last + 1].gain
    limits = f" [{_percent(after.low)}, {_percent(after.high)}]" if after.known else ""
    said = (
        f"up to {noun} {steps[last].end} tokens/J rise to {values[last + 1].value:.3g}"
        f" ({values[last + 1].value / values[0].value:.2g} times those at {noun} {steps[0].start});"
        f" the next doubling changes them by {_percent(after.value)} %{limits}, less than {WORTH:.0%}"
    )
    return said if half is None else f"{said}; fixed energy is half of the whole at {noun} {half:.2g}"


def _half_at(sizes: Sequence[int], tokens_per_j: Sequence[Interval]) -> float | None:
    """Return n_1/2 = E0 / e of E = E0 + e n, fitted to relative residuals; None without two positive terms."""
    if len(sizes) < LEAST or any(one.value <= 0 for one in tokens_per_j):
        return None
    counts = np.array(sizes, dtype=float)
    energy = counts / np.array([one.value for one in tokens_per_j])
    fit = weighted(np.column_stack([np.ones(len(counts)), counts]), energy, FLOOR * energy)
    if fit is None or min(fit.coefficients) <= 0:
        return None
    return fit.coefficients[0] / fit.coefficients[1]


def _percent(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{100 * value:+,.0f}" if abs(value) >= 0.1 else f"{100 * value:+.2g}"
