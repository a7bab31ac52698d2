"""Measured values with their intervals, and resamples of both the points and their errors. Pure.

Each resample draws the points anew (which components there are) and each point's values anew (what the
measurement could have been). A value is redrawn from a normal on each side, half of the draws on each: their 2.5,
50 and 97.5 % points are the interval's lower end, the value and its upper end, so that asymmetric intervals
(percentile bootstrap) stay asymmetric. Errors are taken as independent between components. Those of impacts
measured on the same examples mostly are not: they rise and fall together, which changes ranks less than
independent errors do, so that rank intervals are wide rather than narrow.

Points come in kinds, and those of one kind are alike: 12 MLPs are not 12 independent observations. Where several
kinds are pooled a resample therefore draws as many kinds as there are, with replacement, and then from each kind
drawn as many of its points as it has, with replacement (two-stage cluster bootstrap, Davison and Hinkley 1997,
section 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from energyscope.correlation.coefficients import Ints, Method, coefficient
from energyscope.impact.metrics import RESAMPLES, Floats, percentile_interval

NORMAL_95 = 1.959963984540054  # half-width of a 95 % interval in standard deviations


@dataclass(frozen=True)
class UncertainValues:
    """Values (n,) with the standard deviations of their errors below and above; 0 where none is known."""

    values: Floats
    below: Floats
    above: Floats

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, chosen: Ints | npt.NDArray[np.bool_]) -> UncertainValues:
        return UncertainValues(self.values[chosen], self.below[chosen], self.above[chosen])

    @property
    def exact(self) -> bool:
        """Whether no value has an error that is known."""
        return not (self.below.any() or self.above.any())

    def redrawn(self, rows: int, seed: Sequence[int]) -> Floats:
        """Return values that the measurement could have given, (rows, n)."""
        if self.exact:
            return np.tile(self.values, (rows, 1))
        errors = np.random.default_rng(seed).standard_normal((rows, len(self)))
        result: Floats = self.values + errors * np.where(errors < 0, self.below, self.above)
        return result


def axis(
    values: npt.ArrayLike, low: npt.ArrayLike | None = None, high: npt.ArrayLike | None = None
) -> UncertainValues:
    """Make an axis of values and the ends of their 95 % intervals, (n,); NaN where an end is not known."""
    centre = np.asarray(values, np.float64)
    unknown = np.full(centre.shape, np.nan)
    ends = [unknown if end is None else np.asarray(end, np.float64) for end in (low, high)]
    below, above = (centre - ends[0]) / NORMAL_95, (ends[1] - centre) / NORMAL_95
    known = np.isfinite(below) & np.isfinite(above)
    return UncertainValues(centre, *(np.where(known, np.maximum(error, 0.0), 0.0) for error in (below, above)))


class Resamples:
    """Draws of ``count`` points, within strata or by clusters where given; the same seed gives the same draws.

    ``strata`` numbers the stratum of each point, (n,), in ascending order. ``clusters`` numbers its cluster,
    (n,), in any order: clusters are drawn first, so that rows differ in length and only `coefficients` works.
    ``take`` redraws an axis and takes the points drawn; ``keep`` redraws the
    same values and takes every point once.
    """

    def __init__(
        self,
        count: int,
        seed: int = 0,
        strata: Ints | None = None,
        rows: int = RESAMPLES,
        clusters: Ints | None = None,
    ) -> None:
        self.rows = rows
        self._seed = (seed, count)
        self._groups: list[tuple[Ints, Ints]] | None = None
        if clusters is not None:
            self._groups = _drawn_clusters(clusters, rows, self._seed)
            return
        places = np.random.default_rng(self._seed).random((rows, count))
        numbers = np.zeros(count, np.int64) if strata is None else strata
        start, size = np.searchsorted(numbers, numbers), np.bincount(numbers)[numbers]
        self.chosen: Ints = start + np.floor(places * size).astype(np.int64)

    def keep(self, values: UncertainValues, stream: int) -> Floats:
        """Return the axis redrawn, (rows, n); ``stream`` tells the axes of one analysis apart."""
        return values.redrawn(self.rows, (*self._seed, stream + 1))

    def take(self, values: UncertainValues, stream: int) -> Floats:
        """Return the axis redrawn and the points drawn of it, (rows, n)."""
        return np.take_along_axis(self.keep(values, stream), self.chosen, axis=1)

    def coefficients(
        self,
        x: UncertainValues,
        y: UncertainValues,
        method: Method,
        strata: Ints | None = None,
        streams: tuple[int, int] = (0, 1),
    ) -> Floats:
        """Return the coefficient of each resample, (rows,); NaN where an axis is constant in it."""
        if self._groups is None:
            return coefficient(self.take(x, streams[0]), self.take(y, streams[1]), method, strata)
        redrawn = [self.keep(values, stream) for values, stream in zip((x, y), streams, strict=True)]
        result = np.empty(self.rows)
        for rows, chosen in self._groups:
            drawn_x, drawn_y = (np.take_along_axis(values[rows], chosen, axis=1) for values in redrawn)
            result[rows] = coefficient(drawn_x, drawn_y, method)
        return result


def clusters_of(kinds: Sequence[str] | None) -> Ints | None:
    """Return the number of each point's kind, (n,); None where points are their own clusters.

    That is so where all are of one kind, or each is of its own.
    """
    if kinds is None or len(set(kinds)) in (0, 1, len(kinds)):
        return None
    return np.unique(np.asarray(kinds, str), return_inverse=True)[1].astype(np.int64)


def _drawn_clusters(clusters: Ints, rows: int, seed: Sequence[int]) -> list[tuple[Ints, Ints]]:
    """Return the resamples by their length: which rows have it, (m,), and the points drawn, (m, length)."""
    rng = np.random.default_rng(seed)
    order, size = np.argsort(clusters, kind="stable"), np.bincount(clusters)
    drawn = rng.integers(0, len(size), (rows, len(size)))
    sizes, first = size[drawn].ravel(), (np.cumsum(size) - size)[drawn].ravel()
    places = np.floor(rng.random(int(sizes.sum())) * np.repeat(sizes, sizes)).astype(np.int64)
    points = order[np.repeat(first, sizes) + places]
    lengths = size[drawn].sum(1)
    starts = np.cumsum(lengths) - lengths
    return [
        (rows_of_length, points[starts[rows_of_length][:, None] + np.arange(length)])
        for length in np.unique(lengths)
        for rows_of_length in [np.flatnonzero(lengths == length)]
    ]


def interval_of(value: float, both: Floats, alone: Floats | None) -> tuple[float, float] | None:
    """Return the 95 % interval of a coefficient, or None where most resamples have none.

    ``both`` are its draws with other points and other errors, ``alone`` with other errors only (None where
    there are none). The measured values hold their errors already; to redraw them adds errors a second time, and
    pulls coefficients towards 0. So the draws are shifted back by the shift that the errors alone cause.
    """
    finite = both[np.isfinite(both)]
    if len(finite) < len(both) / 2:
        return None
    if alone is not None and np.isfinite(alone).any():
        finite = np.clip(finite + value - float(np.nanmedian(alone)), -1.0, 1.0)
    return percentile_interval(finite)
