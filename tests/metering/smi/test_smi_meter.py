"""The nvidia-smi meter, over its real sampling process and a stand-in command on PATH."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fake_nvml.nvidia_smi import install
from fake_nvml.waiting import wait_for_error, wait_until

from energyscope.errors import MeterError, UsageError
from energyscope.metering import process_meter
from energyscope.metering.nvml.neighbours import Usage
from energyscope.metering.smi.meter import NvidiaSmiMeter, gpu_usage
from energyscope.metering.ticks import mean_power
from energyscope.reasons import reason

ANSWERS = {
    "name": "Fake H200",
    "power.draw.instant": "250.00",
    "power.draw": "240.00",
    "clocks.sm": "1980",
    "temperature.gpu": "45",
    "clocks_event_reasons.active": "0x0000000000000004",
    "enforced.power.limit": "700.00",
    "mig.mode.current": "Disabled",
    "utilization.gpu": "30",
    "memory.used": "1024",
}
OLD = {key: text for key, text in ANSWERS.items() if key in ("name", "power.draw", "clocks.sm", "temperature.gpu")}


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Return a function that puts a stand-in nvidia-smi on PATH, alone, and returns one that changes it."""

    def make(answers=ANSWERS, **rest):
        monkeypatch.setenv("PATH", str(tmp_path))
        return install(tmp_path, {"uuid": "GPU-aaaa", "answers": answers, **rest})

    return make


def test_power_comes_from_the_command(command):
    """GIVEN 250 W every 20 ms THEN ticks come, integrate to it, and carry the board's state."""
    command()
    with NvidiaSmiMeter("GPU-aaaa", interval_s=0.02) as meter:
        meter.gap_s = float("inf")  # a busy machine makes gaps
        begin = time.monotonic()
        wait_until(lambda: len(meter.ticks(begin, float("inf"))) > 15, "15 ticks")
        end = time.monotonic()
        ticks, states, facts = meter.ticks(begin, end), meter.states(begin, end), meter.describe()
    assert mean_power(ticks, begin, end) == pytest.approx(250)
    assert facts["interval_s"] == 0.02
    assert facts["power_field"] == "power.draw.instant of nvidia-smi"
    state = {
        key: states[0][key] for key in ("power_w", "sm_clock_mhz", "temperature_c", "throttle", "power_limit_w")
    }
    assert state == {
        "power_w": 250,
        "sm_clock_mhz": 1980,
        "temperature_c": 45,
        "throttle": 4,
        "power_limit_w": 700,
    }


def test_an_old_version_falls_back_and_says_so(command):
    """GIVEN a version without instant power THEN the averaged one is used and said, and what it lacks is None."""
    command(OLD)
    with NvidiaSmiMeter("GPU-aaaa", interval_s=0.05) as meter:
        end = time.monotonic()
        meter.ticks(0.0, end)
        facts, state = meter.describe(), meter.states(0.0, end)[0]
    assert facts["power_field"] == "power.draw of nvidia-smi"
    assert facts["averaging_s"] == 1.0
    assert reason("averaged-power", seconds=1.0) in facts["notes"]
    assert (state["reading_w"], state["throttle"], state["power_limit_w"]) == (240, None, None)


def test_an_instant_power_that_is_not_available_falls_back_too(command):
    """WHEN the field is known but answers [N/A] THEN the averaged power is used."""
    command({**ANSWERS, "power.draw.instant": "[N/A]"})
    assert NvidiaSmiMeter("GPU-aaaa").describe()["power_field"] == "power.draw of nvidia-smi"


def test_no_power_at_all_is_refused(command):
    """GIVEN a GPU whose power is [N/A] THEN the meter cannot be made."""
    command({**ANSWERS, "power.draw.instant": "[N/A]", "power.draw": "[N/A]"})
    with pytest.raises(MeterError, match="no power of this GPU"):
        NvidiaSmiMeter("GPU-aaaa")


def test_a_missing_command_is_one_clear_line(tmp_path, monkeypatch):
    """GIVEN no nvidia-smi THEN the error says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeterError, match="not on PATH: install"):
        NvidiaSmiMeter("GPU-aaaa")


def test_an_unknown_gpu_is_one_clear_line(command):
    """The command's own words are what the error says."""
    command()
    with pytest.raises(MeterError, match="No devices were found"):
        NvidiaSmiMeter("GPU-bbbb")


def test_a_dying_command_ends_the_meter(command):
    """WHEN nvidia-smi ends by itself THEN reading the meter says what it said last."""
    change = command()
    with NvidiaSmiMeter("GPU-aaaa", interval_s=0.02) as meter:
        change(uuid="GPU-gone")
        assert wait_for_error(meter) == "nvidia-smi ended by itself: No devices were found"
        assert wait_for_error(meter) == "nvidia-smi ended by itself: No devices were found"


def test_a_power_that_goes_away_ends_the_meter(command):
    """WHEN the power turns [N/A] during a run THEN single lines are left out, and many are an error."""
    change = command()
    with NvidiaSmiMeter("GPU-aaaa", interval_s=0.02) as meter:
        change(answers={**ANSWERS, "power.draw.instant": "[N/A]"})
        assert "no power any more" in wait_for_error(meter)


def test_the_command_ends_with_the_meter(command, monkeypatch):
    """Leaving the block leaves neither the sampler nor nvidia-smi behind."""
    monkeypatch.setattr(process_meter, "ENDING_S", 120.0)  # a sampler that is killed ends nothing
    command()
    with NvidiaSmiMeter("GPU-aaaa", interval_s=0.02) as meter:
        sampler = meter._watcher._process.pid
        (loop,) = Path(f"/proc/{sampler}/task/{sampler}/children").read_text().split()
    assert not Path(f"/proc/{sampler}").exists()
    assert not Path(f"/proc/{loop}").exists()


def test_a_split_gpu_is_refused_or_labelled(command):
    """GIVEN MIG mode THEN the meter asks for --whole-gpu, and with it says what counts."""
    command({**ANSWERS, "mig.mode.current": "Enabled"})
    with pytest.raises(MeterError, match="--whole-gpu"):
        NvidiaSmiMeter("GPU-aaaa")
    assert reason("whole-gpu") in NvidiaSmiMeter("GPU-aaaa", whole_gpu=True).describe()["notes"]


def test_an_interval_must_be_positive(command):
    """An interval of nothing is refused."""
    command()
    with pytest.raises(UsageError, match="millisecond"):
        NvidiaSmiMeter("GPU-aaaa", interval_s=0)


def test_other_users_are_seen(command):
    """Processes, use and memory come from the command; what it does not answer is None."""
    change = command(pids=[4711])
    assert gpu_usage("GPU-aaaa") == Usage([4711], 0.3, 1 << 30)
    change(answers={**ANSWERS, "utilization.gpu": "[N/A]"})
    assert gpu_usage("GPU-aaaa").utilisation is None
    change(answers=OLD)
    assert gpu_usage("GPU-aaaa") == Usage(None, None, None)
