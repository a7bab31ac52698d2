"""One GPU through the real binding, on a fake library."""

from __future__ import annotations

import pytest
from fake_nvml.reading import read_twice

from energyscope.errors import MeterError
from energyscope.metering.nvml.binding import LostGpuError
from energyscope.metering.nvml.board import Board

STEADY = "gpu GPU-aaaa Fake H200\nat 0 power_w 200"


def test_the_counter_rises_with_the_power(fake_nvml):
    """GIVEN 200 W THEN the counter rises by 20 J for each of its ticks of 0.1 s."""
    fake_nvml(STEADY)
    before, after, ticks = read_twice(Board("GPU-aaaa").energy_mj, 0.1)
    assert (after - before) / 20_000 in ticks


@pytest.mark.parametrize("field", ["instant", "average", "usage"])
def test_every_power_field_is_read_in_watts(fake_nvml, field):
    """Each of NVML's power fields gives the steady power."""
    fake_nvml(STEADY)
    assert Board("GPU-aaaa").power_w(field) == 200


def test_the_best_power_field_that_answers_is_found(fake_nvml):
    """WHEN fields fail one after the other THEN the next best is taken, and none at all is an error."""
    machine = fake_nvml(STEADY)
    board = Board("GPU-aaaa")
    assert board.power_field() == "instant"
    machine.append("at 0 fail field186 3")
    assert board.power_field() == "average"
    machine.append("at 0 fail field185 3")
    assert board.power_field() == "usage"
    machine.append("at 0 fail nvmlDeviceGetPowerUsage 3")
    with pytest.raises(MeterError, match="NVMLError_NotSupported"):
        board.power_field()


def test_a_power_of_zero_is_no_answer(fake_nvml):
    """A field that reads 0 W is not measured: it is never taken for a power."""
    fake_nvml("gpu GPU-aaaa\nat 0 power_w 0")
    board = Board("GPU-aaaa")
    with pytest.raises(MeterError, match="0 W"):
        board.power_w("instant")
    assert board.state()["power_w"] is None


@pytest.mark.parametrize(("code", "words"), [(3, "does not offer"), (4, "administrator"), (999, "Unknown Error")])
def test_an_unreadable_counter_says_why(fake_nvml, code, words):
    """Not supported, not permitted and unknown failures are told apart."""
    fake_nvml(f"{STEADY}\nat 0 fail nvmlDeviceGetTotalEnergyConsumption {code}")
    with pytest.raises(MeterError, match=words):
        Board("GPU-aaaa").energy_mj()


def test_a_lost_gpu_is_an_error_of_its_own(fake_nvml):
    """WHEN the GPU falls off the bus THEN a read says so."""
    machine = fake_nvml(STEADY)
    board = Board("GPU-aaaa")
    machine.append("at 0 fail * 15")
    with pytest.raises(LostGpuError, match="bus"):
        board.energy_mj()


def test_an_unknown_gpu_is_refused(fake_nvml):
    """A UUID that NVML does not know is an error that names it."""
    fake_nvml(STEADY)
    with pytest.raises(MeterError, match="GPU-bbbb"):
        Board("GPU-bbbb")


def test_the_state_has_what_the_guard_needs(fake_nvml):
    """Power, clocks, temperature, throttle, limit, memory and use are in units that their names say."""
    fake_nvml(f"{STEADY}\nat 0 limit_w 650\nat 0 throttle 4\nat 0 used_mib 1024\nat 0 utilisation 30")
    assert Board("GPU-aaaa").state() == {
        "power_w": 200,
        "instant_w": 200,
        "sm_clock_mhz": 1980,
        "temperature_c": 45,
        "throttle": 4,
        "power_limit_w": 650,
        "memory_used_bytes": 1 << 30,
        "utilisation": 0.3,
    }


def test_what_a_board_does_not_answer_is_none(fake_nvml):
    """GIVEN a board without clocks and limits THEN these are None, never 0."""
    silent = ("ClockInfo", "EnforcedPowerLimit", "UtilizationRates", "MemoryInfo", "ComputeRunningProcesses_v3")
    fake_nvml(
        "\n".join([STEADY, *(f"at 0 fail nvmlDeviceGet{name} 3" for name in silent), "at 0 fail field186 3"])
    )
    board = Board("GPU-aaaa")
    state = board.state()
    unknown = ("instant_w", "sm_clock_mhz", "power_limit_w", "utilisation", "memory_used_bytes")
    assert {key: state[key] for key in unknown} == dict.fromkeys(unknown)
    assert board.processes() is None


def test_the_facts_name_the_board(fake_nvml):
    """Name, driver, the power limits (set, default, lowest) and the processes are known."""
    fake_nvml(f"driver 580.95\n{STEADY}\nat 0 limit_w 500\nprocess 4711 100\nat 0 persistence 0")
    facts = Board("GPU-aaaa").facts()
    assert (facts["name"], facts["driver"], facts["processes"]) == ("Fake H200", "580.95", [4711])
    assert (facts["power_limit_w"], facts["default_power_limit_w"], facts["min_power_limit_w"]) == (500, 700, 200)
    assert (facts["mig"], facts["persistence"]) == (False, 0)
