"""What a profile's journal says: stalls, other users of the device, contamination, idle power, passes."""

from __future__ import annotations

import pytest

from energyscope.accounting import records
from energyscope.reasons import reason

MODEL = records.MODEL


def entry(target, number, time_us=100.0, energy_mj=10.0, **extra):
    window = {"time_us": time_us, "energy_mj": energy_mj, "reason": None, "seconds": 0.4}
    return {"subject": target, "pass": number, "window": window, **extra}


def idle(number, *others, watts=100.0):
    return {"pass": number, "idle_w": watts, "bystanders": list(others)}


# --- the board ------------------------------------------------------------------------------------------------


def test_the_boards_states_become_one():
    """Clocks are averaged, the highest temperature and the lowest limit count, throttle bits are united."""
    states = [
        {"sm_clock_mhz": 1900, "temperature_c": 50, "power_limit_w": 700.0, "throttle": 4},
        {"sm_clock_mhz": 2000, "temperature_c": 60, "power_limit_w": 600.0, "throttle": 1},
        {"sm_clock_mhz": None, "temperature_c": None, "power_limit_w": None, "throttle": None},
    ]
    expected = {"clock_mhz": 1950.0, "temperature_c": 60, "power_limit_w": 600.0, "throttle": 5}
    assert records.board(states) == expected


def test_a_board_that_says_nothing_is_unknown():
    """GIVEN no states, or none that answered, THEN all is None: no throttling is not 'did not throttle'."""
    unknown = dict.fromkeys(("clock_mhz", "temperature_c", "power_limit_w", "throttle"))
    assert records.board([]) == unknown
    assert records.board([{"after_s": 1.0, "throttle": None}]) == unknown


@pytest.mark.parametrize(
    ("bits", "spoilt"), [(0, 0), (None, 0), (0x04, 0), (0x01, 0), (0x20, 1), (0x40, 1), (0x88, 1)]
)
def test_heat_spoils_a_window_and_the_power_cap_does_not(bits, spoilt):
    """Thermal and hardware slow-down count, also among other bits; idling, the cap and silence do not."""
    assert len(records.contamination(entry("a", 0, throttle=bits), [])) == spoilt


def test_a_power_limit_that_is_not_the_first_one_spoils_a_window():
    """The limit of the profile's first window is the reference; windows before it without one are passed over."""
    before = [idle(0), entry("a", 0, power_limit_w=None), entry("a", 0, power_limit_w=700.0)]
    assert records.contamination(entry("b", 1, power_limit_w=700.0), before) == []
    assert records.contamination(entry("b", 1, power_limit_w=None), before) == []
    (problem,) = records.contamination(entry("b", 1, power_limit_w=500.0), before)
    assert problem == reason("power-limit-changed", before_w=700.0, now_w=500.0)


def test_a_window_is_worth_taking_again_unless_a_new_power_limit_stays():
    """GIVEN a limit that the window before had too THEN again is of no use, unless something else spoilt it."""
    changed = str(reason("power-limit-changed", before_w=700.0, now_w=600.0))  # as a journal has it
    first, second = (entry("a", number, power_limit_w=600.0, guard=[changed]) for number in (0, 1))
    assert not records.should_retake(entry("a", 0, guard=[]), [])
    assert records.should_retake(first, [idle(0), entry("b", 0, power_limit_w=700.0)])
    assert not records.should_retake(second, [first, idle(1)])
    assert records.should_retake({**second, "guard": [changed, "counter-reset"]}, [first])


def test_a_counter_at_fault_spoils_a_window():
    """GIVEN a window without a value THEN its reason is what spoilt it."""
    spoilt = entry("a", 0, energy_mj=None)
    spoilt["window"]["reason"] = "counter-reset"
    assert records.contamination(spoilt, []) == [reason("counter-reset")]


# --- the power cap --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock", "bits", "slowed"),
    [
        (1950.0, 4, True),
        (1965.0, 4, False),
        (1950.0, 0, False),
        (1950.0, None, False),
        (None, 4, False),
        (2100.0, 4, False),
    ],
)
def test_slowed_by_the_cap_is_more_than_one_percent_below_the_model(clock, bits, slowed):
    """GIVEN a model at 1980 MHz THEN below 1960 MHz, and only with the cap's bit, a window was slowed."""
    before = [entry(MODEL, 0, clock_mhz=1980.0)]
    assert records.slowed_by_cap(entry("a", 0, clock_mhz=clock, throttle=bits), before) is slowed


