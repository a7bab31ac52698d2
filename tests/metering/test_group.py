"""Several devices: meters start and stop together, energies are summed and listed, and pauses subtracted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from energyscope.errors import MeterError
from energyscope.metering.group import MeterGroup, subtract_window, sum_windows
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.window import Window, estimate_window
from energyscope.reasons import reason
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu, SimulatedSensor

ONE = Window(10.0, 50.0, 200.0, 11.0, 4, 1000, 0.4, timing_share=0.03, power_spread=0.01)
TWO = Window(20.0, 54.0, 370.0, 19.0, 6, 1000, 0.4, timing_share=0.02, power_spread=0.01)
UNKNOWN = Window(None, None, None, None, 1, 1000, 0.4, reason("few-ticks", ticks=1, seconds=0.4))


class Recorder(ModelledMeter):
    """A meter that notes when it is started and stopped, and may fail to start or to stop."""

    def __init__(self, name, events, *, broken=""):
        super().__init__(100.0)
        self.device, self._events, self._broken = name, events, broken

    def __enter__(self):
        if self._broken == "start":
            raise MeterError(f"{self.device} is lost")
        self._events.append(f"start {self.device}")
        return self

    def __exit__(self, *error):
        self._events.append(f"stop {self.device}")
        if self._broken == "stop":
            raise MeterError(f"{self.device} did not stop")

    def bystanders(self, own_bytes=None):
        return [f"{own_bytes} bytes are ours"]


def simulated(device, watts):
    """Return a GPU of some power, whose replay has run, and what was replayed."""
    gpu = SimulatedGpu(SimulatedSensor(period_s=0.05), SimulatedBoard(idle_w=50))
    gpu.device = device
    gpu.sleep(1.0)
    return gpu, gpu.run([SimulatedCall(watts * 50e-3, 50.0)], 0.5)


# --- starting and stopping ------------------------------------------------------------------------------------


def test_meters_start_and_stop_together():
    """The last to start is the first to stop, also after an error inside."""
    events = []
    with pytest.raises(ZeroDivisionError), MeterGroup([Recorder("a", events), Recorder("b", events)]):
        events.append(str(1 / 0))
    assert events == ["start a", "start b", "stop b", "stop a"]
    events.clear()
    with MeterGroup([Recorder("a", events), Recorder("b", events)]):
        events.append("measuring")
    assert events == ["start a", "start b", "measuring", "stop b", "stop a"]


def test_a_meter_that_does_not_start_stops_the_others():
    """GIVEN a second meter that is lost THEN the first is stopped again, and the error is the meter's."""
    events = []
    with (
        pytest.raises(MeterError, match="b is lost"),
        MeterGroup([Recorder("a", events), Recorder("b", events, broken="start")]),
    ):
        pass
    assert events == ["start a", "stop a"]


def test_a_meter_that_does_not_stop_does_not_keep_the_others():
    """GIVEN an error while one stops THEN the other is stopped all the same."""
    events = []
    with (
        pytest.raises(MeterError, match="b did not stop"),
        MeterGroup([Recorder("a", events), Recorder("b", events, broken="stop")]),
    ):
        pass
    assert events[-1] == "stop a"


# --- one group of several devices -----------------------------------------------------------------------------


def test_the_slowest_meter_sets_the_window():
    """A window is long enough for every meter, its settling included."""
    fast = SimulatedGpu(SimulatedSensor(period_s=0.02))
    slow = SimulatedGpu(SimulatedSensor(period_s=0.2, lag_s=0.1))
    assert MeterGroup([fast, slow]).window_s == pytest.approx(slow.window_s + 0.1)
    assert MeterGroup([fast]).window_s == fast.window_s


def test_one_modelled_meter_makes_the_group_modelled():
    """A sum with a modelled part is no measurement."""
    assert MeterGroup([SimulatedGpu(), ModelledMeter(65.0)]).modelled
    assert not MeterGroup([SimulatedGpu()]).modelled


