"""NVML: the board's facts, and the meter that reads its total-energy counter through the sampler process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Self

import numpy as np

from energyscope.errors import MeterError
from energyscope.metering.meter import require_ticks
from energyscope.metering.ticks import Array, Ticks, sensor_facts

FIRST_TICKS_S = 1.0
FIRST_TICKS_TIMEOUT_S = 15.0
BUSY = 0.05
PIPE_BYTES = 1 << 20  # some eight minutes of ticks: nobody needs to read them during a window


class Board:
    """One GPU as NVML sees it. Units are in the method names; what a board does not answer is None."""

    def __init__(self, uuid: str) -> None:
        self.nvml = load_nvml()
        self.uuid = uuid
        try:
            self.handle = self.nvml.nvmlDeviceGetHandleByUUID(uuid)
        except self.nvml.NVMLError as error:
            raise MeterError(f"NVML does not know the GPU {uuid}: {error}") from error

    def energy_mj(self) -> float:
        """Return the energy (mJ) drawn since the driver was loaded."""
        return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle))

    def probe(self) -> None:
        """Raise MeterError if the board's energy counter cannot be read; tried, not looked up by generation."""
        try:
            self.energy_mj()
        except self.nvml.NVMLError as error:
            raise MeterError(
                f"the energy counter of this GPU cannot be read ({error}): boards before Volta have none; "
                "--meter modelled goes on without it"
            ) from error

    def state(self) -> dict[str, Any]:
        """Return power (W, the driver's average), SM clock (MHz), temperature (C) and throttle reasons."""
        nvml = self.nvml
        power = self._ask(nvml.nvmlDeviceGetPowerUsage)
        return {
            "power_w": None if power is None else power / 1e3,
            "sm_clock_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            "temperature_c": self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            "throttle": self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons),
        }

    def facts(self) -> dict[str, Any]:
        """Return the board's name, driver, limits, MIG mode and processes."""
        nvml = self.nvml
        limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit)
        mig = self._ask(nvml.nvmlDeviceGetMigMode)
        processes = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo)
        utilisation = self._ask(nvml.nvmlDeviceGetUtilizationRates)
        return {
            "name": self._ask(nvml.nvmlDeviceGetName),
            "uuid": self.uuid,
            "driver": self._or_none(nvml.nvmlSystemGetDriverVersion),
            "power_limit_w": None if limit is None else limit / 1e3,
            "mig": None if mig is None else bool(mig[0]),
            "persistence": self._ask(nvml.nvmlDeviceGetPersistenceMode),
            "processes": None if processes is None else [process.pid for process in processes],
            "memory_used_bytes": None if memory is None else int(memory.used),
            "utilisation": None if utilisation is None else utilisation.gpu / 100,
        }

    def _ask(self, function: Any, *arguments: Any) -> Any:
        return self._or_none(function, self.handle, *arguments)

    def _or_none(self, function: Any, *arguments: Any) -> Any:
        """Call NVML; a question that this board does not answer gives None."""
        try:
            return function(*arguments)
        except self.nvml.NVMLError:
            return None


class NvmlMeter:
    """The energy counter of one GPU, watched by a sampler process of its own.

    The window is long enough for at least two full ticks of 100 ms after the one that is dropped.
    """

    name = "nvml"
    modelled = False
    settle_s = 0.0

    def __init__(self, gpu_uuid: str) -> None:
        self.device = gpu_uuid
        self.board = Board(gpu_uuid)
        self.board.probe()
        self.window_s = 0.42
        self.records: list[dict[str, Any]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        command = sampler_command(self.board.uuid)
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)
            with contextlib.suppress(OSError):  # a user may be allowed less
                fcntl.fcntl(self._process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            self._await_first_ticks()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _await_first_ticks(self) -> None:
        begin = time.monotonic()
        while time.monotonic() - begin < FIRST_TICKS_TIMEOUT_S:
            time.sleep(0.05)
            self._drain()
            if self.records and time.monotonic() - self.records[0]["after_s"] >= FIRST_TICKS_S:
                break
        require_ticks(self._all(), FIRST_TICKS_TIMEOUT_S)
        period = sensor_facts(self._all())["tick_period_s"]
        if period:  # up to one period until the first tick, one dropped, at least two used
            self.window_s = max(0.3, 4.2 * period)

    def ticks(self, begin_s: float, end_s: float) -> Ticks:
        self._drain()
        return self._all().between(begin_s, end_s)

    def describe(self) -> dict[str, Any]:
        ticks = self._all()
        reads = [record["read_s"] for record in self.records]
        return {
            "meter": self.name,
            "modelled": False,
            "watts": None,
            **sensor_facts(ticks),
            "read_cost_s": float(np.median(reads)) if reads else None,
            "notes": ["NVML total-energy counter, polled by a separate process"],
        }

    def states(self, begin_s: float, end_s: float) -> list[dict[str, Any]]:
        return [record for record in self.records if begin_s <= record["after_s"] <= end_s]

    def bystanders(self, own_bytes: int | None = None) -> list[str]:
        facts = self.board.facts()
        others = [pid for pid in facts["processes"] or [] if pid != os.getpid()]
        found = [f"process {pid} also uses this GPU" for pid in others]
        if facts["utilisation"] is not None and facts["utilisation"] > BUSY:
            found.append(f"the GPU was {facts['utilisation']:.0%} busy while nothing of ours ran")
        return found

    def _all(self) -> Ticks:
        def column(name: str) -> Array:
            return np.array([record[name] for record in self.records], dtype=float)

        reset = np.array([record["reset"] for record in self.records], dtype=bool)
        return Ticks(column("before_s"), column("after_s"), column("energy_mj"), reset)

    def _drain(self) -> None:
        """Take what the sampler wrote. The pipe buffers it, so that nothing runs here during a window."""
        process = self._process
        if process is None or process.stdout is None:
            raise MeterError("the meter is not started: use it in a with statement")
        while chunk := process.stdout.read(65536):
            self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            record = json.loads(line)
            if "lost" in record:
                raise MeterError(f"the GPU's energy counter was lost: {record['lost']}")
            self.records.append(record)
        if process.poll() is not None:
            message = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
            last = message.splitlines()[-1] if message else "no message"
            raise MeterError(f"the sampler process ended ({process.returncode}): {last}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def sampler_command(uuid: str) -> list[str]:
    """Return the command of the process that watches a GPU's counter."""
    return [sys.executable, "-m", "energyscope.metering.sampler", uuid]


def load_nvml() -> Any:
    """Import and initialise NVML.

    Raises:
        MeterError: the library or the driver is missing.

    """
    try:
        import pynvml
    except ImportError as error:
        raise MeterError("the NVML binding is missing: pip install nvidia-ml-py") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise MeterError(f"NVML cannot be used ({error}): is an NVIDIA driver installed?") from error
    return pynvml