def test_the_models_latest_clock_counts():
    """GIVEN a model that slowed down too THEN its latest window is the measure; without one there is none."""
    before = [
        entry(MODEL, 0, clock_mhz=1980.0),
        entry(MODEL, 1, clock_mhz=1900.0),
        entry(MODEL, 2, clock_mhz=None),
    ]
    window = entry("a", 2, clock_mhz=1895.0, throttle=4)
    assert not records.slowed_by_cap(window, before)
    assert not records.slowed_by_cap(window, [])


@pytest.mark.parametrize("subject", [MODEL, f"{records.APPLIED}plan"])
def test_a_whole_model_is_never_slowed_by_the_cap(subject):
    """How the model runs under the cap, as it is or with a plan applied, is what is measured."""
    before = [entry(MODEL, 0, clock_mhz=1980.0)]
    assert not records.slowed_by_cap(entry(subject, 1, clock_mhz=1700.0, throttle=4), before)


def test_the_power_limit_is_reached_where_most_windows_show_it():
    """GIVEN the bit of the load before in one window of three THEN the target is not at the limit."""
    assert records.at_power_limit([{"throttle": 4}, {"throttle": 0}, {"throttle": 0}]) is False
    assert records.at_power_limit([{"throttle": 4}, {"throttle": 5}, {"throttle": 0}]) is True
    assert records.at_power_limit([{"throttle": None}, {}]) is None


def test_a_window_without_a_time_or_without_work_is_not_slowed():
    """A pause cannot be set by a time that is unknown."""
    before = [entry(MODEL, 0, clock_mhz=1980.0)]
    assert not records.slowed_by_cap(entry("a", 0, None, None, clock_mhz=1700.0, throttle=4), before)
    assert not records.slowed_by_cap({"subject": "a", "pass": 0, "empty": True}, before)


# --- windows --------------------------------------------------------------------------------------------------


def test_once_there_are_pauses_only_windows_with_them_count():
    """GIVEN a target that was given pauses THEN its windows without are passed over, others' are not."""
    paused = entry("a", 1, rest_us=50.0)
    other = entry("b", 0)
    assert list(records.windows([entry("a", 0), idle(1), other, paused])) == [other, paused]


def test_energies_are_by_pass_and_the_last_of_a_pass_counts():
    """A window taken again replaces the one before it, wherever it stands in the journal; None stays None."""
    entries = [
        entry("a", 1, energy_mj=11.0),
        entry("a", 0),
        entry("a", 2, energy_mj=None),
        entry("a", 1, energy_mj=12.0),
    ]
    assert records.energies(entries) == {"a": [10.0, 12.0, None]}


def test_seconds_are_those_of_an_ordinary_window():
    """GIVEN one window that stalled THEN the target's budget is counted in the others' seconds."""
    entries = [entry("a", number) for number in range(5)]
    entries[2]["window"]["seconds"] = 3.0
    assert records.seconds(entries) == {"a": 0.4}


def test_stalled_windows_are_found_slowest_first():
    """Windows over 25 % slower than their target's median are taken again, the slowest first, up to a limit."""
    entries = [entry("a", number, time_us) for number, time_us in enumerate((100, 101, 100, 130, 104))]
    entries += [entry("b", number, time_us) for number, time_us in enumerate((50, 50, 50, 51, 70))]
    assert records.stalled_windows(entries, limit=10) == [("b", 4), ("a", 3)]
    assert records.stalled_windows(entries[:3] + entries[4:], limit=10) == [("b", 4)]
    assert records.stalled_windows(entries, limit=1) == [("b", 4)]
    assert records.stalled_windows(entries, limit=0) == []


def test_windows_too_fast_by_as_much_are_treated_alike():
    """GIVEN a window at 1 / 1.3 of its target's median THEN it is taken again like one at 1.3 times."""
    times = (100.0, 101.0, 100.0, 100.0 / 1.3, 104.0)
    entries = [entry("a", number, time_us) for number, time_us in enumerate(times)]
    assert records.stalled_windows(entries, limit=10) == [("a", 3)]


