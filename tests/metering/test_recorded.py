"""A recorded trace plays back, from memory or from a run's file."""

from __future__ import annotations

import numpy as np
import pytest

from energyscope.errors import MeterError, UsageError
from energyscope.metering.recorded import RecordedMeter
from energyscope.metering.ticks import mean_power
from energyscope.testing import SimulatedCounter

HEADER = "time_s,device,energy_mj,power_w,phase,token\n"
ONE = HEADER + "0.0,cuda:0,1000,100,prefill,\n0.1,cuda:0,11000,100,prefill,\n0.2,cuda:0,21000,100,prefill,\n"


@pytest.fixture
def trace(tmp_path):
    def write(text):
        path = tmp_path / "power_trace.csv"
        path.write_text(text)
        return path

    return write


def test_a_recorded_trace_plays_back():
    """The recorded meter hands out what was recorded, by interval."""
    trace = SimulatedCounter().ticks(0.0, 5.0, (1.0, 4.0))
    with RecordedMeter(trace) as meter:
        played = meter.ticks(1.0, 2.0)
    assert len(played) == 10
    assert np.isin(played.energy_mj, trace.energy_mj).all()


def test_a_runs_trace_plays_back(trace):
    """GIVEN power_trace.csv of a run THEN its device, its ticks and its power come back."""
    meter = RecordedMeter.from_csv(trace(ONE))
    assert meter.device == "cuda:0"
    assert mean_power(meter.ticks(0.0, 1.0), 0.0, 1.0) == pytest.approx(100)
    assert meter.describe()["notes"][0].values["trace"].endswith("power_trace.csv")


def test_what_is_known_of_a_tick_plays_back(trace):
    """GIVEN a trace that says when the value before was last seen THEN a tick is as sharp as it was."""
    header, *lines = ONE.splitlines()
    befores_s = ["-0.004", "0.096", "0.195"]
    rows = [f"{line},{before_s}" for line, before_s in zip(lines, befores_s, strict=True)]
    ticks = RecordedMeter.from_csv(trace("\n".join([f"{header},before_s", *rows]))).trace
    assert ticks.after_s.tolist() == [0.0, 0.1, 0.2]
    assert ticks.before_s.tolist() == [-0.004, 0.096, 0.195]


def test_one_of_several_devices_must_be_named(trace):
    """Joules of two devices are never mixed."""
    path = trace(ONE + "0.05,cuda:1,500,50,prefill,\n")
    with pytest.raises(UsageError, match="cuda:0, cuda:1: name one"):
        RecordedMeter.from_csv(path)
    with pytest.raises(UsageError, match="name one"):
        RecordedMeter.from_csv(path, device="cuda:2")
    assert len(RecordedMeter.from_csv(path, device="cuda:1").ticks(0.0, 1.0)) == 1


def test_a_fall_of_the_energy_is_marked(trace):
    """A counter that was reset during the run is played back as such."""
    meter = RecordedMeter.from_csv(trace(ONE + "0.3,cuda:0,5,100,prefill,\n"))
    assert meter.ticks(0.0, 1.0).reset.tolist() == [False, False, False, True]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", ONE.replace("11000", "many")])
def test_a_file_that_is_no_trace_is_refused(trace, text):
    """An empty file, another table and a damaged number are each one clear line."""
    with pytest.raises(MeterError, match=r"power_trace\.csv is"):
        RecordedMeter.from_csv(trace(text))


def test_a_missing_file_is_refused(tmp_path):
    """The error names the file."""
    with pytest.raises(MeterError, match=r"nowhere\.csv"):
        RecordedMeter.from_csv(tmp_path / "nowhere.csv")


def test_a_trace_without_rows_is_refused(trace):
    """A header alone holds no device."""
    with pytest.raises(UsageError, match="no device"):
        RecordedMeter.from_csv(trace(HEADER))


def test_a_recorded_trace_has_no_present_moment():
    """What was recorded cannot be read now: refused, never answered with an old value."""
    with pytest.raises(UsageError, match="recorded meter"):
        RecordedMeter(SimulatedCounter().ticks(0.0, 1.0, (0.2, 0.8))).read()
