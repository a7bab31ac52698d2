"""One GPU as NVML sees it: energy, power by each of its fields, and its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from energyscope.errors import MeterError
from energyscope.metering.nvml.binding import explained, load_nvml

PowerField = Literal["instant", "average", "usage"]

POWER_FIELDS: tuple[PowerField, ...] = ("instant", "average", "usage")
FIELD_IDS = {"instant": 186, "average": 185}  # NVML_FI_DEV_POWER_INSTANT, NVML_FI_DEV_POWER_AVERAGE
GPU_SCOPE, MEMORY_SCOPE = 0, 2  # NVML_POWER_SCOPE_GPU, NVML_POWER_SCOPE_MEMORY
SAME_POWER = 0.9  # of the board's power: no memory takes more
VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by NVML_VALUE_TYPE_*


class Board:
    """One GPU, by its UUID. Units are in the names; what a board does not answer is None in states and facts."""

    def __init__(self, uuid: str) -> None:
        self.nvml = load_nvml()
        self.uuid = uuid
        try:
            self.handle = self.nvml.nvmlDeviceGetHandleByUUID(uuid)
        except self.nvml.NVMLError as error:
            raise explained(f"NVML does not know the GPU {uuid}", error) from error

    def energy_mj(self) -> float:
        """Return the energy (mJ) drawn since the driver was loaded.

        Raises:
            LostGpuError: the GPU is gone.
            MeterError: this read failed.

        """
        return float(self._read("the energy counter", self.nvml.nvmlDeviceGetTotalEnergyConsumption))

    def power_w(self, field: PowerField) -> float:
        """Return the power (W) by one of NVML's fields.

        ``instant`` is the newest, a mean over at most one refresh; ``average`` and ``usage`` are moving averages
        over about a second on the boards that have both. A power of 0 is no answer: a board draws something.

        Raises:
            LostGpuError: the GPU is gone.
            MeterError: this read failed.

        """
        what = f"the {field} power"
        if field == "usage":
            milliwatts = float(self._read(what, self.nvml.nvmlDeviceGetPowerUsage))
        else:
            (milliwatts,) = self._read(what, self._fields, (FIELD_IDS[field], GPU_SCOPE))
        if milliwatts <= 0:
            raise MeterError(f"{what} reads {milliwatts / 1e3:g} W: this GPU does not measure it")
        return milliwatts / 1e3

    def power_or_none(self, field: PowerField) -> float | None:
        """Return the power (W) by a field, None where it does not answer."""
        try:
            return self.power_w(field)
        except MeterError:
            return None

    def memory_power_w(self) -> float:
        """Return the power (W) of the memory's modules alone, a part of the board's.

        Raises:
            LostGpuError: the GPU is gone.
            MeterError: this read failed, or the driver answers with the power of the whole board.

        """
        what, instant = "the power of the memory", FIELD_IDS["instant"]
        whole, memory = self._read(what, self._fields, (instant, GPU_SCOPE), (instant, MEMORY_SCOPE))
        if not 0 < memory < SAME_POWER * whole:
            raise MeterError(f"{what} reads {memory / 1e3:g} W of {whole / 1e3:g} W: this GPU does not measure it")
        return float(memory) / 1e3

    def memory_power_or_none(self) -> float | None:
        """Return the power (W) of the memory, None where it does not answer."""
        try:
            return self.memory_power_w()
        except MeterError:
            return None

    def _fields(self, handle: Any, *numbers: tuple[int, int]) -> list[float]:
        """Return fields by number and scope.

        Raises:
            NVMLError: one of them does not answer.

        """
        values = self.nvml.nvmlDeviceGetFieldValues(handle, list(numbers))
        for value in values:
            if value.nvmlReturn != self.nvml.NVML_SUCCESS:
                raise self.nvml.NVMLError(value.nvmlReturn)
        return [float(getattr(value.value, VALUE_TYPES[value.valueType])) for value in values]

    def _read(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(self.handle, *arguments)
        except self.nvml.NVMLError as error:
            raise explained(f"{what} of this GPU cannot be read", error) from error

    def power_field(self) -> PowerField:
        """Return the best power field that answers.

        Raises:
            MeterError: none does.

        """
        failures = []
        for field in POWER_FIELDS:
            try:
                self.power_w(field)
            except MeterError as error:
                failures.append(str(error))
            else:
                return field
        raise MeterError(f"no power field of this GPU answers: {failures[-1]}")

    def state(self) -> dict[str, Any]:
        """Return the board's state, for the record of a tick.

        ``power_w`` (the driver's average) and ``instant_w``, the SM clock (MHz), the temperature (C), throttle
        reasons (bits), the enforced power limit (W), memory used (bytes) and utilisation (0 to 1).
        """
        nvml = self.nvml
        return {
            "power_w": self.power_or_none("usage"),
            "instant_w": self.power_or_none("instant"),
            "sm_clock_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            "temperature_c": self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            "throttle": self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons),
            "power_limit_w": self._watts(nvml.nvmlDeviceGetEnforcedPowerLimit),
            **self.usage(),
        }

    def usage(self) -> dict[str, Any]:
        """Return memory used (bytes) and utilisation (0 to 1), by all processes together."""
        memory = self._ask(self.nvml.nvmlDeviceGetMemoryInfo)
        utilisation = self._ask(self.nvml.nvmlDeviceGetUtilizationRates)
        return {
            "memory_used_bytes": None if memory is None else int(memory.used),
            "utilisation": None if utilisation is None else utilisation.gpu / 100,
        }

    def processes(self) -> list[int] | None:
        """Return the ids of the processes that compute on this GPU; None if the board does not say."""
        processes = self._ask(self.nvml.nvmlDeviceGetComputeRunningProcesses)
        return None if processes is None else [process.pid for process in processes]

    def facts(self) -> dict[str, Any]:
        """Return the board's name, driver, power limits (W: set, default, lowest), MIG mode, processes and use."""
        nvml = self.nvml
        limits = self._ask(nvml.nvmlDeviceGetPowerManagementLimitConstraints)
        mig = self._ask(nvml.nvmlDeviceGetMigMode)
        persistence = self._ask(nvml.nvmlDeviceGetPersistenceMode)
        return {
            "name": self._ask(nvml.nvmlDeviceGetName),
            "uuid": self.uuid,
            "driver": self._or_none(nvml.nvmlSystemGetDriverVersion),
            "power_limit_w": self._watts(nvml.nvmlDeviceGetEnforcedPowerLimit),
            "default_power_limit_w": self._watts(nvml.nvmlDeviceGetPowerManagementDefaultLimit),
            "min_power_limit_w": None if limits is None else limits[0] / 1e3,
            "mig": None if mig is None else bool(mig[0]),
            "persistence": persistence,
            "processes": self.processes(),
            **self.usage(),
        }

    def _watts(self, function: Callable[..., Any]) -> float | None:
        milliwatts = self._ask(function)
        return None if milliwatts is None else milliwatts / 1e3

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._or_none(function, self.handle, *arguments)

    def _or_none(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call NVML; return None where this board does not answer."""
        try:
            return function(*arguments)
        except self.nvml.NVMLError:
            return None
