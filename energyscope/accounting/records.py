"""What the entries of a profile's journal say. Pure functions over plain data."""

from __future__ import annotations

import functools
import operator
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from energyscope.reasons import Reason, read, reason

Entry = Mapping[str, Any]

MODEL = "node:model"
THERMAL = 0x08 | 0x20 | 0x40 | 0x80  # NVML's hardware slow-down, thermal and power-brake bits
POWER_CAP = 0x04
CLOCKS_APART = 0.01
SLOW = 1.25  # a stall of the host, far outside of what windows of one component differ by


def board(states: Sequence[Entry]) -> dict[str, Any]:
    """Return the boards' mean SM clock (MHz), highest temperature (C), power limit (W) and all throttle bits."""
    clocks = _known(states, "sm_clock_mhz")
    throttle = _known(states, "throttle")
    return {
        "clock_mhz": sum(clocks) / len(clocks) if clocks else None,
        "temperature_c": max(_known(states, "temperature_c"), default=None),
        "power_limit_w": min(_known(states, "power_limit_w"), default=None),
        "throttle": functools.reduce(operator.or_, throttle) if throttle else None,
    }


def _known(states: Sequence[Entry], key: str) -> list[Any]:
    return [state[key] for state in states if state.get(key) is not None]


def contamination(entry: Entry, before: Sequence[Entry]) -> list[Reason]:
    """Return what spoilt a window: heat, a changed power limit, a counter at fault."""
    reasons = []
    if (entry.get("throttle") or 0) & THERMAL:
        reasons.append(reason("slowed-by-heat"))
    limits = _known([*before, entry], "power_limit_w")
    if entry.get("power_limit_w") is not None and entry["power_limit_w"] != limits[0]:
        reasons.append(reason("power-limit-changed", before_w=limits[0], now_w=entry["power_limit_w"]))
    if entry["window"]["energy_mj"] is None and entry["window"].get("reason"):
        reasons.append(read(entry["window"]["reason"]))
    return reasons


def worth_again(entry: Entry, before: Sequence[Entry]) -> bool:
    """Whether a spoilt window may come out clean if it is taken again.

    A power limit that was the same in the window before is there to stay.
    """
    last = next((item for item in reversed(before) if "window" in item), None)
    stays = last is not None and last.get("power_limit_w") == entry.get("power_limit_w")
    guards = [read(item).code for item in entry.get("guard") or ()]
    return any(not (stays and code == "power-limit-changed") for code in guards)


def slowed_by_cap(entry: Entry, before: Sequence[Entry]) -> bool:
    """Whether the power cap held a window at lower clocks than the model's latest one, by more than 1 %.

    Never the model's own: how it runs under the cap is what is measured.
    """
    if entry["subject"] == MODEL:
        return False
    clocked = (item for item in reversed(before) if item.get("subject") == MODEL and item.get("clock_mhz"))
    model = next(clocked, None)
    clock = entry.get("clock_mhz")
    capped = (entry.get("throttle") or 0) & POWER_CAP and entry["window"]["time_us"] is not None
    return bool(capped and model and clock and clock < (1 - CLOCKS_APART) * model["clock_mhz"])


def windows(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the entries that hold a window, of targets that were given pauses only those with pauses."""
    rested = {entry["subject"] for entry in entries if "rest_us" in entry}
    return (
        entry for entry in entries if "window" in entry and ("rest_us" in entry or entry["subject"] not in rested)
    )


def energies(entries: Sequence[Entry]) -> dict[str, list[float | None]]:
    """Return each target's energies per call (mJ) by pass; a window taken again replaces the one before."""
    energies: dict[str, dict[int, float | None]] = defaultdict(dict)
    for entry in windows(entries):
        energies[entry["subject"]][entry["pass"]] = entry["window"]["energy_mj"]
    return {key: [by_pass[number] for number in sorted(by_pass)] for key, by_pass in energies.items()}


def seconds(entries: Sequence[Entry]) -> dict[str, float]:
    """Return the seconds that each target's windows took (median), what was subtracted from them included."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for entry in windows(entries):
        seconds[entry["subject"]].append(entry["window"]["seconds"])
    return {key: statistics.median(group) for key, group in seconds.items()}


def slow_windows(entries: Sequence[Entry], *, limit: int) -> list[tuple[str, int]]:
    """Return (target, pass) of windows that took much longer than their target's median, the slowest first.

    Only gross stalls: taking again whatever was a little slow would cut off a tail of the ordinary scatter, and
    the interval would be too narrow.
    """
    times: dict[str, dict[int, float]] = defaultdict(dict)
    for entry in windows(entries):
        if entry["window"]["time_us"] is not None:
            times[entry["subject"]][entry["pass"]] = entry["window"]["time_us"]
    excess = [
        (time_us / statistics.median(group.values()), key, number)
        for key, group in times.items()
        for number, time_us in group.items()
    ]
    stalled = sorted((pair for pair in excess if pair[0] > SLOW), reverse=True)
    return [(key, number) for _, key, number in stalled[:limit]]


def beside_bystanders(entries: Sequence[Entry]) -> list[tuple[Entry, list[str]]]:
    """Return every window with what else was found on the device in the idle time before or after it.

    Replay itself fills the device, so other users can only be looked for while nothing of ours runs.
    """
    pairs: list[tuple[Entry, list[str]]] = []
    waiting: list[Entry] = []
    before: list[str] = []
    for entry in entries:
        if "window" in entry:
            waiting.append(entry)
        elif "bystanders" in entry:
            pairs += [(window, sorted({*before, *entry["bystanders"]})) for window in waiting]
            waiting, before = [], list(entry["bystanders"])
    return [*pairs, *((window, before) for window in waiting)]


def contaminated_windows(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """Return (target, pass) of the windows beside which something else used the device."""
    disturbed = [window for window, others in beside_bystanders(entries) if others]
    return list(dict.fromkeys((window["subject"], window["pass"]) for window in disturbed))


def idle_power(entries: Sequence[Entry]) -> float | None:
    """Return the mean idle power (W) over the passes, None where it was not measured.

    Where something else used the device, its power is not the board's idle power: those times count only if
    there is no other.
    """
    alone = [entry for entry in entries if not entry.get("bystanders")]
    known = _known(alone, "idle_w") or _known(entries, "idle_w")
    return sum(known) / len(known) if known else None


def passes_of(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return each pass's idle power (W) and anchor (the whole model, mJ per forward pass)."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if "pass" not in entry:
            continue
        row = rows.setdefault(entry["pass"], {"index": entry["pass"], "idle_w": None, "anchor_mj": None})
        if "idle_w" in entry:
            row["idle_w"] = entry["idle_w"]
        elif entry["subject"] == MODEL and "window" in entry:
            row["anchor_mj"] = entry["window"]["energy_mj"]
            row["begin_s"] = entry["begin_s"]
            row["clock_mhz"] = entry["clock_mhz"]
            row["temperature_c"] = entry["temperature_c"]
    return [rows[index] for index in sorted(rows)]


def bystanders_of(entries: Sequence[Entry]) -> list[str]:
    """Return what else used the device during the profile, each once."""
    return sorted({bystander for entry in entries for bystander in entry.get("bystanders", ())})