# --- two speeds -----------------------------------------------------------------------------------------------

MAIN, OTHER = [229.0, 228.6], [193.1, 193.0]


def test_windows_in_the_devices_other_state_are_left_out():
    """GIVEN a target in both states THEN windows of the main one count, and both speeds are named."""
    entries = [entry("a", number, 929.0, canary_us=MAIN) for number in range(4)]
    entries += [entry("a", 4, 821.0, canary_us=OTHER), entry("b", 0, 50.0, canary_us=MAIN)]
    left, notes = records.at_main_speed(entries)
    assert [kept["pass"] for kept in left if kept["subject"] == "a"] == [0, 1, 2, 3]
    assert notes == {"a": [reason("two-speeds", us=929.0, other_us=821.0)]}
    assert records.windows_at_other_speed(entries) == [("a", 4)]


def test_a_target_in_the_other_state_only_is_kept_and_says_so():
    """GIVEN a target that was never seen in the main state THEN its windows stay, with that reason."""
    entries = [entry("a", number, 929.0, canary_us=MAIN) for number in range(4)]
    entries += [entry("b", 0, 50.0, canary_us=OTHER)]
    left, notes = records.at_main_speed(entries)
    assert left == entries
    assert notes == {"b": [reason("other-speed")]}


def test_a_window_in_which_the_state_changed_is_in_neither():
    """GIVEN a canary that was fast before and slow after a window THEN it is not one of the main state."""
    entries = [entry("a", number, 929.0, canary_us=MAIN) for number in range(4)]
    entries += [entry("a", 4, 870.0, canary_us=[MAIN[0], OTHER[0]])]
    assert records.windows_at_other_speed(entries) == [("a", 4)]


def test_a_window_that_was_taken_again_at_the_main_speed_is_none():
    """GIVEN a window at the other speed and its replacement THEN nothing is left to be taken again."""
    entries = [entry("a", 4, 821.0, canary_us=OTHER)]
    entries += [entry("a", number, 929.0, canary_us=MAIN) for number in range(5)]
    assert records.windows_at_other_speed(entries) == []


def test_without_a_canary_all_windows_count():
    """GIVEN eager execution, which has none THEN nothing is left out."""
    entries = [entry("a", number, 100.0 * (1 + number)) for number in range(4)]
    assert records.at_main_speed(entries) == (entries, {})


# --- idle power and settling ----------------------------------------------------------------------------------


def test_idle_power_is_that_around_a_pass():
    """GIVEN idle power before each of five passes and after the last THEN a pass has the mean of its two."""
    found = records.idle_of(
        [idle(number, watts=watts) for number, watts in enumerate((100, 102, 104, 104, 102, 100))]
    )
    assert found.during(0) == 101.0
    assert found.during(2) == 104.0
    assert found.mean_w == 102.0
    assert found.half_w == pytest.approx(2.776 * 1.673 / 6**0.5, rel=0.001)
    assert found.change is None


def test_two_values_of_idle_power_do_not_tell_their_error():
    """GIVEN one pass, with idle power before and after it THEN its mean is known and its error is not."""
    found = records.idle_of([idle(0, watts=100.0), idle(1, watts=101.0)])
    assert (found.mean_w, found.half_w) == (100.5, None)


def test_a_spike_of_idle_power_is_left_out():
    """GIVEN one idle time of 5 W more than all others THEN neither the mean nor its error has it."""
    watts = [100.0, 100.2, 105.0, 99.9, 100.1]
    found = records.idle_of([idle(number, watts=value) for number, value in enumerate(watts)])
    assert (found.mean_w, list(found.by_pass)) == (pytest.approx(100.05), [0, 1, 3, 4])
    assert found.half_w < 0.3


def test_the_device_sets_the_pace_where_the_host_waits_for_it():
    """GIVEN the model's latest window THEN a host that waits says so; without a window it is not known."""
    waiting = [entry(MODEL, number, waited_share=share) for number, share in enumerate((0.0, 0.6))]
    assert records.device_paced(waiting)
    assert not records.device_paced(waiting[:1])
    assert not records.device_paced([])
    assert not records.device_paced([entry(MODEL, 0)])


