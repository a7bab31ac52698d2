"""Means, intervals and drifts of a component's windows."""

from __future__ import annotations

import numpy as np
import pytest

from energyscope.metering.interval import (
    Drift,
    combine,
    drift,
    pooled_correlation,
    spread,
    student_t,
    two_values,
    usual,
    windows_wanted,
)

STEADY = [10.0, 10.02, 9.98, 10.01, 9.99]
RESTLESS = [10.0, 10.3, 9.7, 10.2, 9.8]  # s = 0.2550


def taken_until_sure(deviation, generator, *, target=0.01, limit=14):
    """Draw windows of a component of 1 mJ until the rule is content."""
    values = []
    while len(values) < windows_wanted(values, target=target, limit=limit):
        values.append(float(generator.normal(1.0, deviation)))
    return values


@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.706), (4, 2.776), (30, 2.042), (60, 2.0003), (1000, 1.9623)]
)
def test_student_t(freedom, value):
    """Quantiles agree with published tables."""
    assert student_t(freedom) == pytest.approx(value, abs=2e-3)


def test_student_t_needs_two_windows():
    """One window has no deviation, hence no quantile."""
    with pytest.raises(ValueError, match="two windows"):
        student_t(0)


def test_five_windows_that_agree_are_enough():
    """GIVEN five windows within 0.2 % THEN no more are wanted for a target of 1 %."""
    assert windows_wanted(STEADY, target=0.01, limit=14) == 5


def test_the_spread_of_the_first_windows_sets_the_number():
    """GIVEN s = 2.55 % in five windows WHEN 2 % is the target THEN 13 are wanted: (2.776 x 2.55 / 2)^2 = 12.5."""
    assert windows_wanted(RESTLESS, target=0.02, limit=50) == 13
    assert windows_wanted(RESTLESS, target=0.02, limit=8) == 8


def test_later_windows_do_not_change_the_number():
    """The rule looks at the first windows only: otherwise the interval would not cover as often as it says."""
    assert windows_wanted([*RESTLESS, 10.0, 10.0, 14.0], target=0.02, limit=50) == 13


def test_a_window_without_a_value_is_taken_again():
    """GIVEN two windows without a value THEN the number wanted grows by two, up to the limit."""
    assert windows_wanted([], target=0.01, limit=14) == 5
    assert windows_wanted([None, 10.0], target=0.01, limit=14) == 6
    assert windows_wanted([None, *STEADY, None], target=0.01, limit=14) == 7
    assert windows_wanted([None] * 14, target=0.01, limit=14) == 14


def test_a_mean_of_zero_takes_all_windows_there_are():
    """A relative target means nothing around zero, so the limit decides."""
    assert windows_wanted([1.0, -1.0, 1.0, -1.0, 0.0], target=0.01, limit=14) == 14


def test_few_first_windows():
    """GIVEN that one window is all that was asked for THEN one is wanted, although it has no interval."""
    assert windows_wanted([10.0], target=0.01, limit=9, first=1) == 1
    assert windows_wanted([10.0, 10.01], target=0.01, limit=9, first=2) == 2


