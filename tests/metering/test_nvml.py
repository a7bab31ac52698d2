"""The NVML meter over a sampler process, with a stand-in board where there is no GPU."""

from __future__ import annotations

import sys
import textwrap
import time

import pytest

from energyscope.errors import MeterError
from energyscope.metering import nvml
from energyscope.metering.ticks import mean_power

SAMPLER = textwrap.dedent(
    """
    import json, sys, time
    from energyscope.metering.sampler import watch
    origin = time.monotonic()
    counter = lambda: float(int((time.monotonic() - origin) / 0.05)) * 0.05 * 200e3
    def emit(record):
        print(json.dumps(record), flush=True)
    ends = time.monotonic() + {lifetime}
    watch(counter, lambda: {{"power_w": 200.0, "sm_clock_mhz": 1980, "temperature_c": 40, "throttle": 0}}, emit,
          lambda: time.monotonic() < ends)
    sys.exit({code})
    """
)


class StandInBoard:
    """A board whose counter can be probed; the sampler process of the test ticks in its place."""

    def __init__(self, uuid):
        self.uuid = uuid

    def probe(self):
        return None

    def facts(self):
        return {"processes": [1], "utilisation": 0.5}


@pytest.fixture
def meter(monkeypatch, tmp_path):
    """Return a function that makes a meter over a sampler with a lifetime and an exit code."""

    def make(lifetime=30.0, code=0):
        script = tmp_path / "sampler.py"
        script.write_text(SAMPLER.format(lifetime=lifetime, code=code))
        monkeypatch.setattr(nvml, "Board", StandInBoard)
        monkeypatch.setattr(nvml, "sampler_command", lambda uuid: [sys.executable, str(script)])
        return nvml.NvmlMeter("GPU-test")

    return make


def test_ticks_come_from_the_process(meter):
    """GIVEN a counter of 200 W that ticks every 50 ms THEN period and power are found."""
    with meter() as watching:
        begin = time.monotonic()
        time.sleep(0.6)
        end = time.monotonic()
        ticks = watching.ticks(begin, end)
        facts = watching.describe()
        states = watching.states(begin, end)
    assert mean_power(ticks, begin, end) == pytest.approx(200, rel=0.05)
    assert facts["tick_period_s"] == pytest.approx(0.05, rel=0.05)
    assert len(states) == len(ticks)


def test_a_sampler_that_dies_is_an_error(meter):
    """WHEN the process ends by itself THEN reading the meter raises instead of showing no energy."""
    with meter(lifetime=1.5, code=3) as watching:
        time.sleep(1.2)
        with pytest.raises(MeterError, match="ended"):
            watching.ticks(0, time.monotonic())


def test_the_process_ends_with_the_meter(meter):
    """Leaving the block leaves no process behind."""
    with meter() as watching:
        process = watching._process
    assert process.poll() is not None


def test_other_users_of_the_gpu_are_named(meter):
    """Another process and a busy GPU while nothing of ours runs are both reported."""
    assert len(meter().bystanders()) == 2


def test_a_meter_that_was_not_started_says_so(meter):
    """Reading before the with block is an error."""
    with pytest.raises(MeterError, match="with"):
        meter().ticks(0, 1)


def test_a_missing_driver_is_one_clear_line(monkeypatch):
    """WHEN NVML cannot be initialised THEN the error asks for the driver."""
    import pynvml

    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    with pytest.raises(MeterError, match="driver"):
        nvml.load_nvml()
