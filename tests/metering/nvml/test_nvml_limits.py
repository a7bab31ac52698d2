"""Limits of a GPU are set and put back by a process of its own, however the process ends that asked for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid

import pytest

from energyscope.errors import MeterError
from energyscope.metering.nvml.board import Board
from energyscope.metering.nvml.limits import AdjustableGpu, Limit, LimitChanges

SWEEP = """
import sys
from energyscope.metering.nvml.limits import Limit, LimitChanges
with LimitChanges(sys.argv[1]) as changes:
    changes.set(Limit(**eval(sys.argv[2])))
    print(changes._process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def gpu(fake_nvml):
    """A GPU with a limit of 650 W of at most 700 W; its UUID is no other test's, for locks are by UUID."""
    name = f"GPU-{uuid.uuid4()}"
    return name, fake_nvml(f"gpu {name} Fake H200\nat 0 limit_w 650")


def now(name: str) -> tuple[float, float]:
    """The power limit (W) and the SM clock (MHz) that the GPU has now."""
    state = Board(name).state()
    return state["power_limit_w"], state["sm_clock_mhz"]


def until(name: str, wanted: tuple[float, float]) -> None:
    """Wait until the GPU has a limit and a clock again."""
    ends_s = time.monotonic() + 30
    while now(name) != wanted and time.monotonic() < ends_s:
        time.sleep(0.05)
    assert now(name) == wanted


def test_a_limit_holds_and_is_put_back(gpu):
    """WHEN a power limit and then a clock is set THEN each holds alone, and at the end it is as it was found."""
    name, _ = gpu
    with LimitChanges(name) as changes:
        assert changes.facts == {"found_w": 650, "default_w": 700, "least_w": 200, "most_w": 700, "top_mhz": 1980}
        changes.set(Limit(power_w=400))
        assert now(name) == (400, 1980)
        changes.set(Limit(clock_mhz=1200))
        assert now(name) == (650, 1200)
    assert now(name) == (650, 1980)


@pytest.mark.parametrize("limit", [{"power_w": 300}, {"clock_mhz": 900}], ids=["power", "clock"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_is_put_back_however_the_sweep_ends(gpu, how, limit):
    """GIVEN a process that changed a limit WHEN it is killed THEN the limit is put back, and nothing stays."""
    name, machine = gpu
    command = [sys.executable, "-c", SWEEP, name, repr(limit)]
    with subprocess.Popen(
        command,
        env=machine.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as sweep:
        assert sweep.stdout is not None
        watchdog = int(sweep.stdout.readline())
        assert now(name) != (650, 1980)
        sweep.send_signal(how)
        sweep.wait(30)
    until(name, (650, 1980))
    assert gone(watchdog)


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds."""
    ends_s = time.monotonic() + 30
    while time.monotonic() < ends_s:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_watchdog_that_is_killed_leaves_no_limit(gpu, how):
    """WHEN the watchdog itself is killed THEN the next change is an error, and the limits are put back."""
    name, _ = gpu
    with LimitChanges(name) as changes:
        changes.set(Limit(clock_mhz=1200))
        os.kill(changes._process.pid, how)
        changes._process.wait(30)
        with pytest.raises(MeterError, match="is gone"):
            changes.set(Limit(power_w=400))
    assert now(name) == (650, 1980)


def test_what_the_driver_refuses_is_one_line(gpu):
    """GIVEN no permission, or a limit out of range, THEN the error says so, and nothing has changed."""
    name, machine = gpu
    with LimitChanges(name) as changes:
        with pytest.raises(MeterError, match=r"the power limit of this GPU cannot be set \(NVMLError_InvalidArg"):
            changes.set(Limit(power_w=5))
        machine.append("at 0 fail nvmlDeviceSetPowerManagementLimit 4")
        with pytest.raises(MeterError, match="have an administrator permit it"):
            changes.set(Limit(power_w=400))
    assert now(name) == (650, 1980)


def test_a_user_who_may_change_nothing_is_not_told_to_put_it_back(gpu):
    """GIVEN no permission to lock or unlock clocks THEN that is the only error, at the end too."""
    name, machine = gpu
    for call in ("nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks"):
        machine.append(f"at 0 fail {call} 4")
    with LimitChanges(name) as changes, pytest.raises(MeterError, match="have an administrator permit it"):
        changes.set(Limit(clock_mhz=1200))
    assert now(name) == (650, 1980)


def test_what_cannot_be_put_back_says_what_to_run(gpu):
    """WHEN the driver permits the change and then nothing more THEN the command is named that puts it back."""
    name, machine = gpu
    with LimitChanges(name) as changes:
        changes.set(Limit(power_w=400))
        machine.append("at 0 fail nvmlDeviceSetPowerManagementLimit 4")
        with pytest.raises(MeterError, match=f"run nvidia-smi -i {name} -pl 650"):
            changes.__exit__(None, None, None)
        machine.append("at 0 fail nvmlDeviceSetPowerManagementLimit 0")
    assert now(name) == (650, 1980)


def test_two_processes_do_not_change_one_gpu(gpu):
    """GIVEN a process that changes a GPU's limits THEN another is refused: it would put back the first's."""
    name, _ = gpu
    with (
        LimitChanges(name),
        pytest.raises(MeterError, match="another process changes the limits"),
        LimitChanges(name),
    ):
        pass


def test_a_limit_that_the_driver_ignores_is_an_error(gpu, monkeypatch):
    """GIVEN a driver that says yes and changes nothing THEN the limit is not taken for set."""
    name, _ = gpu
    adjustable = AdjustableGpu(name)
    monkeypatch.setattr(adjustable.board.nvml, "nvmlDeviceSetPowerManagementLimit", lambda *_: None)
    with pytest.raises(MeterError, match="stays at 650 W, and not 400 W"):
        adjustable.set(Limit(power_w=400))
