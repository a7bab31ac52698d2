"""When the phases of a generation began and ended. Pure data and functions.

One generation, on the host's clock:

    begin_s        tokens_s[0]   [1]   [2]  ...  [-1]  end_s
      |--- prefill ---|--step 1--|--2--|  ...  |---|-|

The prefill ends with the first token, and includes what `generate` prepares before it; step i makes token i + 1.
What `generate` does after the last token belongs to the last step.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from energyscope.metering.ticks import Array

REST = 0  # columns of an overlap: the time between generations, the prefill, and nodes of the decode from 2 on
PREFILL = 1
FIRST_NODE = 2

Bin = tuple[int, int]  # the first and the last decode step of a bin, counted from 1


@dataclass(frozen=True)
class GenerationTimes:
    """One generation: its begin, its tokens, its end (s of the monotonic clock)."""

    begin_s: float
    tokens_s: tuple[float, ...]
    end_s: float

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Self:
        """Return the mark of a journal entry."""
        return cls(float(entry["begin_s"]), tuple(map(float, entry["tokens_s"])), float(entry["end_s"]))

    @property
    def prefill_s(self) -> float:
        """How long the prefill took (s): the time to the first token."""
        return self.tokens_s[0] - self.begin_s

    @property
    def decode_s(self) -> float:
        """How long all after the first token took (s); 0 for a generation of one token."""
        return self.end_s - self.tokens_s[0] if len(self.tokens_s) > 1 else 0.0

    @property
    def token_s(self) -> float | None:
        """The mean time between tokens (s), None for a generation of one."""
        steps = len(self.tokens_s) - 1
        return (self.tokens_s[-1] - self.tokens_s[0]) / steps if steps else None

    @property
    def knots(self) -> list[float]:
        """The bounds (s) of the prefill and of each step."""
        return [self.begin_s, *self.tokens_s[:-1], self.end_s]

    @property
    def steps_s(self) -> Array:
        """The seconds of each decode step, shape (steps,)."""
        return np.diff(self.knots)[1:] if len(self.tokens_s) > 1 else np.zeros(0)


def decode_bins(steps: int, most: int) -> list[Bin]:
    """Return up to ``most`` bins of decode steps, as even as can be; none where there is no step."""
    count = min(steps, most)
    ends = [round(steps * number / count) for number in range(count + 1)] if count else [0]
    return [(first + 1, last) for first, last in itertools.pairwise(ends)]


def node_weights(steps: int, shares: Sequence[float]) -> Array:
    """Return how much each step counts for each node, shape (steps, nodes): a power between two nodes is a mix.

    ``shares`` are the nodes' places along the decode, from 0 (its first step) to 1 (its last).
    """
    places = np.linspace(0.0, 1.0, steps) if steps > 1 else np.zeros(steps)
    return np.stack([np.interp(places, shares, unit) for unit in np.eye(len(shares))], axis=1)


def overlaps(times_s: Array, marks: Sequence[GenerationTimes], nodes: Array) -> Array:
    """Return the seconds that each interval between times shares with each column, shape (times - 1, columns).

    Columns: the time between generations, the prefill, each node of the decode; ``nodes`` are the weights of the
    steps, see ``node_weights``. ``marks`` are in order and do not overlap.
    """
    steps, count = nodes.shape
    weights = np.zeros((steps + 2, FIRST_NODE + count))  # a piece each: prefill, steps, rest
    weights[0, PREFILL] = weights[-1, REST] = 1.0
    weights[1:-1, FIRST_NODE:] = nodes
    knots = np.array([mark.knots for mark in marks]).ravel()
    spent = np.zeros((len(knots), weights.shape[1]))
    spent[1:] = np.cumsum(np.diff(knots)[:, None] * np.tile(weights, (len(marks), 1))[:-1], axis=0)
    columns = range(weights.shape[1])
    shared = np.stack([np.diff(np.interp(times_s, knots, spent[:, column])) for column in columns], axis=1)
    shared[:, REST] = np.diff(times_s) - shared[:, PREFILL:].sum(axis=1)  # before and after them all as well
    result: Array = shared
    return result
