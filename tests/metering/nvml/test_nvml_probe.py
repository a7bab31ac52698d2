"""The probing process, against a fake NVML library."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from clocks import Clock
from fake_nvml.waiting import wait_until

from energyscope.errors import MeterError
from energyscope.metering.nvml import probe as probe_module
from energyscope.metering.nvml.probe import Probe, hammer_counter

MACHINE = "gpu GPU-aaaa Fake H200\nat 0 power_w 200\n"


def test_power_is_read_by_every_field_that_answers(fake_nvml):
    """GIVEN a board of 200 W without the averaged field THEN the others show 200 W, and that one nothing."""
    fake_nvml(MACHINE + "at 0 fail field185 3\n")
    with Probe("GPU-aaaa", "power") as probe:

        def samples():
            probe.drain()
            return len(probe.trace("instant")[0])

        wait_until(lambda: samples() > 20, "20 samples")
    times, power = probe.trace("instant")
    assert power == pytest.approx(200, rel=1e-3)
    assert len(probe.trace("usage")[0]) == len(times)
    assert len(probe.trace("average")[0]) == 0


def test_the_counters_reader_says_how_often_it_read(fake_nvml):
    """Without a pause, a counter that takes 1 ms is read no more than a thousand times a second."""
    fake_nvml(MACHINE + "at 0 read_s 0.001\n")
    with Probe("GPU-aaaa", "counter") as probe:
        pass
    assert all(0 < record["reads"] / record["seconds"] < 1100 for record in probe.records)


def test_the_counters_reader_makes_no_pause(monkeypatch):
    """GIVEN reads of 1 ms by a clock of its own THEN a report each half second, of nearly a thousand reads/s."""
    clock = Clock(look_s=1e-6)
    monkeypatch.setattr(probe_module, "time", clock)
    records = []
    hammer_counter(SimpleNamespace(energy_mj=lambda: clock.sleep(0.001)), records.append, lambda: len(records) < 3)
    assert [record["reads"] / record["seconds"] for record in records] == pytest.approx([1000] * 3, rel=0.01)
    assert clock.now_s == pytest.approx(1.5, rel=0.01)


def test_a_gpu_that_is_lost_ends_the_probe_with_an_error(fake_nvml):
    """WHEN the counter cannot be read THEN the probe says so instead of waiting."""
    fake_nvml(MACHINE + "at 0 fail nvmlDeviceGetTotalEnergyConsumption 15\n")
    with pytest.raises(MeterError, match="GpuIsLost"), Probe("GPU-aaaa", "counter"):
        pass


def test_an_unknown_gpu_is_an_error(fake_nvml):
    """A UUID that NVML does not know is said to be unknown."""
    fake_nvml(MACHINE)
    with pytest.raises(MeterError, match="GPU-bbbb"), Probe("GPU-bbbb", "power"):
        pass