def test_a_change_of_idle_power_is_flagged():
    """GIVEN idle power that rises by 5 % during a run THEN the run says so; a scatter of 1 % is no change."""
    rising = [idle(number, watts=100.0 + number) for number in range(6)]
    assert [note.code for note in records.notes(rising)] == ["idle-changed"]
    assert records.idle_of(rising).change == pytest.approx(0.049, abs=0.001)
    assert records.notes([idle(number, watts=100.0 + number % 2) for number in range(6)]) == []


def test_power_that_does_not_settle_shows_in_many_windows():
    """GIVEN 20 windows in which power falls by about 1 % THEN that is found; a scatter about 0 is not."""

    def trends(mean):
        entries = [entry("a", number) for number in range(20)]
        for one in entries:
            one["window"]["power_trend"] = mean + 0.004 * (-1) ** one["pass"]
        return entries

    assert records.trend(trends(-0.01)) == pytest.approx(-0.01)
    assert records.trend(trends(0.0)) is None
    assert records.trend(trends(-0.01)[:5]) is None


def test_a_stall_that_was_taken_again_is_none():
    """GIVEN a stalled window and its replacement THEN nothing is left to be taken again, and None is no stall."""
    entries = [entry("a", number) for number in range(5)]
    again = [entry("a", 2, 900.0), *entries, entry("a", 5, None, None)]
    assert records.stalled_windows(again, limit=10) == []


# --- other users ----------------------------------------------------------------------------------------------


def test_other_users_are_listed_once():
    """Bystanders of several passes are named once."""
    assert records.bystanders_of([idle(0, "process 7"), entry("a", 0), idle(1, "process 7")]) == ["process 7"]


def test_a_window_is_beside_the_idle_times_before_and_after_it():
    """GIVEN a user in one idle time THEN the windows since the one before and until the next are beside it."""
    first, second, third, last = (entry("a", number) for number in range(4))
    entries = [idle(0), first, idle(1, "x"), second, idle(2, "y"), third, idle(3), last]
    pairs = [(window["pass"], others) for window, others in records.beside_bystanders(entries)]
    assert pairs == [(0, ["x"]), (1, ["x", "y"]), (2, ["y"]), (3, [])]


def test_windows_after_the_last_idle_time_are_judged_by_it():
    """GIVEN an interrupted pass THEN its windows are beside whoever was seen before it."""
    entries = [idle(0, "x"), entry("a", 0), entry("b", 0)]
    assert [others for _, others in records.beside_bystanders(entries)] == [["x"], ["x"]]
    assert records.contaminated_windows(entries) == [("a", 0), ("b", 0)]


def test_contaminated_windows_are_named_once():
    """GIVEN a window that was taken twice beside a user THEN it is to be taken again once."""
    assert records.contaminated_windows([idle(0, "x"), entry("a", 0), entry("a", 0), idle(1)]) == [("a", 0)]
    assert records.contaminated_windows([idle(0), entry("a", 0), idle(1)]) == []


# --- idle power and passes -------------------------------------------------------------------------------------


def test_idle_power_is_the_mean_of_the_quiet_times():
    """GIVEN a time in which somebody else drew power THEN it is not the board's; unless there is no other."""
    noisy = idle(1, "x", watts=300.0)
    assert records.idle_power([idle(0), noisy, idle(2, watts=110.0)]) == 105.0
    assert records.idle_power([noisy]) == 300.0
    assert records.idle_power([entry("a", 0), idle(0, watts=None)]) is None


def test_passes_are_their_idle_power_and_their_anchor():
    """Each pass has its idle power and the model's energy, None where one of them is missing."""
    anchor = entry(MODEL, 0, begin_s=5.0, clock_mhz=1980.0, temperature_c=55)
    entries = [
        {"header": {}},
        idle(0),
        anchor,
        entry("a", 0),
        entry("a", 1),
        {"subject": "b", "pass": 1, "unavailable": "no"},
    ]
    first, second = records.passes_of(entries)
    assert first == {
        "index": 0, "idle_w": 100.0, "anchor_mj": 10.0, "begin_s": 5.0, "clock_mhz": 1980.0, "temperature_c": 55
    }  # fmt: skip
    assert (second["index"], second["idle_w"], second["anchor_mj"]) == (1, None, None)
