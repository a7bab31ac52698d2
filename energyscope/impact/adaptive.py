"""Stop early: a component whose rank is clear needs no more examples.

All components are measured on a quarter of the batches, then on half of them: every fourth and every second one,
counted from a place that the seed draws, since batches are ordered by the length of their texts. A component is
settled when its impact differs, over the same examples, from that of both its neighbours in the ranking of its
method; the others go on. Examples are resampled together for all components, because what makes an example hard is
shared by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from energyscope.grouping import group_by
from energyscope.impact.changer import Measurement
from energyscope.impact.metrics import Floats, bootstrap_weights, percentile_interval

EVERY = (4, 2, 1)  # which batches are done after the first look, the second, and in the end
DIGITS = 12  # of a divergence in nats: smaller differences are rounding
FEWEST_BATCHES = 2  # in the first share: with fewer, an early look saves nothing
LEVEL = 0.95
FEWEST_EXAMPLES = 30  # percentile intervals of a skewed mean are too narrow with fewer
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BatchShare:
    """Some of the batches; ``last`` says that all of them are done with these."""

    batches: tuple[int, ...]
    last: bool


class EarlyStopping:
    """The shares of the batches after each of which components are compared."""

    def __init__(self, batches: int, *, adaptive: bool, seed: int) -> None:
        self.shares = _shares(batches, seed) if adaptive else [BatchShare(tuple(range(batches)), last=True)]
        self._seed = seed
        self._measured: list[Measurement] = []

    def __iter__(self) -> Iterator[BatchShare]:
        return iter(self.shares)

    def first_batch(self) -> int:
        """Return a batch that every change is run on."""
        return self.shares[0].batches[0] if self.shares[0].batches else 0

    def settled(self, measurements: Sequence[Measurement]) -> set[Measurement]:
        """Return the measurements that need no further examples; to be asked once after each share."""
        if not measurements:
            return set()
        self._measured = list(dict.fromkeys((*self._measured, *measurements)))
        settled: set[Measurement] = set()
        for rivals in group_by(self._measured, lambda measurement: measurement.intervention.method).values():
            clear = self._clear(_by_example(rivals))
            settled.update(rival for rival, is_clear in zip(rivals, clear, strict=True) if is_clear)
        return settled.intersection(measurements)

    def _clear(self, values: Floats) -> list[bool]:
        """Return for each row whether its rank is clear; rows that are equal on every example share one rank."""
        keys = [row.tobytes() for row in np.round(values, DIGITS)]
        distinct = list(dict.fromkeys(keys))
        clear = separated(values[[keys.index(key) for key in distinct]], self._seed, looks=len(EVERY))
        return [bool(clear[distinct.index(key)]) for key in keys]


def _shares(batches: int, seed: int) -> list[BatchShare]:
    if batches < FEWEST_BATCHES * EVERY[0]:
        return [BatchShare(tuple(range(batches)), last=True)]
    first = int(np.random.default_rng(seed).integers(EVERY[0]))
    shares: list[BatchShare] = []
    done: set[int] = set()
    for every in EVERY:
        chosen = tuple(index for index in range(batches) if (index - first) % every == 0 and index not in done)
        done.update(chosen)
        shares.append(BatchShare(chosen, last=every == 1))
    return shares


def _by_example(measurements: Sequence[Measurement]) -> Floats:
    """Return the KL divergence of every example, (measurements, examples); NaN where one was not run."""
    sizes = {index: len(outcomes) for measured in measurements for index, outcomes in measured.by_batch.items()}
    rows = [
        np.concatenate([
            measured.by_batch[index].kl if index in measured.by_batch else np.full(size, np.nan)
            for index, size in sorted(sizes.items())
        ])
        for measured in measurements
    ]  # fmt: skip
    return np.array(rows)


def separated(values: Floats, seed: int = 0, *, looks: int = 1) -> Bools:
    """Return for each component whether its rank is clear without more examples, (components,).

    ``values`` are impacts (components, examples), larger meaning more important; NaN where a component was not
    run. A rank is clear when the paired differences to both neighbours in the ranking have intervals without 0,
    each from at least 30 examples. To look ``looks`` times while the examples come in, and stop at the first clear
    result, errs more often than to look once: the level of each interval is 1 - 0.05 / looks (Bonferroni). Both
    neighbours have to differ, which needs no correction of its own.
    """
    level = 1 - (1 - LEVEL) / max(1, looks)
    examples = (~np.isnan(values)).sum(1)
    present = np.flatnonzero(examples)
    order = present[np.argsort(ranks(values)[present], kind="stable")]
    differ = [_differs(values[above] - values[below], level, seed) for above, below in pairwise(order)]
    result = np.zeros(len(values), dtype=bool)
    result[order] = [both[0] and both[1] for both in pairwise([True, *differ, True])][: len(order)]
    clear: Bools = result & (examples >= FEWEST_EXAMPLES)
    return clear


def ranks(values: Floats) -> Floats:
    """Return each component's rank, (components,): 1 for the largest mean. Ties share the mean of their ranks.

    Two components are compared on the examples that both have. One without any example counts in no other's rank,
    and its own means nothing.
    """
    known = ~np.isnan(values)
    # [i, j] is the sum of i over the examples that j has too; each component ties with itself
    sums = np.where(known, values, 0.0) @ known.T.astype(np.float64)
    larger = (sums < sums.T) + 0.5 * (sums == sums.T)
    result: Floats = 0.5 + larger[:, known.any(1)].sum(1)
    return result


def _differs(differences: Floats, level: float, seed: int) -> bool:
    """Return whether the interval of the mean excludes 0; not so where there are too few examples for one."""
    differences = differences[~np.isnan(differences)]
    count = len(differences)
    if count < FEWEST_EXAMPLES:
        return False
    low, high = percentile_interval(bootstrap_weights(count, seed) @ differences / count, level)
    return low > 0 or high < 0
