"""From the windows of one target to its figures, by examples that were worked out by hand."""

from __future__ import annotations

import pytest

from energyscope.accounting.measured import CallTerm, Measured, Total, measure, quotient, total
from energyscope.accounting.records import IdlePower, any_bits
from energyscope.metering.interval import Estimate
from energyscope.reasons import reason

FIVE = (9.8, 9.9, 10.0, 10.1, 10.2)  # their deviation is 0.15811
HALF = 2.776 * 0.158114 / 5**0.5  # Student's t of 4 degrees of freedom


def entry(number, energy, time_us=50.0, **extra):
    window = {
        "energy_mj": energy, "time_us": time_us, "power_w": 200.0, "naive_mj": 11.0, "ticks": 4, "calls": 1000,
        "seconds": 0.4, "reason": None, **extra.pop("window", {}),
    }  # fmt: skip
    return {"subject": "node:a", "pass": number, "window": window, **extra}


def five(**extra):
    return [entry(number, energy, **extra) for number, energy in enumerate(FIVE)]


def half(estimate):
    return (estimate.high - estimate.low) / 2


# --- the four quantities --------------------------------------------------------------------------------------


def test_energy_is_the_mean_with_students_interval():
    """GIVEN five windows around 10 mJ THEN the half-width is t s / sqrt(5)."""
    figures = measure(five(), None, first=5)
    assert figures.energy.mean == pytest.approx(10.0)
    assert half(figures.energy) == pytest.approx(HALF, rel=1e-4)
    assert (figures.energy.windows, figures.passes, figures.ticks) == (5, 5, 20)


def test_static_is_idle_power_times_time_and_dynamic_the_rest():
    """GIVEN 100 W at idle and 50 us a call THEN 5 mJ are static, window by window, and the rest is dynamic."""
    figures = measure(five(), IdlePower(100.0), first=5)
    assert figures.static.mean == pytest.approx(5.0)
    assert half(figures.static) == pytest.approx(0.0)
    assert figures.dynamic.mean == pytest.approx(5.0)
    assert half(figures.dynamic) == pytest.approx(HALF, rel=1e-4)


def test_an_unknown_error_of_the_idle_power_leaves_no_interval_of_work():
    """GIVEN idle power of unknown error THEN work has a mean and no interval, in sums too; energy has one."""
    figures = measure(five(), IdlePower(100.0, None), first=5)
    assert figures.interval("dynamic").mean == figures.dynamic.mean
    assert figures.interval("dynamic").relative_half_width is None
    assert figures.interval("energy") == figures.energy
    assert total([CallTerm("a", 2.0, figures)], "dynamic").half is None
    assert total([CallTerm("a", 2.0, figures)], "energy").half is not None


def test_the_error_of_the_idle_power_is_common_to_all():
    """GIVEN idle power of 100 +- 2 W THEN it adds linearly to a sum of work, and largely cancels in a share."""
    figures = measure(five(), IdlePower(100.0, 2.0), first=5)
    one, ten = (total([CallTerm("a", calls, figures)], "dynamic") for calls in (1.0, 10.0))
    assert ten.idle == pytest.approx(10 * one.idle)
    assert one.idle == pytest.approx(-2.0 * figures.time.mean / 1e3)
    assert quotient(one, ten).idle == pytest.approx(0.0, abs=1e-12)


def test_times_spread_is_the_static_energys_too():
    """GIVEN times that scatter THEN static energy scatters with them, by idle power."""
    times = (49.0, 49.5, 50.0, 50.5, 51.0)
    entries = [entry(number, 10.0, time_us) for number, time_us in enumerate(times)]
    figures = measure(entries, IdlePower(100.0), first=5)
    assert half(figures.time) == pytest.approx(5 * HALF, rel=1e-4)
    assert half(figures.static) == pytest.approx(5 * HALF * 0.1, rel=1e-4)
    assert half(figures.energy) == pytest.approx(0.0)


def test_unknown_idle_power_leaves_the_split_unknown():
    """Without idle power static and dynamic energy are unknown, not 0 and all."""
    figures = measure(five(), None, first=5)
    assert (figures.static.mean, figures.dynamic.mean) == (None, None)


