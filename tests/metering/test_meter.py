"""The choice of a meter, and the meters that need no GPU."""

from __future__ import annotations

import numpy as np
import pytest

from energyscope.errors import MeterError, UsageError
from energyscope.metering.choice import open_meter
from energyscope.metering.estimate import estimate_window
from energyscope.metering.meter import require_ticks
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.recorded import RecordedMeter
from energyscope.testing import SimulatedCounter, steady_calls


def test_auto_without_a_gpu_is_modelled():
    """GIVEN a model on the CPU THEN auto models the joules and says so."""
    meter = open_meter("auto", gpu_uuid=None)
    assert meter.modelled
    assert "MODELLED" in meter.describe()["notes"][0]


def test_nvml_on_a_cpu_is_refused():
    """The nvml meter is never replaced silently."""
    with pytest.raises(UsageError, match="modelled"):
        open_meter("nvml", gpu_uuid=None)


@pytest.mark.parametrize("name", ["nvidia-smu", "recorded"])
def test_unknown_meters_are_refused(name):
    """A meter that cannot be used from the command line is refused in one line."""
    with pytest.raises(UsageError, match="meter"):
        open_meter(name, gpu_uuid=None)


def test_watts_must_be_positive():
    """Zero or negative watts are refused."""
    with pytest.raises(UsageError, match="above 0"):
        open_meter("modelled", gpu_uuid=None, watts=0)


def test_modelled_energy_is_time_times_watts():
    """Through the estimator, the modelled meter's energy is exactly time x watts."""
    calls = steady_calls(100.0, 100.2, 1e-4)
    found = estimate_window(ModelledMeter(50.0).ticks(97.0, 100.2), calls)
    assert found.energy_mj == pytest.approx(50 * 1e-4 * 1e3, rel=1e-6)
    assert found.power_w == pytest.approx(50)


def test_a_recorded_trace_plays_back():
    """The recorded meter hands out what was recorded, by interval."""
    trace = SimulatedCounter().ticks(0.0, 5.0, (1.0, 4.0))
    with RecordedMeter(trace) as meter:
        played = meter.ticks(1.0, 2.0)
    assert len(played) == 10
    assert np.isin(played.energy_mj, trace.energy_mj).all()


def test_a_frozen_counter_is_an_error():
    """No tick at all is an error that says what to do."""
    with pytest.raises(MeterError, match="doctor"):
        require_ticks(ModelledMeter(1.0).ticks(1.001, 1.002), 5.0)
