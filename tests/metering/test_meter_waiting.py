"""A stage waits for power to settle, and for a window's last tick, by its own clock."""

from __future__ import annotations

import pytest

from energyscope.metering.group import MeterGroup
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.waiting import IDLE_S, LAST_TICK_S, SETTLE_S, let_settle, measure_idle, read_windows
from energyscope.testing import SimulatedBoard, SimulatedCall, SimulatedGpu

CALL = SimulatedCall(16.0, 50.0)  # 320 W


@pytest.fixture
def gpu():
    return SimulatedGpu(board=SimulatedBoard(idle_w=90.0))


def test_idle_power_is_read_after_it_has_settled(gpu):
    """GIVEN a load just before THEN the power is the idle one, and what the process holds is asked last."""
    gpu.run([CALL], 1.0)
    begin, asked = gpu.now(), []
    facts = measure_idle(MeterGroup([gpu]), lambda: [asked.append(gpu.now())], gpu)
    assert facts["idle_w"] == pytest.approx(90.0, rel=0.01)
    assert facts["bystanders"] == []
    assert asked == [pytest.approx(begin + SETTLE_S + IDLE_S, abs=1e-6)]


def test_a_modelled_meter_has_no_idle_power(gpu):
    """Nothing is measured, and no time is spent on it."""
    begin = gpu.now()
    assert measure_idle(MeterGroup([ModelledMeter(65.0)]), list, gpu) is None
    assert gpu.now() == begin


def test_power_settles_where_it_is_measured(gpu):
    """GIVEN a window that is taken again THEN only a meter of real power is waited for."""
    for meter, waited_s in ((ModelledMeter(65.0), 0.0), (gpu, SETTLE_S)):
        begin = gpu.now()
        let_settle(MeterGroup([meter]), gpu)
        assert gpu.now() - begin == pytest.approx(waited_s)


def test_a_window_is_read_when_its_last_tick_is_there(gpu):
    """The sampler prints a tick a read later, so reading waits that long after the last call, and no longer."""
    meter = MeterGroup([gpu])
    calls = gpu.run([CALL], gpu.window_s)
    (window,) = read_windows(meter, calls, gpu)
    assert gpu.now() - float(calls.time_s[-1]) >= LAST_TICK_S - 1e-6
    assert window.energy_mj == pytest.approx(CALL.energy_mj, rel=0.01)