def test_windows_that_agree_by_luck_are_not_sharper_than_their_ticks():
    """GIVEN five equal windows of 1 % timing error each THEN the half-width is 1.645 x 1 % / sqrt(5)."""
    figures = measure([entry(n, 10.0, window={"timing_share": 0.01}) for n in range(5)], None, first=5)
    assert half(figures.energy) == pytest.approx(1.645 * 0.1 / 5**0.5, rel=1e-4)


def test_the_timing_of_ticks_is_the_dynamic_energys_too():
    """GIVEN that half of the energy is dynamic THEN it is as unsure, in mJ, as the whole."""
    figures = measure([entry(n, 10.0, window={"timing_share": 0.01}) for n in range(5)], IdlePower(100.0), first=5)
    assert half(figures.dynamic) == pytest.approx(half(figures.energy))


def test_later_windows_narrow_the_interval_by_steins_rule():
    """GIVEN five more windows at the mean THEN the first five's deviation still sets the width: t s / sqrt(10)."""
    figures = measure([*five(), *(entry(number, 10.0) for number in range(5, 10))], None, first=5)
    assert half(figures.energy) == pytest.approx(2.776 * 0.158114 / 10**0.5, rel=1e-4)


def test_other_figures_are_means():
    """Power, clock and plain difference are means over the windows; unknown ones are left out."""
    entries = [
        entry(0, 10.0, clock_mhz=1900.0, window={"power_w": 190.0}),
        entry(1, 10.0, clock_mhz=2000.0, window={"power_w": 210.0}),
        entry(2, None, window={"power_w": None, "naive_mj": None, "reason": "too short"}),
    ]
    figures = measure(entries, None, first=5)
    assert (figures.power_w, figures.naive_mj, figures.clock_mhz) == (200.0, 11.0, 1950.0)
    assert (figures.energy.windows, figures.passes, figures.reasons) == (2, 3, ["too short"])


def test_each_devices_energy_is_a_mean_of_its_own():
    """GIVEN windows of two devices THEN each has its mean, unknown ones left out."""
    devices = [[4.0, 6.0], [4.2, None], [4.4, 6.2]]
    figures = measure([entry(n, 10.0, devices=energies) for n, energies in enumerate(devices)], None, first=5)
    assert figures.devices_mj == pytest.approx([4.2, 6.1])
    assert measure(five(), None, first=5).devices_mj == []


@pytest.mark.parametrize(("waited", "bound"), [(0.5, False), (0.01, True), (None, None)])
def test_a_host_that_never_waits_sets_the_pace(waited, bound):
    """Below 2 % of waiting the host is the bottleneck; where waiting is unknown, so is that."""
    assert measure(five(waited_share=waited), None, first=5).host_bound is bound


def test_guards_and_throttle_bits_of_all_windows_are_kept():
    """What spoilt any window is listed once, throttle bits are united."""
    entries = [
        entry(0, 10.0, guard=["hot"], throttle=4),
        entry(1, 10.0, guard=["hot"], throttle=32),
        entry(2, 10.0),
    ]
    figures = measure(entries, None, first=5)
    assert figures.guard == ["hot"]
    assert figures.throttle == 36


# --- what is taken again, what has pauses, what has no window --------------------------------------------------


def test_a_window_taken_again_replaces_the_one_before():
    """The mean is of the later window of a pass, the spread of the first ones, and the number is told."""
    figures = measure([*five(), entry(4, 9.9), entry(4, 10.0), entry(0, 10.0)], None, first=5)
    assert figures.energy.mean == pytest.approx(10.0)
    assert figures.energy.windows == 5
    assert figures.spread == pytest.approx(0.0158114, rel=1e-4)
    assert figures.reasons == [reason("retaken-windows", windows=3)]


def test_the_guard_of_a_replaced_window_does_not_count():
    """GIVEN heat in a window that was replaced THEN the guard is clean."""
    assert measure([entry(0, 12.0, guard=["hot"]), *five()], None, first=5).guard == []


def test_once_there_are_pauses_only_windows_with_them_count():
    """GIVEN windows without pauses before THEN they are neither in the mean nor among those taken again."""
    entries = [entry(0, 7.0), entry(1, 7.0), *five(rest_us=50.0)]
    figures = measure(entries, None, first=5)
    assert figures.energy.mean == pytest.approx(10.0)
    assert figures.reasons == [reason("replayed-with-pauses")]