def test_each_devices_window_is_its_own():
    """GIVEN two devices at 100 and 300 W beside the same calls THEN each window holds its device's energy."""
    (a, calls), (b, _) = simulated("a", 100), simulated("b", 300)
    windows = MeterGroup([a, b]).windows(calls)
    assert [window.energy_mj for window in windows] == pytest.approx([5.0, 15.0], rel=0.01)
    assert [window.power_w for window in windows] == pytest.approx([100, 300], rel=0.01)


def test_of_two_devices_the_one_that_works_says_what_limits():
    """GIVEN one device that works while another idles THEN each window has its own, and the sum the busy one's."""
    board = SimulatedBoard(gpm=True)
    working, waiting = SimulatedGpu(board=board), SimulatedGpu(board=board)
    calls = working.run([SimulatedCall(16.0, 50.0, activity={"sm": 0.9, "tensor": 0.7})], 1.0)
    waiting.sleep(working.now() - waiting.now())
    windows = MeterGroup([waiting, working]).windows(calls)
    assert [window.activity.sm for window in windows] == pytest.approx([0.0, 0.9])
    assert sum_windows(windows).activity == windows[1].activity


def test_windows_wait_for_the_sensor_to_settle():
    """GIVEN a sensor that lags and averages THEN its early ticks, still of the idle time, are not used."""
    gpu = SimulatedGpu(SimulatedSensor(period_s=0.05, lag_s=0.1, averaging_s=0.3), SimulatedBoard(idle_w=50))
    gpu.sleep(1.0)
    calls = gpu.run([SimulatedCall(15.0, 50.0)], 1.0)
    (window,) = MeterGroup([gpu]).windows(calls)
    assert window.energy_mj == pytest.approx(15.0, rel=0.01)


def test_idle_power_is_a_sum_and_unknown_if_one_is():
    """GIVEN an interval in which one counter did not tick twice THEN the sum is unknown, not the other's alone."""
    known, unknown = SimulatedGpu(board=SimulatedBoard(idle_w=60)), SimulatedGpu(SimulatedSensor(period_s=30.0))
    for gpu in (known, unknown):
        gpu.sleep(5.0)
    begin = known.now() - 2.0
    assert MeterGroup([known, known]).idle_w(begin, begin + 2) == pytest.approx(120, rel=0.01)
    assert MeterGroup([known, unknown]).idle_w(begin, begin + 2) is None


def test_states_and_bystanders_name_their_device():
    """Several devices' states and neighbours say whose they are; a single device's neighbours need no name."""
    (a, calls), (b, _) = simulated("a", 100), simulated("b", 100)
    other = reason("other-process", pid=7)
    for gpu in (a, b):
        gpu.others.append(other)
    group = MeterGroup([a, b])
    assert {state["device"] for state in group.states(0.0, calls.time_s[-1])} == {"a", "b"}
    assert group.bystanders() == [reason("on-device", device=name, what=other) for name in "ab"]
    assert MeterGroup([a]).bystanders() == [other]


def test_our_memory_is_held_on_the_first_device():
    """What this process holds is said to the first meter only."""
    group = MeterGroup([Recorder("a", []), Recorder("b", [])])
    assert [note.values["what"] for note in group.bystanders([5])] == ["5 bytes are ours", "0 bytes are ours"]


def test_the_description_lists_several_sensors():
    """One sensor is described as it is; of several, the first, and a list of all."""
    single = MeterGroup([Recorder("a", [])]).describe()
    both = MeterGroup([Recorder("a", []), Recorder("b", [])]).describe()
    assert single["device"] == "a"
    assert "devices" not in single
    assert [sensor["device"] for sensor in both["devices"]] == ["a", "b"]


# --- sums -----------------------------------------------------------------------------------------------------


