"""The phases of a generation, each by the method that its length allows. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.generation.loop import joined, mean_of, mean_window
from energyscope.generation.trace import FittedEnergy
from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.unknown import mean, minus, total

Entry = Mapping[str, Any]

NO_DECODE = reason("one-new-token")
NO_ENERGY = reason("no-window-with-energy")
COLUMNS = ("method", "seconds", "energy_j", "static_j", "dynamic_j", "power_w", "tokens", "joules_per_token",
           "devices_j", "reason")  # fmt: skip


def phase(name: str, **known: Any) -> dict[str, Any]:
    """Return a phase of the document; what is not given is None."""
    return {"phase": name, **dict.fromkeys(COLUMNS), **known}


def load_phase(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the load, from its journal entry: the counter's rise over it, between bounds."""
    entry = next((entry for entry in reversed(entries) if entry.get("phase") == "load"), None)
    if entry is None:
        return phase("load", reason=reason("loading-not-metered"))
    seconds = float(entry["end_s"]) - float(entry["begin_s"])
    devices = entry["devices"]
    energy, low, high = (total([device[bound] for device in devices]) for bound in ("energy_j", "low", "high"))
    if energy is None:
        why = next(device["reason"] for device in devices if device["energy_j"] is None)
        return phase("load", seconds=Interval(seconds), reason=why)
    joules = Interval(energy, low, high)
    return phase(
        "load",
        method="traced",
        seconds=Interval(seconds),
        energy_j=joules,
        power_w=joules.scaled(1 / seconds) if seconds > 0 else None,
        devices_j=[device["energy_j"] for device in devices],
    )


def traced_phase(
    name: str, fitted: FittedEnergy, each_s: Sequence[float], tokens: int, idle_w: float | None
) -> dict[str, Any]:
    """Return the prefill or the decode of a mean generation; ``each_s`` are the seconds of every generation's."""
    seconds, power = mean_of(each_s), fitted.interval()
    energy = fitted.interval(seconds)
    if seconds is None or energy is None or power is None:
        return phase(name, seconds=seconds, tokens=tokens or None, reason=fitted.reason)
    return phase(
        name,
        method="regressed",
        seconds=seconds,
        energy_j=energy,
        power_w=power.scaled(1 / seconds.value) if seconds.value else None,
        **_static(energy, seconds, idle_w),
        tokens=tokens or None,
        joules_per_token=energy.scaled(1 / tokens) if tokens else None,
        devices_j=list(fitted.devices or ()),
    )


def repeated_phase(name: str, entries: Sequence[Entry], idle_w: float | None, why_not: str) -> dict[str, Any]:
    """Return a phase that was repeated in windows; ``why_not`` is the reason where there is no window."""
    own = [entry for entry in entries if entry.get("phase") == name]
    measured = [entry for entry in own if "windows" in entry]
    if not measured:
        return phase(name, reason=next((entry["reason"] for entry in own if entry.get("reason")), why_not))
    figures = mean_window([joined(entry) for entry in measured])
    seconds, energy = figures["seconds"], figures["energy_mj"]
    energy = energy and energy.scaled(1e-3)
    tokens = int(measured[-1]["tokens"])
    return phase(
        name,
        method="repeated" if energy else None,
        seconds=seconds,
        energy_j=energy,
        **_static(energy, seconds, idle_w),
        power_w=figures["power_w"],
        tokens=tokens,
        joules_per_token=energy.scaled(1 / tokens) if energy and tokens else None,
        devices_j=_devices(measured) if energy else None,
        reason=None if energy else figures["reason"] or NO_ENERGY,
    )


def _static(energy: Interval | None, seconds: Interval | None, idle_w: float | None) -> dict[str, float | None]:
    """Return idle power x time, and the energy beyond it (J)."""
    static = seconds.value * idle_w if seconds and idle_w is not None else None
    return {"static_j": static, "dynamic_j": minus(energy.value if energy else None, static)}


def _devices(entries: Sequence[Entry]) -> list[float] | None:
    """Return the mean energy of each device (J); None where one has none."""
    by_device = zip(*([record["energy_mj"] for record in entry["windows"]] for entry in entries), strict=True)
    means = [mean(energies) for energies in by_device]
    return None if None in means else [value / 1e3 for value in means if value is not None]