def test_no_work_is_a_true_zero():
    """GIVEN no work on the device THEN all four are 0 without an interval to speak of, and it says why."""
    figures = measure([{"subject": "node:a", "pass": 0, "empty": True}], IdlePower(100.0), first=5)
    assert figures.empty
    assert {estimate.mean for estimate in (figures.energy, figures.time, figures.static, figures.dynamic)} == {0.0}
    assert figures.reasons == [reason("launches-nothing")]


def test_what_was_refused_is_unknown():
    """GIVEN a refusal THEN nothing is known but its reason; windows that came before it stay, with the reason."""
    refusal = {"subject": "node:a", "pass": 5, "unavailable": "it waits"}
    assert measure([refusal], IdlePower(100.0), first=5) == Measured(reasons=["it waits"])
    figures = measure([*five(), refusal], IdlePower(100.0), first=5)
    assert figures.energy == measure(five(), IdlePower(100.0), first=5).energy
    assert "it waits" in figures.reasons


def test_entries_of_earlier_versions_are_read():
    """GIVEN entries without timing, clocks, guards and waiting THEN what they hold is summarised."""
    figures = measure(five(), IdlePower(100.0), first=5)
    assert (figures.clock_mhz, figures.throttle, figures.waited_share, figures.guard) == (None, None, None, [])


def test_bits_of_nothing_are_unknown():
    """Nothing known gives None, not 0."""
    assert any_bits([None]) is None
    assert any_bits([None, 1, 4]) == 5


# --- sums -----------------------------------------------------------------------------------------------------


def measured(mean_mj, half_mj):
    if half_mj is None:
        return Measured(energy=Estimate(mean_mj, None, None, 1))
    return Measured(energy=Estimate(mean_mj, mean_mj - half_mj, mean_mj + half_mj, 5))


def test_independent_half_widths_add_in_squares():
    """3 calls of 10 +- 1 mJ and 1 of 5 +- 4 mJ are 35 +- 5 mJ."""
    terms = [CallTerm("a", 3.0, measured(10.0, 1.0)), CallTerm("b", 1.0, measured(5.0, 4.0))]
    assert total(terms, "energy") == Total(35.0, 5.0)


def test_half_widths_of_one_measurement_add_up_first():
    """GIVEN two components that share a measurement of 10 +- 1 mJ THEN together they are 20 +- 2 mJ."""
    shared = measured(10.0, 1.0)
    both = total(
        [CallTerm("a", 1.0, shared), CallTerm("a", 1.0, shared), CallTerm("b", 1.0, measured(5.0, 1.5))], "energy"
    )
    assert both == Total(25.0, 2.5)


def test_a_difference_is_as_unsure_as_a_sum():
    """GIVEN a negative number of calls THEN it is subtracted, and its half-width is not; its own cancels."""
    difference = total(
        [CallTerm("a", 1.0, measured(20.0, 3.0)), CallTerm("b", -1.0, measured(12.0, 4.0))], "energy"
    )
    assert difference == Total(8.0, 5.0)
    same = measured(20.0, 3.0)
    assert total([CallTerm("a", 1.0, same), CallTerm("a", -1.0, same)], "energy") == Total(0.0, 0.0)


def test_a_sum_with_an_unknown_part_is_unknown():
    """A part is not the sum: unknown, not measured at all, or of another quantity."""
    known = CallTerm("a", 1.0, measured(10.0, 1.0))
    assert total([known, CallTerm("b", 1.0, None)], "energy") is None
    assert total([known, CallTerm("b", 1.0, Measured())], "energy") is None
    assert total([known], "static") is None


def test_one_part_without_an_interval_leaves_the_sum_without():
    """GIVEN a part of a single window THEN the sum is known and its interval is not."""
    both = total([CallTerm("a", 1.0, measured(10.0, 1.0)), CallTerm("b", 1.0, measured(5.0, None))], "energy")
    assert both == Total(15.0, None)


def test_nothing_adds_up_to_nothing():
    """No terms are 0 without doubt: a parent whose children are all free."""
    assert total([], "energy") == Total(0.0, 0.0)
