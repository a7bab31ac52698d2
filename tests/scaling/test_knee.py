"""The knee of tokens per joule: where a law says it must be, and a reason where none can be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.scaling.knee import WORTH, knee_of

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


def saturating(sizes: tuple[int, ...], half: float, width: float = 0.001) -> list[Interval]:
    """Tokens/J of E = E0 + e n with E0 / e = half and e = 1 J."""
    values = [size / (half + size) for size in sizes]
    return [Interval(one, one * (1 - width), one * (1 + width)) for one in values]


@given(st.floats(1.2, 14.0))
def test_the_knee_of_a_saturating_law(half: float) -> None:
    """GIVEN E = E0 + e n THEN the knee is the first size of which a doubling brings less than 10 %: n > 4.5 n_1/2.

    Sizes are doublings, so that the knee is the first of them at 4.5 n_1/2 or above (unless it lies so near to one
    that the intervals include 10 %).
    """
    knee = knee_of(BATCHES, saturating(BATCHES, half), "batch")
    expected = next(size for size in BATCHES if size >= 4.5 * half)
    assert knee.half_at == pytest.approx(half)
    if knee.at is None:
        assert knee.reason is not None
        assert knee.reason.code == "knee-unclear"
    else:
        assert knee.at == expected


def test_the_words_have_the_numbers() -> None:
    """GIVEN a knee THEN its words name it and what the next doubling brings; fixed energy is half at n_1/2."""
    knee = knee_of(BATCHES, saturating(BATCHES, 6.0), "batch")
    assert knee.at == 32
    assert knee.reason is None
    assert knee.words is not None
    assert knee.words == reason("knee", noun="batch", least=1, at=32, factor=224 / 38, gain=6 / 70)
    assert knee.half_at == pytest.approx(6)


def test_two_points_are_too_few() -> None:
    """A knee needs a rise and what follows it: three points."""
    knee = knee_of((1, 8), saturating((1, 8), 1.0), "batch")
    assert (knee.at, knee.reason) == (None, reason("few-sizes", sizes=2, needed=3))


def test_still_rising() -> None:
    """GIVEN tokens/J that rise to the largest size THEN there is no knee, and the reason says the last gain."""
    knee = knee_of((1, 2, 4), saturating((1, 2, 4), 50.0), "batch")
    assert knee.at is None
    assert knee.reason is not None
    assert (knee.reason.code, knee.reason.values["end"]) == ("no-knee-yet", 4)


def test_flat_from_the_start() -> None:
    """GIVEN no doubling that pays, or tokens/J that fall THEN there is no knee among what was measured."""
    for values in ([1.0, 1.01, 1.02], [3.0, 2.0, 1.0]):
        knee = knee_of((256, 512, 1024), [Interval(one, one * 0.99, one * 1.01) for one in values], "context")
        assert knee.at is None
        assert knee.reason is not None
        assert knee.reason.code == "no-gain-from-start"
        assert (knee.reason.values["noun"], knee.reason.values["start"]) == ("context", 256)


def test_intervals_that_overlap() -> None:
    """GIVEN gains with wide intervals THEN the knee cannot be told; GIVEN none, the values decide."""
    wide = knee_of(BATCHES, saturating(BATCHES, 6.0, 0.1), "batch")
    assert wide.at is None
    assert wide.reason is not None
    assert (wide.reason.code, wide.reason.values["start"]) == ("knee-unclear", 16)
    values = [Interval(one.value) for one in saturating(BATCHES, 6.0)]
    assert knee_of(BATCHES, values, "batch").at == 32


def test_gains_are_per_doubling() -> None:
    """GIVEN sizes 1, 8, 64 THEN a gain of 20 % over three doublings is less than 10 % per doubling."""
    assert 1 + WORTH > 1.2 ** (1 / 3)
    values = [Interval(one, one * 0.99, one * 1.01) for one in (1.0, 4.0, 4.8)]
    assert knee_of((1, 8, 64), values, "batch").at == 8


def test_a_dip_is_not_a_knee() -> None:
    """GIVEN a flat stretch before a further rise THEN the knee is after the last rise."""
    values = [Interval(one, one * 0.99, one * 1.01) for one in (1.0, 1.5, 1.5, 2.5, 2.5)]
    assert knee_of((1, 2, 4, 8, 16), values, "batch").at == 8
