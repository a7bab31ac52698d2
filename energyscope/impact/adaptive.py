"""Stop early: a component whose place in the ranking is clear needs no more examples.

All components are looked at after a quarter and after half of the batches: every fourth and every second of them,
counted from a place that the seed draws, since batches are ordered by the length of their texts. A component is
settled when its impact differs from that of its neighbours in the ranking of its method, example by example; the
others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from energyscope.impact.changing import Measurement
from energyscope.impact.metrics import Floats
from energyscope.impact.ranks import separated

EVERY = (4, 2, 1)  # which batches are done after the first look, the second, and in the end
DIGITS = 12  # of a divergence in nats: what differs by less does so by rounding
FEWEST_BATCHES = 2  # in the first share: with fewer, looking is not worth its while


@dataclass(frozen=True)
class Share:
    """Some of the batches; ``last`` says that all of them are done with these."""

    batches: tuple[int, ...]
    last: bool


class Looks:
    """The shares of the batches that are looked at, one after another."""

    def __init__(self, batches: int, *, adaptive: bool, seed: int) -> None:
        self.shares = _shares(batches, seed) if adaptive else [Share(tuple(range(batches)), last=True)]
        self._seed = seed
        self._measured: list[Measurement] = []

    def __iter__(self) -> Iterator[Share]:
        return iter(self.shares)

    def first_batch(self) -> int:
        """Return a batch that every change is run on."""
        return self.shares[0].batches[0] if self.shares[0].batches else 0

    def settled(self, measurements: Sequence[Measurement]) -> set[Measurement]:
        """Return the measurements that need no further examples; to be asked once after each share."""
        if not measurements:
            return set()
        self._measured = list(dict.fromkeys((*self._measured, *measurements)))
        by_method = sorted(self._measured, key=_method)
        settled: set[Measurement] = set()
        for _, group in groupby(by_method, key=_method):
            rivals = list(group)
            clear = self._clear(_by_example(rivals))
            settled.update(rival for rival, is_clear in zip(rivals, clear, strict=True) if is_clear)
        return settled.intersection(measurements)

    def _clear(self, values: Floats) -> list[bool]:
        """Say of each row whether its place is clear; rows that are alike on every example share one place."""
        alike = [row.tobytes() for row in np.round(values, DIGITS)]
        places = list(dict.fromkeys(alike))
        clear = separated(values[[alike.index(place) for place in places]], self._seed, looks=len(EVERY))
        return [bool(clear[places.index(row)]) for row in alike]


def _method(measurement: Measurement) -> str:
    return measurement.intervention.method


def _shares(batches: int, seed: int) -> list[Share]:
    if batches < FEWEST_BATCHES * EVERY[0]:
        return [Share(tuple(range(batches)), last=True)]
    first = int(np.random.default_rng(seed).integers(EVERY[0]))
    shares: list[Share] = []
    taken: set[int] = set()
    for every in EVERY:
        chosen = tuple(index for index in range(batches) if (index - first) % every == 0 and index not in taken)
        taken.update(chosen)
        shares.append(Share(chosen, last=every == 1))
    return shares


def _by_example(measurements: Sequence[Measurement]) -> Floats:
    """Return the KL divergence of every example, (measurements, examples); NaN where one was not looked at."""
    sizes = {index: len(outcomes) for measured in measurements for index, outcomes in measured.by_batch.items()}
    rows = [
        np.concatenate([
            measured.by_batch[index].kl if index in measured.by_batch else np.full(size, np.nan)
            for index, size in sorted(sizes.items())
        ])
        for measured in measurements
    ]  # fmt: skip
    return np.array(rows)
