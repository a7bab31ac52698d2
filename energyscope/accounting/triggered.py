"""From the reads of triggered sampling to the energy table. Pure functions over plain data.

An energy is the counter's rise between two reads. It is unknown, never 0, where the component is shorter than
the counter's tick: whether a tick falls between the reads is then chance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.accounting import records
from energyscope.accounting.aggregate import Attribution, add_shares
from energyscope.accounting.measured import UNKNOWN
from energyscope.accounting.records import Entry
from energyscope.metering.grades import grade
from energyscope.metering.interval import Estimate, combine, spread
from energyscope.metering.ticks import MAXIMUM_W
from energyscope.reasons import Reason, join, reason
from energyscope.runs.schema import EnergyRow
from energyscope.unknown import mean, minus, total

SAMPLING = "triggered"
SIMPLE = reason("triggered-sampling")
TOO_SHORT = {"shorter-than-tick", "no-tick-between-reads"}
LONGEST_TICK_S = 1.0  # a rise may hold the energy drawn since the tick before


@dataclass(frozen=True)
class PassReading:
    """One component in one pass, summed over its calls; ``power_w`` is summed over the devices.

    ``energy_mj`` is None with a ``reason``; ``short``: the component is shorter than the counter's tick.
    ``naive_mj`` is the counter's plain rise, reliable or not.
    """

    energy_mj: float | None
    devices_mj: list[float | None]
    naive_mj: float | None
    time_us: float
    power_w: float | None
    short: bool
    reason: str | None


def is_triggered(entries: Sequence[Entry]) -> bool:
    """Whether a profile's journal holds reads and no replay."""
    return any(entry["header"].get("sampling") == SAMPLING for entry in entries if "header" in entry)


def recover(entries: Sequence[Entry]) -> Attribution:
    """Make the table of a journal's entries, of a finished or of an interrupted triggered profile."""
    header = next(entry["header"] for entry in entries if "header" in entry)
    passes = _by_component(entries)
    idle_w = records.idle_power(entries)
    guard = records.bystanders_of(entries)
    rows = []
    for component in header["tree"]:
        readings = [sum_reads(reads, header["ticks_s"]) for reads in passes.get(component["name"], ())]
        rows.append(_row(component, header, readings, idle_w, guard))
    add_shares(rows)
    return Attribution(rows, {})


def _by_component(entries: Sequence[Entry]) -> dict[str, list[list[Entry]]]:
    """Return each component's reads, pass by pass."""
    by_component: dict[str, dict[int, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        for read in entry.get("reads", ()):
            by_component[read["component"]][entry["pass"]].append(read)
    return {name: [by_pass[number] for number in sorted(by_pass)] for name, by_pass in by_component.items()}


def sum_reads(reads: Sequence[Entry], ticks_s: Sequence[float | None]) -> PassReading:
    """Add up the reads around the calls of one component in one pass; ``ticks_s`` are the devices' ticks (s)."""
    judged = [
        [judge(rise, read["time_us"], tick) for rise, tick in zip(read["rises_mj"], ticks_s, strict=True)]
        for read in reads
    ]
    reasons = sorted({problem for call in judged for _, problem in call if problem})
    devices = [total([energy for energy, _ in calls]) for calls in zip(*judged, strict=True)]
    rises = [rise for read in reads for rise in read["rises_mj"]]
    return PassReading(
        energy_mj=total(devices),
        devices_mj=devices,
        naive_mj=None if any(rise is not None and rise < 0 for rise in rises) else total(rises),
        time_us=sum(read["time_us"] for read in reads),
        power_w=mean([total(read["power_w"]) for read in reads]),
        short=any(problem.code in TOO_SHORT for problem in reasons),
        reason=join(reasons) or None,
    )


def judge(rise_mj: float | None, time_us: float, tick_s: float | None) -> tuple[float | None, Reason | None]:
    """Return the energy (mJ) of a counter's rise between two reads, or None and the reason.

    ``time_us`` is the time between the reads, ``tick_s`` the counter's tick (s; None: none, or unknown).
    """
    seconds = time_us / 1e6
    if rise_mj is None:
        return None, reason("counter-silent")
    if rise_mj < 0:
        return None, reason("counter-reset")
    if rise_mj > MAXIMUM_W * 1e3 * (seconds + (tick_s or LONGEST_TICK_S)):
        return None, reason("counter-jumped", kj=rise_mj / 1e6, seconds=seconds)
    if tick_s is not None and seconds < tick_s:
        return None, reason("shorter-than-tick", tick_s=tick_s)
    if rise_mj == 0:
        return None, reason("no-tick-between-reads")
    return rise_mj, None


def _row(
    component: Entry, header: Entry, passes: Sequence[PassReading], idle_w: float | None, guard: Sequence[str]
) -> EnergyRow:
    names = ("kind", "layer", "level", "parent", "calls", "flops", "bytes", "parameters", "weight_bytes")
    settings = ("phase", "precision", "execution", "batch_size", "context_length", "device", "meter")
    energy = _energy(passes)
    quality, reasons = _quality(passes, energy, guard)
    if component.get("work_reason"):
        reasons.append(reason("work-unknown", why=component["work_reason"]))
    return EnergyRow(
        component=component["name"],
        **{name: component[name] for name in names},
        executed_flops=component.get("executed_flops"),
        **{name: header[name] for name in settings},
        **_figures(passes, energy, idle_w),
        windows=energy.windows,
        passes=len(passes),
        quality=quality,
        reasons=join(reasons),
    )


def _energy(passes: Sequence[PassReading]) -> Estimate:
    """Return the mean over the passes; unknown where one was too short: a tick between the others is chance."""
    if any(reading.short for reading in passes):
        return UNKNOWN
    return combine([reading.energy_mj for reading in passes], first=len(passes))


def _figures(passes: Sequence[PassReading], energy: Estimate, idle_w: float | None) -> dict[str, Any]:
    """Return the measured columns, per forward pass."""
    time_us = mean([reading.time_us for reading in passes])
    static = None if idle_w is None or time_us is None else idle_w * time_us / 1e3
    devices = [mean(device) for device in zip(*(reading.devices_mj for reading in passes), strict=True)]
    listed = energy.mean is not None and len(devices) > 1
    return {
        "energy_mj": energy.mean,
        "energy_ci_low_mj": energy.low,
        "energy_ci_high_mj": energy.high,
        "static_mj": static,
        "dynamic_mj": minus(energy.mean, static),
        "time_us": time_us,
        "power_w": mean([reading.power_w for reading in passes]),
        "naive_mj": mean([reading.naive_mj for reading in passes]),
        "spread_between_passes": None
        if energy.mean is None
        else spread([reading.energy_mj for reading in passes]),
        "devices_mj": ";".join("" if value is None else f"{value:.6g}" for value in devices) if listed else None,
    }


def _quality(passes: Sequence[PassReading], energy: Estimate, guard: Sequence[str]) -> tuple[str, list[str]]:
    if not passes:
        return "invalid", [reason("ended-before-measured")]
    problems = sorted({reading.reason for reading in passes if reading.reason})
    if energy.mean is None:
        has_power = any(reading.power_w is not None for reading in passes)
        return "invalid", [*problems, *([reason("power-without-energy")] if has_power else []), SIMPLE]
    name, reasons = grade(energy.relative_half_width, energy.windows, guard)
    return name, [*reasons, *problems, SIMPLE]
