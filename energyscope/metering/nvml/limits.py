"""A GPU's power limit and SM clock, changed for a sweep and put back however the sweep ends.

A process of its own changes them and puts them back. It ends when its standard input closes, and that closes with
the sweep, also where SIGKILL ended it:

    sweep   {"power_w": 400}  -->  watchdog  -->  NVML
            {}                <--          it holds now
            (closes)          -->  puts back what it found, and ends

A power limit is put back as it was found. NVML does not tell which clocks were locked before: they are unlocked.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import IO, Any, Self, cast

from energyscope.errors import MeterError, UsageError
from energyscope.metering.nvml.binding import explained
from energyscope.metering.nvml.board import Board

ANSWER_S = 20.0  # the first answer comes after Python and NVML have started


@dataclass(frozen=True)
class Limit:
    """What a GPU is held to: a power limit (W), or its SM clock locked (MHz); neither: as it was found."""

    power_w: float | None = None
    clock_mhz: float | None = None

    def __str__(self) -> str:
        if self.power_w is not None:
            return f"{self.power_w:g} W"
        return "" if self.clock_mhz is None else f"{self.clock_mhz:g} MHz"

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the limit that ``str`` made this text of."""
        number, _, unit = text.partition(" ")
        return cls() if not text else cls(power_w=float(number)) if unit == "W" else cls(clock_mhz=float(number))


class AdjustableGpu:
    """A GPU whose limits can be set.

    ``found_w`` is the power limit (W) to put back: None is the one that it has, while no clock is locked by us.

    Raises:
        MeterError: it is not known, or has no power limit.

    """

    def __init__(self, uuid: str, found_w: float | None = None) -> None:
        self.board = Board(uuid)
        self.found_w = self._power_mw() / 1e3 if found_w is None else found_w
        self._clock_locked = found_w is not None

    def facts(self) -> dict[str, Any]:
        """Return the power limit that was found, the default and the range (W), and the highest clock (MHz)."""
        least, most = self._call("read", "power limits", "nvmlDeviceGetPowerManagementLimitConstraints")
        default = self._call(
            "read", "default power limit", "nvmlDeviceGetPowerManagementDefaultLimit"
        )  # laws need it
        sm = self.board.nvml.NVML_CLOCK_SM
        top = self._call("read", "highest clock", "nvmlDeviceGetMaxClockInfo", sm)
        watts = {"default_w": default / 1e3, "least_w": least / 1e3, "most_w": most / 1e3}
        return {"found_w": self.found_w, **watts, "top_mhz": float(top)}

    def set(self, limit: Limit) -> None:
        """Hold the GPU to a limit alone: the other kind is put back.

        Raises:
            MeterError: the driver refuses it, or another power limit holds afterwards.

        """
        self.restore()
        if limit.clock_mhz is not None:
            mhz = round(limit.clock_mhz)
            self._clock_locked = True  # before it is: a signal may come in between
            try:
                self._call("set", "clock", "nvmlDeviceSetGpuLockedClocks", mhz, mhz)
            except MeterError:
                self._clock_locked = False  # who may not lock it may not unlock it either
                raise
        if limit.power_w is not None:
            self._set_power(limit.power_w)

    def restore(self) -> None:
        """Put back what was found.

        Raises:
            MeterError: the driver refuses it.

        """
        try:
            if self._clock_locked:
                self._call("set", "clock", "nvmlDeviceResetGpuLockedClocks")
                self._clock_locked = False
        finally:
            self._set_power(self.found_w)

    def _set_power(self, watts: float) -> None:
        milliwatts = round(watts * 1e3)
        if self._power_mw() != milliwatts:
            self._call("set", "power limit", "nvmlDeviceSetPowerManagementLimit", milliwatts)
            if (now := self._power_mw()) != milliwatts:
                raise MeterError(f"the power limit of this GPU stays at {now / 1e3:g} W, and not {watts:g} W")

    def _power_mw(self) -> int:
        return int(self._call("read", "power limit", "nvmlDeviceGetPowerManagementLimit"))

    def _call(self, verb: str, what: str, name: str, *arguments: Any) -> Any:
        nvml = self.board.nvml
        function: Callable[..., Any] = getattr(nvml, name)
        try:
            return function(self.board.handle, *arguments)
        except nvml.NVMLError as error:
            raise explained(f"the {what} of this GPU cannot be {verb}", error) from error


class LimitChanges:
    """Changes the limits of one GPU while the context lasts; ``facts`` are those of `AdjustableGpu`.

    Raises:
        MeterError: the limits cannot be read, or another process changes them.

    """

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "energyscope.metering.nvml.watchdog", self.uuid]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C and what kills the sweep's group leave it alone
        )
        self._asks, self._answers = (cast("IO[str]", pipe) for pipe in (self._process.stdin, self._process.stdout))
        try:
            self.facts = self._answer()
        except BaseException:
            self._end()
            raise
        return self

    def set(self, limit: Limit) -> None:
        """Hold the GPU to a limit, and return when it holds.

        Raises:
            MeterError: the driver refuses it, or the watchdog is gone.

        """
        with suppress(BrokenPipeError):  # its answer, which is none, says that it is gone
            self._asks.write(json.dumps(asdict(limit)) + "\n")
            self._asks.flush()
        self._answer()

    def require(self, limits: Iterable[Limit]) -> None:
        """Refuse limits that the GPU cannot be held to, before anything is changed.

        Raises:
            UsageError: one is out of the range that the driver allows.

        """
        least_w, most_w, top_mhz = (self.facts[name] for name in ("least_w", "most_w", "top_mhz"))
        for limit in limits:
            if limit.power_w is not None and not least_w <= limit.power_w <= most_w:
                raise UsageError(f"this GPU takes power limits of {least_w:g} to {most_w:g} W, not {limit}")
            if limit.clock_mhz is not None and limit.clock_mhz > top_mhz:
                raise UsageError(f"the SM clock of this GPU is at most {top_mhz:g} MHz, not {limit}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._end() != 0:  # killed, or refused: this process tries, and says what to do where it fails too
            self._restore_here()

    def _end(self) -> int:
        """Let the watchdog put the limits back, and return its exit status."""
        with suppress(BrokenPipeError):
            self._asks.close()
        try:
            return self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._answers.close()

    def _restore_here(self) -> None:
        found_w = self.facts.get("found_w")
        if found_w is None:
            return
        try:
            AdjustableGpu(self.uuid, found_w).restore()
        except MeterError as error:
            by_hand = f"nvidia-smi -i {self.uuid} -pl {found_w:g}; nvidia-smi -i {self.uuid} -rgc"
            raise MeterError(f"the limits of {self.uuid} were not put back ({error}): run {by_hand}") from error

    def _answer(self) -> dict[str, Any]:
        """Return what the watchdog says next."""
        ready, _, _ = select.select([self._answers], [], [], ANSWER_S)
        line = self._answers.readline() if ready else ""
        if not line:
            raise MeterError(
                "the process that changes the limits of the GPU is gone or does not answer: try again"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise MeterError(answer["error"])
        return answer
