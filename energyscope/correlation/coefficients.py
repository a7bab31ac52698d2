"""Pearson, Spearman and Kendall coefficients of many samples at once, also within strata. Pure numpy.

Samples are the rows of two arrays, (rows, n); what cannot be computed is NaN. With ``strata``, the number of
each column's stratum (n,), only differences within a stratum count: values or ranks are centred within it, and
Kendall's pairs are those of one stratum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from energyscope.impact.metrics import Floats

Method = Literal["pearson", "spearman", "kendall"]
Ints = npt.NDArray[np.int64]

METHODS: tuple[Method, ...] = ("pearson", "spearman", "kendall")
PIECE = 500_000  # elements worked on at once: they and their temporaries stay in the processor's caches


def coefficient(x: Floats, y: Floats, method: Method, strata: Ints | None = None) -> Floats:
    """Return the coefficient of each row, (rows,); NaN where a row is constant on an axis."""
    return _in_pieces(partial(_coefficient, method=method, strata=strata), x, y)


def statistic(x: Floats, y: Floats, orders: Ints, method: Method, strata: Ints | None = None) -> Floats:
    """Return the part of the coefficient that permuting ``y`` (within strata) changes, (rows,).

    That is its numerator: the denominators depend on each axis alone, and a permutation keeps them. ``x`` and
    ``y`` are (n,); each row of ``orders`` (rows, n) is a permutation of ``y``.
    """
    if method == "kendall":
        return _in_pieces(lambda x, y: kendall_parts(x, y, strata)[0], np.broadcast_to(x, orders.shape), y[orders])
    if method == "spearman":
        x, y = average_ranks(np.stack([x, y]))
    numerators: Floats = _centred(_scaled(y[orders]), strata) @ _centred(_scaled(x[None]), strata)[0]
    return numerators


def average_ranks(values: Floats) -> Floats:
    """Return the rank of each value within its row, from 1, (rows, n); ties share their mean rank."""
    order, first, last = _ties(values)
    result = np.empty(values.shape)
    np.put_along_axis(result, order, (first + last) / 2 + 1, axis=1)
    return result


def kendall_parts(x: Floats, y: Floats, strata: Ints | None = None) -> tuple[Floats, Floats, Floats]:
    """Return concordant minus discordant pairs, and the pairs that differ in x and in y; each (rows,).

    Pairs are counted by sorting instead of one by one (Knight 1966): where rows are sorted by x and then by y,
    the discordant pairs are the inversions of y.
    """
    counted = [_kendall_of(x[:, columns], y[:, columns]) for columns in _members(strata, x.shape[1])]
    difference, in_x, in_y = (np.sum(part, axis=0) for part in zip(*counted, strict=True))
    return difference, in_x, in_y


def _in_pieces(function: Callable[[Floats, Floats], Floats], x: Floats, y: Floats) -> Floats:
    rows = max(1, PIECE // max(1, x.shape[1]))
    starts = range(0, len(x), rows)
    pieces = [function(x[start : start + rows], y[start : start + rows]) for start in starts]
    return np.concatenate(pieces) if pieces else np.empty(0)


def _coefficient(x: Floats, y: Floats, method: Method, strata: Ints | None) -> Floats:
    if method == "kendall":
        difference, in_x, in_y = kendall_parts(x, y, strata)
        return _ratio(difference, np.sqrt(in_x * in_y))
    if method == "spearman":
        x, y = average_ranks(x), average_ranks(y)
    x, y = _centred(_scaled(x), strata), _centred(_scaled(y), strata)
    return _ratio((x * y).sum(1), np.sqrt((x * x).sum(1) * (y * y).sum(1)))


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    result = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=result, where=denominator > 0)
    clipped: Floats = np.clip(result, -1.0, 1.0)
    return clipped


def _scaled(rows: Floats) -> Floats:
    """Bring each row to 0 to 1, by what a permutation keeps: squares of small energies would vanish otherwise."""
    shifted = rows - rows.min(1, keepdims=True)  # exact for constants, which a mean is not
    largest = shifted.max(1, keepdims=True)
    result: Floats = np.divide(shifted, largest, out=np.zeros_like(shifted), where=largest > 0)
    return result


def _centred(rows: Floats, strata: Ints | None) -> Floats:
    result = np.empty_like(rows)
    for columns in _members(strata, rows.shape[1]):
        part = rows[:, columns]
        same = (part == part[:, :1]).all(1, keepdims=True)
        result[:, columns] = np.where(same, 0.0, part - part.mean(1, keepdims=True))
    return result


def _members(strata: Ints | None, count: int) -> Iterator[Ints]:
    if strata is None:
        yield np.arange(count)
    else:
        for stratum in np.unique(strata):
            yield np.flatnonzero(strata == stratum)


def _ties(values: Floats | Ints) -> tuple[Ints, Ints, Ints]:
    """Return the order that sorts each row, and for each place in it the first and last place of its equals."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    places = np.arange(values.shape[1])
    new = np.ones(values.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    ends = np.ones(values.shape, bool)
    ends[:, :-1] = new[:, 1:]
    last = np.minimum.accumulate(np.where(ends, places, len(places))[:, ::-1], axis=1)[:, ::-1]
    return order, first, last


def _kendall_of(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    count = x.shape[1]
    rank_x, tied_x = _least_ranks(x)
    rank_y, tied_y = _least_ranks(y)
    both = np.sort(rank_x * count + rank_y, axis=1)
    _, first, _ = _ties(both)
    tied_both = (np.arange(count) - first).sum(1)
    pairs = count * (count - 1) // 2
    discordant = _inversions(both % count, count)
    difference = pairs - tied_x - tied_y + tied_both - 2 * discordant
    return difference.astype(float), (pairs - tied_x).astype(float), (pairs - tied_y).astype(float)


def _least_ranks(values: Floats) -> tuple[Ints, Ints]:
    """Return ranks from 0, ties with the least of theirs, (rows, n), and the number of tied pairs, (rows,)."""
    order, first, _ = _ties(values)
    ranks = np.empty(values.shape, np.int64)
    np.put_along_axis(ranks, order, first, axis=1)
    return ranks, (np.arange(values.shape[1]) - first).sum(1)


def _inversions(ranks: Ints, count: int) -> Ints:
    """Count the pairs of each row in which the former is larger, bit by bit from the highest.

    Two numbers compare as the highest bit in which they differ: among those with the same higher bits, in
    their original order, an inversion is a 1 before a 0.
    """
    inversions = np.zeros(len(ranks), np.int64)
    for bit in reversed(range(max(1, count - 1).bit_length())):
        group = ranks >> (bit + 1)
        ones = (ranks >> bit) & 1
        before = np.cumsum(ones, axis=1) - ones
        start = np.ones(ranks.shape, bool)
        start[:, 1:] = group[:, 1:] != group[:, :-1]
        before_group = np.maximum.accumulate(np.where(start, before, 0), axis=1)
        inversions += ((1 - ones) * (before - before_group)).sum(1)
        order = np.argsort((ranks >> bit).astype(np.uint16 if count <= 2**16 else np.int64), axis=1, kind="stable")
        ranks = np.take_along_axis(ranks, order, axis=1)
    return inversions