@pytest.mark.parametrize("deviation", [0.003, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("known_share", [0.0, 0.5, 1.0])
def test_intervals_cover_the_truth_through_the_rule(deviation, known_share):
    """92 to 98 % of 3,000 intervals cover, however much of the scatter the tick timing explains, limit or not."""
    generator = np.random.default_rng(4)
    floor = known_share * min(deviation, 0.01)
    estimates = [combine(taken_until_sure(deviation, generator), floor=floor) for _ in range(3000)]
    assert 0.92 <= np.mean([estimate.low <= 1.0 <= estimate.high for estimate in estimates]) <= 0.98


def test_the_target_is_reached_where_the_limit_allows():
    """GIVEN 1 % between windows WHEN the limit is far THEN Stein's half-width is within the target."""
    generator = np.random.default_rng(5)
    taken = [taken_until_sure(0.01, generator, limit=100) for _ in range(300)]
    half = [2.776 * np.std(values[:5], ddof=1) / np.sqrt(len(values)) for values in taken]
    assert max(width / np.mean(values[:5]) for width, values in zip(half, taken, strict=True)) <= 0.01 + 1e-9


def test_five_windows_get_the_ordinary_interval():
    """With no more than the first windows, Student's interval is all there is."""
    estimate = combine(RESTLESS)
    half = 2.776 * np.std(RESTLESS, ddof=1) / np.sqrt(5)
    assert (estimate.low, estimate.high) == pytest.approx((10 - half, 10 + half))


def test_windows_that_agree_later_do_not_undo_the_first():
    """GIVEN first windows that set the number WHEN later ones agree by luck THEN the first still set the width."""
    estimate = combine([*RESTLESS, *[10.0] * 8])
    assert estimate.high - estimate.mean == pytest.approx(2.776 * np.std(RESTLESS, ddof=1) / np.sqrt(13))


def test_a_change_after_the_first_windows_widens_the_interval():
    """GIVEN five windows that agree and four that moved by 5 % THEN the interval holds both."""
    estimate = combine([*STEADY, 10.5, 10.5, 10.5, 10.5])
    assert estimate.relative_half_width > 0.015


def test_agreement_by_luck_is_not_sharper_than_the_ticks():
    """GIVEN windows that agree exactly WHEN the timing leaves 1 % open THEN the interval is no point."""
    estimate = combine([10.0] * 5, floor=0.01)
    assert estimate.relative_half_width == pytest.approx(1.645 * 0.01 / np.sqrt(5))
    assert combine([10.0] * 5).relative_half_width == 0


def test_windows_without_a_value_do_not_count():
    """Unknown windows neither pull the mean to zero nor narrow the interval."""
    assert combine([2.0, None, 4.0]).windows == 2
    assert combine([2.0, None, 4.0]).mean == 3.0
    assert combine([None]).mean is None
    assert combine([2.0]).low is None
    assert combine([None]).relative_half_width is None


def test_spread_needs_two_windows():
    """The coefficient of variation is relative to the mean, and unknown for one window."""
    assert spread([9.0, None, 11.0]) == pytest.approx(np.sqrt(2) / 10)
    assert spread([9.0]) is None


def test_a_steady_rise_is_a_significant_drift():
    """GIVEN anchors that rise by 4 % over the run THEN that is found, with an interval without zero."""
    times = np.linspace(100.0, 700.0, 7)
    noise = np.array([0.02, -0.03, 0.01, 0.0, -0.01, 0.03, -0.02])
    trend = drift(times, 100 * (1 + 0.04 * (times - 100) / 600) + noise)
    assert trend.change == pytest.approx(0.04, abs=0.001)
    assert 0 < trend.low < trend.change < trend.high
    assert trend.significant


def test_a_drift_below_one_percent_is_not_significant():
    """However sure it is, a change of 0.5 % is not worth a word."""
    assert not Drift(0.005, 0.004, 0.006).significant
    assert Drift(-0.02, -0.03, -0.01).significant
    assert not Drift(0.02, -0.01, 0.05).significant


def test_the_interval_of_a_drift_covers_no_change():
    """GIVEN anchors without a trend THEN 92 to 98 % of 2,000 intervals hold zero."""
    generator = np.random.default_rng(6)
    times = np.linspace(0.0, 300.0, 6)
    trends = [drift(times, generator.normal(50.0, 0.5, 6)) for _ in range(2000)]
    assert 0.92 <= np.mean([trend.low <= 0 <= trend.high for trend in trends]) <= 0.98


def test_a_drift_needs_three_values_and_time():
    """Two anchors have a difference and no interval; anchors at one time have no trend."""
    assert drift([0.0, 1.0, 2.0], [5.0, None, 6.0]) is None
    assert drift([1.0, 1.0, 1.0], [5.0, 6.0, 7.0]) is None


def session_of(correlation, windows, generator, targets=30):
    """Return windows about 100 with a deviation of 1, each of which resembles the one before."""
    values = generator.standard_normal((targets, windows))
    for number in range(1, windows):
        values[:, number] = correlation * values[:, number - 1] + np.sqrt(1 - correlation**2) * values[:, number]
    return 100 + values


@pytest.mark.parametrize(
    ("correlation", "windows"), [(0.0, 5), (0.3, 5), (0.5, 5), (0.8, 5), (0.5, 12), (0.8, 12)]
)
def test_intervals_cover_where_windows_resemble_the_one_before(correlation, windows):
    """GIVEN sessions of correlated windows THEN with what they tell together, 9 of 10 intervals hold the truth."""
    generator = np.random.default_rng(3)
    covered = []
    for _ in range(40):
        values = session_of(correlation, windows, generator).tolist()
        known = pooled_correlation(values)
        estimates = [combine(own, correlation=known) for own in values]
        covered += [estimate.low <= 100 <= estimate.high for estimate in estimates]
    assert np.mean(covered) >= 0.895  # of 1,200, some 30 of which share their correlation


def test_independent_windows_have_no_correlation():
    """GIVEN independent windows THEN the correlation is 0 in most sessions, and small in the others."""
    generator = np.random.default_rng(4)
    found = [pooled_correlation(session_of(0.0, 5, generator).tolist()) for _ in range(40)]
    assert np.mean([value == 0.0 for value in found]) > 0.7
    assert max(found) < 0.4


def test_a_few_windows_tell_no_correlation():
    """GIVEN three windows a target THEN there is none, and None values are left out."""
    assert pooled_correlation([[1.0, 2.0, 3.0], [1.0, None, 2.0, 3.0]]) == 0.0


def test_two_values_are_named():
    """GIVEN windows at 23.2 and 27.4 THEN both are named; one window apart, or a wide scatter, is none."""
    low, high = two_values([23.2, 27.4, 23.3, 27.3, 23.2])
    assert (low, high) == (pytest.approx(23.23, abs=0.01), pytest.approx(27.35))
    assert two_values([23.2, 23.3, 23.2, 23.1, 27.4]) is None
    assert two_values([23.2, 24.4, 25.1, 26.3, 27.4]) is None
    assert two_values([23.2, 27.4, 23.3, 27.3]) is None


# --- spikes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watts", "spikes"),
    [
        ([120.5, 122.1, 120.2, 120.6, 120.4, 120.2], [1]),  # idle power of an H200, as it was read
        ([119.5, 120.1, 119.5, 120.6, 120.3, 120.4, 120.5, 125.0], [7]),
        ([120.0, 120.1, 119.9, 120.0, 125.0, 125.1], []),  # a change that lasts
        ([100.0, 101.0, 102.0, 103.0, 104.0, 105.0], []),  # a drift
        ([120.0, 120.1, 140.0], []),  # too few to tell
    ],
)
def test_spikes_are_far_from_all_values_around_them(watts, spikes):
    """GIVEN values in turn THEN those that stand alone are no usual ones."""
    assert [place for place, usually in enumerate(usual(watts)) if not usually] == spikes
