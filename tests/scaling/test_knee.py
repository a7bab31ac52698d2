"""The knee of tokens per joule: where a law says it must be, and a reason where none can be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from energyscope.intervals import Interval
from energyscope.reasons import Reason, reason
from energyscope.scaling.efficiency import WORTH, Knee, half_size, knee_of

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


def within(values: list[float], width: float = 0.01) -> list[Interval]:
    return [Interval(value, value * (1 - width), value * (1 + width)) for value in values]


def saturating(sizes: tuple[int, ...], half: float, width: float = 0.001) -> list[Interval]:
    """Tokens/J of E = E0 + e n with E0 / e = half and e = 1 J."""
    return within([size / (half + size) for size in sizes], width)


def place_of(knee: Knee | Reason) -> int:
    assert isinstance(knee, Knee)
    return knee.size


@given(st.floats(1.2, 14.0))
def test_the_knee_of_a_saturating_law(half: float) -> None:
    """GIVEN E = E0 + e n THEN the knee is the first size of which a doubling brings less than 10 %: n > 4.5 n_1/2.

    Sizes are doublings, so that the knee is the first of them at 4.5 n_1/2 or above (unless it lies so near to one
    that the intervals include 10 %).
    """
    knee = knee_of(BATCHES, saturating(BATCHES, half), "batch")
    expected = next(size for size in BATCHES if size >= 4.5 * half)
    assert half_size(BATCHES, saturating(BATCHES, half)) == pytest.approx(half)
    if isinstance(knee, Reason):
        assert knee.code == "knee-unclear"
    else:
        assert (knee.size, knee.half_at) == (expected, pytest.approx(half))


def test_the_words_have_the_numbers() -> None:
    """GIVEN a knee THEN its words name it and what the next doubling brings; fixed energy is half at n_1/2."""
    words = reason("knee", noun="batch", least=1, at=32, factor=224 / 38, gain=6 / 70)
    assert knee_of(BATCHES, saturating(BATCHES, 6.0), "batch") == Knee(32, words, pytest.approx(6))


def test_two_points_are_too_few() -> None:
    """A knee needs a rise and what follows it: three points."""
    assert knee_of((1, 8), saturating((1, 8), 1.0), "batch") == reason("few-sizes", sizes=2, needed=3)


@pytest.mark.parametrize(
    ("sizes", "rates", "noun", "code", "place"),
    [
        ((1, 2, 4), saturating((1, 2, 4), 50.0), "batch", "no-knee-yet", {"end": 4}),
        ((256, 512, 1024), within([1.0, 1.01, 1.02]), "context", "no-gain-from-start", {"start": 256}),
        ((256, 512, 1024), within([3.0, 2.0, 1.0]), "context", "no-gain-from-start", {"start": 256}),
        (BATCHES, saturating(BATCHES, 6.0, 0.1), "batch", "knee-unclear", {"start": 16}),
    ],
    ids=["still-rising", "flat", "falling", "overlapping"],
)
def test_no_knee_has_a_reason(
    sizes: tuple[int, ...], rates: list[Interval], noun: str, code: str, place: dict[str, int]
) -> None:
    """GIVEN tokens/J that rise to the end, that no doubling raises, or gains of wide intervals THEN a reason."""
    why = knee_of(sizes, rates, noun)
    assert isinstance(why, Reason)
    assert why.code == code
    assert {"noun": noun, **place}.items() <= dict(why.values).items()


def test_without_intervals_the_values_decide() -> None:
    """GIVEN gains without limits THEN the knee is that of the values."""
    assert place_of(knee_of(BATCHES, [Interval(rate.value) for rate in saturating(BATCHES, 6.0)], "batch")) == 32


def test_gains_are_per_doubling() -> None:
    """GIVEN sizes 1, 8, 64 THEN a gain of 20 % over three doublings is less than 10 % per doubling."""
    assert 1 + WORTH > 1.2 ** (1 / 3)
    assert place_of(knee_of((1, 8, 64), within([1.0, 4.0, 4.8]), "batch")) == 8


def test_a_dip_is_not_a_knee() -> None:
    """GIVEN a flat stretch before a further rise THEN the knee is after the last rise."""
    assert place_of(knee_of((1, 2, 4, 8, 16), within([1.0, 1.5, 1.5, 2.5, 2.5]), "batch")) == 8