def test_together_is_the_sum():
    """Energy, power and the plain difference add up; the time of a call is the mean; ticks are all ticks."""
    both = sum_windows([ONE, TWO])
    assert (both.energy_mj, both.power_w, both.naive_mj) == (30.0, 570.0, 30.0)
    assert both.time_us == 52.0
    assert (both.ticks, both.calls, both.seconds, both.reason) == (10, 1000, 0.4, None)
    assert both.timing_share == pytest.approx(np.hypot(0.3, 0.4) / 30)


def test_one_window_stays_as_it_is():
    """A single device's window loses nothing."""
    assert sum_windows([ONE]) is ONE


def test_a_sum_with_an_unknown_part_is_unknown():
    """GIVEN a device without a value THEN the sum is unknown, with that device's reason."""
    both = sum_windows([ONE, UNKNOWN])
    assert (both.energy_mj, both.power_w, both.naive_mj, both.timing_share) == (None, None, None, None)
    assert both.reason == UNKNOWN.reason
    assert both.time_us == 50.0


def test_less_is_the_difference():
    """A call's window is that with the pause less the pause's, and its timing errors are both of theirs."""
    rest = replace(ONE, energy_mj=4.0, time_us=14.0, naive_mj=3.0, ticks=3, timing_share=0.1)
    difference = subtract_window(TWO, rest)
    assert (difference.energy_mj, difference.time_us, difference.naive_mj) == (16.0, 40.0, None)
    assert difference.power_w == pytest.approx(400.0)
    assert (difference.ticks, difference.calls, difference.seconds) == (3, 1000, 0.8)
    assert difference.timing_share == pytest.approx(np.hypot(0.4, 0.4) / 16)
    assert difference.reason is None


@pytest.mark.parametrize(("energy_mj", "time_us"), [(20.0, 10.0), (25.0, 10.0), (5.0, 54.0), (5.0, 60.0)])
def test_less_is_never_negative(energy_mj, time_us):
    """GIVEN a pause with as much energy, or time, as the call with it THEN what is left is unknown and says so."""
    difference = subtract_window(TWO, replace(ONE, energy_mj=energy_mj, time_us=time_us))
    assert (difference.energy_mj, difference.time_us, difference.power_w, difference.timing_share) == (
        None,
        None,
        None,
        None,
    )
    assert difference.reason.code == "nothing-left"


@pytest.mark.parametrize(("both", "rest"), [(UNKNOWN, ONE), (ONE, UNKNOWN), (UNKNOWN, UNKNOWN)])
def test_less_of_an_unknown_is_unknown(both, rest):
    """GIVEN that either is unknown THEN the difference is, with that one's reason."""
    difference = subtract_window(both, rest)
    assert difference.energy_mj is None
    assert difference.reason == UNKNOWN.reason


def test_a_group_reads_the_ticks_before_a_window():
    """GIVEN a tick that was seen late THEN the regular ones before the load tell when it was."""
    gpu = SimulatedGpu(SimulatedSensor(period_s=0.1, read_s=0.03))
    gpu.sleep(3.0)
    calls = gpu.run([SimulatedCall(15.0, 50.0)], 0.5)
    gpu.sleep(0.1)
    begin, end = calls.time_s[[0, -1]]
    (window,) = MeterGroup([gpu]).windows(calls)
    alone = estimate_window(gpu.ticks(begin, end), calls)
    assert window.timing_share < 0.3 * alone.timing_share


# --- moments --------------------------------------------------------------------------------------------------


def test_every_device_is_read_in_order():
    """A moment of the group is one reading of each meter, in the order of the meters."""
    first, second = MeterGroup([ModelledMeter(50.0), ModelledMeter(70.0)]).read()
    assert (first.power_w, second.power_w) == (50.0, 70.0)


def test_different_meters_are_both_in_the_name():
    """WHEN the devices' best meters differ THEN the table's meter column names both, and equal ones once."""
    other = ModelledMeter(50.0)
    other.name = "nvml"
    assert MeterGroup([ModelledMeter(50.0), other]).name == "modelled+nvml"
    assert MeterGroup([ModelledMeter(50.0), ModelledMeter(50.0)]).name == "modelled"
