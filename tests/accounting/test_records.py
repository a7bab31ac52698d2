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


def test_the_model_is_never_slowed_by_the_cap():
    """How the model runs under the cap is what is measured."""
    before = [entry(MODEL, 0, clock_mhz=1980.0)]
    assert not records.slowed_by_cap(entry(MODEL, 1, clock_mhz=1700.0, throttle=4), before)


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
