"""The amd meter, over its real watching process and a stand-in for AMD SMI: no AMD GPU was met."""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import pytest
from fake_counters.fake_scene import place
from fake_nvml.waiting import wait_for_error, wait_until

from energyscope.errors import MeterError
from energyscope.metering.amd.board import AmdBoard, load_amdsmi
from energyscope.metering.amd.meter import AmdMeter
from energyscope.metering.counter.source import DeniedError
from energyscope.metering.group import MeterGroup
from energyscope.metering.ticks import mean_power
from energyscope.metering.window import Calls, estimate_window
from energyscope.reasons import reason

FIRST = {"bdf": "0000:c1:00.0", "serial": "0x1A2B3C4D5E6F7081", "hip_uuid": "GPU-1a2b3c4d5e6f7081", "watts": 90.0}
SECOND = {"bdf": "0001:05:00.0", "serial": "0xE65A2C0A3EC2B6B1", "hip_uuid": None, "watts": 400.0}
GPU = "AMD-e65a2c0a3ec2b6b1"  # the second


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that gives this machine two AMD GPUs, of the scene that it is given."""
    return lambda **scene: place(monkeypatch, tmp_path / "scene.json", **{"boards": [FIRST, SECOND], **scene})


def watched(meter, seconds=0.6):
    begin = time.monotonic()
    time.sleep(seconds)
    wait_until(lambda: len(meter.ticks(begin, np.inf)) >= 6, "six ticks")
    return begin, time.monotonic()


@pytest.mark.parametrize("old", [False, True])
def test_power_is_that_of_the_gpu_that_was_named(machine, old):
    """GIVEN two GPUs WHEN the second is named by its UUID THEN its 400 W are read, in old versions too."""
    machine(old=old)
    with AmdMeter(GPU) as meter:
        begin, end = watched(meter)
        ticks, facts = meter.ticks(begin, end), meter.describe()
    assert mean_power(ticks, begin, end) == pytest.approx(400, rel=0.05)
    assert (facts["meter"], facts["modelled"], meter.device) == ("amd", False, GPU)
    assert facts["notes"] == [reason("amd-counter")]
    assert not MeterGroup([meter]).of_cpu


@pytest.mark.parametrize(
    ("name", "watts"),
    [("AMD-1a2b3c4d5e6f7081", 90), ("AMD-0000:c1:00", 90), ("AMD-0001:05:00", 400), (GPU, 400)],
)
def test_a_gpu_is_found_by_uuid_or_pci_address(machine, name, watts):
    """GIVEN HIP's UUID, a serial number alone or a PCI address THEN the board is that one, whatever its number."""
    machine()
    board = AmdBoard(name)
    first_s, first_mj = time.monotonic(), board.energy_mj()
    time.sleep(0.3)
    drawn_mj, seconds = board.energy_mj() - first_mj, time.monotonic() - first_s
    assert drawn_mj / 1e3 / seconds == pytest.approx(watts, rel=0.1)


def test_a_gpu_that_amd_smi_does_not_know(machine):
    """GIVEN a GPU of another container THEN the line lists those that are known."""
    machine()
    with pytest.raises(MeterError, match=r"know .* 0000:99:00; it knows: 0000:c1:00 = 1a2b.*0001:05:00 = e65a"):
        AmdBoard("AMD-0000:99:00")


@pytest.mark.parametrize("name", ["0000:c1:00", "00000000000000a1"])
def test_partitions_are_not_taken_for_a_gpu(machine, name):
    """GIVEN two partitions at one address THEN the line says that energy is that of all, and how to end them."""
    other = {**FIRST, "bdf": "0000:c1:00.1", "hip_uuid": "GPU-00000000000000a1"}
    machine(boards=[FIRST, other, SECOND])
    with pytest.raises(MeterError, match=rf"{name} is one of 2 partitions .*--compute-partition SPX"):
        AmdBoard(f"AMD-{name}")


def test_a_reset_in_a_window_leaves_its_energy_unknown(machine):
    """WHEN the GPU is reset during a window THEN that tick is a reset, and the window has no energy."""
    begin = time.monotonic()
    machine(reset_s=begin + 2.5)
    with AmdMeter(GPU) as meter:
        wait_until(lambda: meter.ticks(begin, np.inf).reset.any() and time.monotonic() > begin + 3.0, "the reset")
        end = time.monotonic()
        ticks = meter.ticks(begin, end)
    calls = Calls(np.array([begin + 2.2, end]), np.array([0.0, 100.0]))
    window = estimate_window(ticks, calls)
    assert (ticks.reset.sum(), window.energy_mj, window.reason.code) == (1, None, "counter-reset")


def test_a_gpu_that_is_lost_ends_the_meter(machine):
    """WHEN every call begins to fail THEN reading the meter says so."""
    machine(lost_s=time.monotonic() + 3.0)
    with AmdMeter(GPU) as meter:
        assert "energy counter of this GPU cannot be read" in wait_for_error(meter)


@pytest.mark.parametrize(
    ("errors", "kind", "message"),
    [
        ({"init": 34}, MeterError, "AMD SMI cannot be used .*NOT_LOADED - Driver not loaded.$"),
        ({"energy": 10}, DeniedError, "NO_PERM .*: this user may not ask; add it to the groups render and video"),
        ({"energy": 2}, MeterError, "energy counter of this GPU cannot be read .*: this GPU does not offer it"),
    ],
)
def test_a_refusal_is_one_line(machine, errors, kind, message):
    """GIVEN no driver, no permission or no counter THEN one line says so and what to do."""
    machine(errors=errors)
    with pytest.raises(kind, match=message) as refused:
        AmdMeter(GPU)
    assert "\n" not in str(refused.value)


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    """GIVEN no package THEN the line names the extra."""
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(MeterError, match=r"pip install 'energyscope-llm\[amd\]'"):
        load_amdsmi()


def test_without_the_library_nothing_is_printed(machine, capsys):
    """GIVEN no libamd_smi.so, of which the package prints and fails by a KeyError, THEN one line says so."""
    machine(library=False)
    with pytest.raises(MeterError, match=r"finds no libamd_smi\.so .*amd-smi-lib"):
        load_amdsmi()
    assert capsys.readouterr().out == ""


def test_others_on_the_gpu_are_named(machine):
    """GIVEN another process and a busy GPU THEN each is a sign; what is not told is none."""
    machine(boards=[FIRST, {**SECOND, "processes": [os.getppid()], "busy": 40}])
    signs = AmdMeter(GPU).bystanders(None)
    assert signs == [reason("other-process", pid=os.getppid()), reason("busy-without-us", share=0.4)]
    machine(errors={"processes": 10, "activity": 2, "memory": 2})
    assert AmdMeter(GPU).bystanders(None) == []
