"""The probing process, against a fake NVML library."""

from __future__ import annotations

import time

import pytest

from energyscope.errors import MeterError
from energyscope.metering.nvml.probe import Probe

MACHINE = "gpu GPU-aaaa Fake H200\nat 0 power_w 200\n"


def test_power_is_read_by_every_field_that_answers(fake_nvml):
    """GIVEN a board of 200 W without the averaged field THEN the others show 200 W, and that one nothing."""
    fake_nvml(MACHINE + "at 0 fail field185 3\n")
    with Probe("GPU-aaaa", "power") as probe:
        time.sleep(0.3)
        probe.drain()
    times, power = probe.trace("instant")
    assert len(times) > 20
    assert power == pytest.approx(200, rel=1e-3)
    assert len(probe.trace("usage")[0]) == len(times)
    assert len(probe.trace("average")[0]) == 0


def test_the_counters_reader_says_how_often_it_read(fake_nvml):
    """Without a pause, a counter that takes 1 ms is read hundreds of times a second."""
    fake_nvml(MACHINE + "at 0 read_s 0.001\n")
    with Probe("GPU-aaaa", "counter") as probe:
        pass
    assert 100 < probe.reads_per_s() < 1100


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
