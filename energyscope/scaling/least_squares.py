"""Weighted least squares, free or with coefficients that must not be negative, and what is needed of it later."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from energyscope.intervals import Interval
from energyscope.metering.interval import student_t
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason

SINGULAR = 1e-9  # smallest against largest singular value of scaled columns: below it, columns are the same
RIDGE = 1e-12

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Fit:
    """Coefficients of p columns fitted to n values, as plain numbers.

    ``covariance`` is that of the coefficients, with the scale of the residuals in it; None where no value is left
    over to estimate that scale. ``scale`` is the residuals' deviation in units of the deviations given.
    ``leverages`` and ``residuals`` (n,) belong to the values in their order; residuals are in their unit.
    ``active`` says which coefficients were fitted; others are 0, held there by a bound or by an empty column, or
    since their column is a sum of others: then ``separable`` is False.
    """

    coefficients: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...] | None
    scale: float | None
    freedom: int
    leverages: tuple[float, ...]
    residuals: tuple[float, ...]
    active: tuple[bool, ...]
    separable: tuple[bool, ...]

    def value(self, row: Sequence[float]) -> float:
        """Return the fitted value at one row of the design, shape (p,)."""
        return float(sum(feature * by for feature, by in zip(row, self.coefficients, strict=True)))

    def variance(self, row: Sequence[float]) -> float | None:
        """Return the variance of the fitted value at one row; None where it is not known."""
        if self.covariance is None:
            return None
        products = (sum(a * b for a, b in zip(row, line, strict=True)) for line in self.covariance)
        return max(float(sum(a * b for a, b in zip(row, products, strict=True))), 0.0)

    def interval(self, row: Sequence[float], noise: float = 0.0) -> Interval:
        """Return the fitted value with its 95 % interval (Student's t).

        ``noise`` is the deviation of a new measurement there, in the unit of the values and on the footing of the
        deviations given to the fit; 0 for the interval of the line itself.
        """
        variance = self.variance(row)
        if variance is None or self.scale is None:
            return Interval(self.value(row))
        return student_interval(self.value(row), math.sqrt(variance + (self.scale * noise) ** 2), self.freedom)

    def coefficient(self, index: int) -> Interval:
        """Return one coefficient with its 95 % interval; without limits where it was not fitted."""
        if not self.active[index]:
            return Interval(0.0)
        return self.interval([float(column == index) for column in range(len(self.coefficients))])


def student_interval(value: float, deviation: float, freedom: int) -> Interval:
    """Return a value with its 95 % interval of Student's t."""
    half = student_t(freedom) * deviation
    return Interval(value, value - half, value + half)


def weighted(design: Array, values: Array, deviations: Array, active: Bools | None = None) -> Fit | None:
    """Fit ``values`` (n,) by the columns of ``design`` (n, p), each row weighted by 1 / deviation squared.

    The deviations count only against each other: their common scale is taken from the residuals. Columns that
    are not ``active`` (p,) keep the coefficient 0.

    Returns:
        The fit; None for fewer values than columns, or where a column is a sum of others.

    """
    used = np.ones(design.shape[1], dtype=bool) if active is None else active
    rows = design[:, used] / deviations[:, None]
    norms = np.linalg.norm(rows, axis=0)
    freedom = len(values) - rows.shape[1]
    if freedom < 0 or not norms.all():
        return None
    left, singular, right = np.linalg.svd(rows / norms, full_matrices=False)
    if singular.size and singular[-1] < SINGULAR * singular[0]:
        return None
    inverse = (right.T / singular) @ left.T / norms[:, None]  # shape (active, n)
    coefficients = np.zeros(len(used))
    coefficients[used] = inverse @ (values / deviations)
    residuals = values - design @ coefficients
    scale = math.sqrt(float(np.sum((residuals / deviations) ** 2)) / freedom) if freedom else None
    covariance = np.zeros((len(used), len(used)))
    if scale is not None:
        covariance[used[:, None] & used] = (scale**2 * (inverse @ inverse.T)).ravel()
    return Fit(
        coefficients=tuple(coefficients.tolist()),
        covariance=None if scale is None else tuple(tuple(row) for row in covariance.tolist()),
        scale=scale,
        freedom=freedom,
        leverages=tuple(np.sum(left**2, axis=1).tolist()),
        residuals=tuple(residuals.tolist()),
        active=tuple(used.tolist()),
        separable=(True,) * len(used),
    )


def line(amounts: Array, values: Array, deviations: Array) -> Fit | None:
    """Fit a straight line ``values`` = c0 + c1 x ``amounts``, all of shape (n,), as `weighted` does."""
    return weighted(np.column_stack([np.ones(len(amounts)), amounts]), values, deviations)


def non_negative(design: Array, values: Array, deviations: Array) -> Fit | None:
    """Fit as `weighted` does, with coefficients that are 0 or more; None where nothing can be fitted.

    Of columns that are sums of others, the first is left out: give last what matters most.
    """
    rows, filled = design / deviations[:, None], np.any(design != 0, axis=0)
    kept = _separable(rows, filled)
    positive = _positive_columns(rows * kept, values / deviations)
    fit = weighted(design, values, deviations, positive)
    return fit and replace(fit, separable=tuple((kept | ~filled).tolist()))


def _positive_columns(rows: Array, values: Array) -> Bools:
    """Return which columns have a positive coefficient in the non-negative least-squares solution, shape (p,).

    Every set of free columns is tried: with p = 3 that is seven sets, and exact. In a set's system, the columns
    that are held at 0 have the equation x = 0. (C. L. Lawson and R. J. Hanson, Solving Least Squares Problems,
    1974, chapter 23, gives the algorithm for many columns.)
    """
    gram, identity = rows.T @ rows, np.eye(rows.shape[1])
    squares = np.diag(gram)
    norms = np.sqrt(np.where(squares > 0, squares, 1.0))
    gram = gram / norms[:, None] / norms + (RIDGE + (squares == 0)) * identity
    free = _sets(len(squares))
    systems = gram * (free[:, :, None] & free[:, None, :]) + ~free[:, :, None] * identity
    aims = rows.T @ values / norms * free
    solutions = np.linalg.solve(systems, aims[..., None])[..., 0]
    gains = np.where(np.all(solutions >= 0, axis=1), np.sum(solutions * aims, axis=1), 0.0)
    best = int(np.argmax(gains))  # of sets that lower the sum of squares alike, the one with fewer columns
    positive: Bools = (solutions[best] > 0) & (gains[best] > 0)
    return positive


@functools.cache
def _sets(count: int) -> Bools:
    """Return all sets of so many columns but the empty one, the smallest first, shape (sets, columns)."""
    sets = sorted(itertools.product((True, False), repeat=count), key=sum)
    return np.array(sets[1:])


def at_zero(fit: Fit, names: Sequence[str], design: Array) -> list[Reason]:
    """Return a remark for each coefficient that is held at 0, though its column is not empty."""
    filled = np.any(design != 0, axis=0)
    return [
        reason("term-held-at-zero" if separable else "term-not-separable", term=name)
        for name, free, separable, there in zip(names, fit.active, fit.separable, filled, strict=True)
        if there and not free
    ]


def _separable(rows: Array, filled: Bools) -> Bools:
    """Return which of the filled columns (p,) are kept, so that none of them is a sum of others."""
    kept = filled.copy()
    if _rank(rows[:, kept]) == np.count_nonzero(kept):
        return kept
    for index in np.flatnonzero(filled):
        without = kept & (np.arange(len(kept)) != index)
        if _rank(rows[:, without]) == _rank(rows[:, kept]):
            kept = without
    return kept


def _rank(columns: Array) -> int:
    if not columns.shape[1]:
        return 0
    singular = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)
    return int(np.count_nonzero(singular > SINGULAR * singular[0]))
