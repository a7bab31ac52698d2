"""The phases of a generation as plain data, each by the method that its length allows. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.generating import figures
from energyscope.generating.figures import Figure, mean_of, phase, scaled, value_of
from energyscope.generating.marks import Mark
from energyscope.generating.trace import Traced, Value
from energyscope.metering.estimate import Window
from energyscope.metering.group import together
from energyscope.reasons import reason
from energyscope.unknown import mean, minus, times, total

Entry = Mapping[str, Any]

NO_DECODE = reason("one-new-token")
NO_ENERGY = reason("no-window-with-energy")


@dataclass(frozen=True)
class GenerationShape:
    """What the phases of one journal share; ``idle_w`` is None on a modelled meter."""

    prompt_tokens: int
    new_tokens: int
    batch_size: int
    idle_w: float | None


def load_phase(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the load, from its journal entry: the counter's rise over it, between bounds."""
    entry = next((entry for entry in reversed(entries) if entry.get("phase") == "load"), None)
    if entry is None:
        return phase("load", reason=reason("loading-not-metered"))
    seconds = float(entry["end_s"]) - float(entry["begin_s"])
    devices = entry["devices"]
    known: dict[str, Any] = {"seconds": figures.figure(seconds, None)}
    energy = total([device["energy_j"] for device in devices])
    if energy is None:
        why = next(device["reason"] for device in devices if device["energy_j"] is None)
        return phase("load", **known, reason=why)
    joules: Figure = {
        "value": energy,
        **{end: total([device[end] for device in devices]) for end in ("low", "high")},
    }
    known |= {"energy_j": joules, "power_w": scaled(joules, 1 / seconds) if seconds > 0 else None}
    return phase("load", method="traced", **known, devices_j=[device["energy_j"] for device in devices])


def traced_phases(traced: Traced, setting: GenerationShape) -> list[dict[str, Any]]:
    """Return the prefill and the decode, a mean generation's."""
    prefill_s, decode_s = phase_seconds(traced.marks)
    tokens = setting.batch_size * setting.prompt_tokens
    prefill = _regressed("prefill", traced.prefill_j(), prefill_s, tokens, setting)
    steps = setting.new_tokens - 1
    if steps == 0:
        return [prefill, phase("decode", reason=NO_DECODE)]
    return [prefill, _regressed("decode", traced.decode_j(), decode_s, setting.batch_size * steps, setting)]


def untraced_phases(marks: Sequence[Mark], setting: GenerationShape, why: str) -> list[dict[str, Any]]:
    """Return prefill and decode with their seconds alone, and why nothing else is known."""
    prefill_s, decode_s = phase_seconds(marks)
    tokens = setting.batch_size * setting.prompt_tokens, setting.batch_size * (setting.new_tokens - 1)
    prefill = phase("prefill", seconds=prefill_s, tokens=tokens[0], reason=why)
    if setting.new_tokens == 1:
        return [prefill, phase("decode", reason=NO_DECODE)]
    return [prefill, phase("decode", seconds=decode_s, tokens=tokens[1], reason=why)]


def phase_seconds(marks: Sequence[Mark]) -> tuple[Figure | None, Figure | None]:
    """Return the mean seconds of prefill and decode."""
    return mean_of([mark.prefill_s for mark in marks]), mean_of([mark.decode_s for mark in marks])


def _regressed(
    name: str, traced: Value, seconds: Figure | None, tokens: int, setting: GenerationShape
) -> dict[str, Any]:
    if traced.value is None:
        return phase(name, seconds=seconds, tokens=tokens, reason=traced.reason)
    energy = figures.widened(traced.value, traced.half, seconds)
    length = value_of(seconds)
    power = figures.figure(traced.value, traced.half)
    return phase(
        name,
        method="regressed",
        seconds=seconds,
        energy_j=energy,
        power_w=scaled(power, 1 / length) if length else None,
        **_static(traced.value, length, setting.idle_w),
        tokens=tokens,
        joules_per_token=scaled(energy, 1 / tokens),
        devices_j=list(traced.devices or ()),
    )


def _static(energy_j: float | None, seconds: float | None, idle_w: float | None) -> dict[str, float | None]:
    static = None if idle_w is None else times(seconds, idle_w)
    return {"static_j": static, "dynamic_j": minus(energy_j, static)}


def repeated_phase(name: str, entries: Sequence[Entry], setting: GenerationShape, why_not: str) -> dict[str, Any]:
    """Return a phase that was repeated in windows; ``why_not`` is the reason where there is no window."""
    own = [entry for entry in entries if entry.get("phase") == name]
    refused = next((entry["reason"] for entry in own if entry.get("reason")), None)
    taken = [entry for entry in own if "windows" in entry]
    if not taken:
        return phase(name, reason=refused or why_not)
    windows = [joined(entry) for entry in taken]
    floor = mean([window.timing_share for window in windows]) or 0.0
    energy = scaled(mean_of([window.energy_mj for window in windows], floor=floor), 1e-3)
    seconds = scaled(mean_of([window.time_us for window in windows]), 1e-6)
    tokens = int(taken[-1]["tokens"])
    return phase(
        name,
        method="repeated" if energy else None,
        seconds=seconds,
        energy_j=energy,
        **_static(value_of(energy), value_of(seconds), setting.idle_w),
        power_w=mean_of([window.power_w for window in windows], floor=floor),
        tokens=tokens,
        joules_per_token=scaled(energy, 1 / tokens) if tokens else None,
        devices_j=_devices(taken) if energy else None,
        reason=None if energy else next((window.reason for window in windows if window.reason), NO_ENERGY),
    )


def joined(entry: Entry) -> Window:
    """Return the window of a journal entry, over all devices."""
    return together([Window(**record) for record in entry["windows"]])


def _devices(entries: Sequence[Entry]) -> list[float] | None:
    by_device = zip(*([record["energy_mj"] for record in entry["windows"]] for entry in entries), strict=True)
    means = [mean(list(values)) for values in by_device]
    known = [value / 1e3 for value in means if value is not None]
    return known if len(known) == len(means) else None
