"""Reading and judging the windows in a profile's journal: stalls, heat, other users. Pure functions."""

from __future__ import annotations

import functools
import itertools
import operator
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from energyscope.metering.beats import SPREAD
from energyscope.metering.interval import combine, drift, spread, usual
from energyscope.reasons import Reason, read, reason
from energyscope.unknown import mean

Entry = Mapping[str, Any]

MODEL = "node:model"
APPLIED = "applied:"  # begins the subject of a whole model with changes applied
THERMAL = 0x08 | 0x20 | 0x40 | 0x80  # NVML's hardware slow-down, thermal and power-brake bits
POWER_CAP = 0x04
CLOCKS_APART = 0.01
HOST_BOUND = 0.02  # of a window that the host waits for the device; below it, the host is the bottleneck
LEAST_WINDOWS = 3  # whose power is compared
IDLE_CHANGE = 0.02  # relative; a smaller one over a run is not worth a word
OTHER_SPEED = 0.05  # of the canary's time: its two states are 17 % apart
TREND = 0.005  # of power, within a window
LEAST_TRENDS = 10  # windows
SAME_PACE = 0.005  # relative spread of the time of a call: the work is the same
SLOW = 1.25  # a stall of the host, far outside of what windows of one component differ by


def board(states: Sequence[Entry]) -> dict[str, Any]:
    """Return the boards' mean SM clock (MHz), highest temperature (C), power limit (W) and all throttle bits."""
    return {
        "clock_mhz": mean(_known(states, "sm_clock_mhz")),
        "temperature_c": max(_known(states, "temperature_c"), default=None),
        "power_limit_w": min(_known(states, "power_limit_w"), default=None),
        "throttle": any_bits(_known(states, "throttle")),
    }


def any_bits(values: Iterable[int | None]) -> int | None:
    """Return the union of bit sets, None where none is known."""
    known = [value for value in values if value is not None]
    return functools.reduce(operator.or_, known) if known else None


def at_power_limit(entries: Iterable[Entry]) -> bool | None:
    """Whether the power cap slowed most windows of a target; None where it is not known.

    One window alone may show the bit of the load before.
    """
    bits = [entry["throttle"] for entry in entries if entry.get("throttle") is not None]
    return 2 * sum(bool(each & POWER_CAP) for each in bits) > len(bits) if bits else None


def _known(states: Sequence[Entry], key: str) -> list[Any]:
    return [state[key] for state in states if state.get(key) is not None]


def contamination(entry: Entry, before: Sequence[Entry]) -> list[Reason]:
    """Return what disturbed a window: heat, a changed power limit, a counter at fault."""
    reasons = []
    if (entry.get("throttle") or 0) & THERMAL:
        reasons.append(reason("slowed-by-heat"))
    limits = _known([*before, entry], "power_limit_w")
    if entry.get("power_limit_w") is not None and entry["power_limit_w"] != limits[0]:
        reasons.append(reason("power-limit-changed", before_w=limits[0], now_w=entry["power_limit_w"]))
    if entry["window"]["energy_mj"] is None and entry["window"].get("reason"):
        reasons.append(read(entry["window"]["reason"]))
    return reasons


def should_retake(entry: Entry, before: Sequence[Entry]) -> bool:
    """Whether a disturbed window may be undisturbed if it is measured again.

    A power limit that was the same in the window before will not change back.
    """
    last = next((item for item in reversed(before) if "window" in item), None)
    limit_stays = last is not None and last.get("power_limit_w") == entry.get("power_limit_w")
    codes = [read(item).code for item in entry.get("guard") or ()]
    return any(not (limit_stays and code == "power-limit-changed") for code in codes)


def slowed_by_cap(entry: Entry, before: Sequence[Entry]) -> bool:
    """Whether the power cap held a window at lower clocks than the model's latest one, by more than 1 %.

    False for the whole model, as it is or with changes applied: how it runs under the cap is what is measured.
    """
    if entry["subject"] == MODEL or entry["subject"].startswith(APPLIED):
        return False
    model_windows = (item for item in reversed(before) if item.get("subject") == MODEL and item.get("clock_mhz"))
    model = next(model_windows, None)
    clock = entry.get("clock_mhz")
    capped = (entry.get("throttle") or 0) & POWER_CAP and entry["window"]["time_us"] is not None
    return bool(capped and model and clock and clock < (1 - CLOCKS_APART) * model["clock_mhz"])


def host_paced(entry: Entry) -> bool:
    """Whether the host set a window's pace, hardly ever waiting for the device; False where that is not known."""
    waited = entry.get("waited_share")
    return waited is not None and waited < HOST_BOUND


def scatters(entries: Sequence[Entry], key: str) -> bool:
    """Whether a target's power scatters, in a window or between them, as only a beat with the sensor makes it.

    The device must set the pace: a host that does makes power scatter by itself.
    """
    own = [entry for entry in windows(entries) if entry["subject"] == key]
    latest = own[-1] if own else {}
    if host_paced(latest):
        return False
    if (latest.get("tick_spread") or 0.0) > SPREAD:
        return True
    power = spread([entry["window"]["power_w"] for entry in own])
    pace = spread([entry.get("period_us") for entry in own])
    return len(own) >= LEAST_WINDOWS and (power or 0.0) > SPREAD and pace is not None and pace < SAME_PACE


def device_paced(entries: Sequence[Entry]) -> bool:
    """Whether the device sets the model's pace, by its latest window; False where that is not known."""
    waited = [entry.get("waited_share") for entry in windows(entries) if entry["subject"] == MODEL]
    return bool(waited) and waited[-1] is not None and waited[-1] >= HOST_BOUND


def windows(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the entries that hold a window; of targets replayed with pauses, only those with pauses."""
    paused = {entry["subject"] for entry in entries if "rest_us" in entry}
    return (
        entry for entry in entries if "window" in entry and ("rest_us" in entry or entry["subject"] not in paused)
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


def stalled_windows(entries: Sequence[Entry], *, limit: int) -> list[tuple[str, int]]:
    """Return (target, pass) of windows of quite another pace than their target's median, the furthest first.

    Only gross stalls, and windows that were too fast by as much: measuring slightly slow windows again, and never
    fast ones, would cut off one tail of the ordinary scatter.
    """
    times: dict[str, dict[int, float]] = defaultdict(dict)
    for entry in windows(entries):
        if entry["window"]["time_us"] is not None:
            times[entry["subject"]][entry["pass"]] = entry["window"]["time_us"]
    distances = [
        (max(time_us / middle, middle / time_us), key, number)
        for key, by_pass in times.items()
        if (middle := statistics.median(by_pass.values())) > 0
        for number, time_us in by_pass.items()
        if time_us > 0  # what is timed as a difference may be less
    ]
    stalled = sorted((item for item in distances if item[0] > SLOW), reverse=True)
    return [(key, number) for _, key, number in stalled[:limit]]


def main_canary_us(entries: Sequence[Entry]) -> float | None:
    """Return the canary's time (us) in the state in which the device was mostly; None where there is no canary."""
    seen = [value for entry in entries if "window" in entry for value in entry.get("canary_us") or ()]
    return statistics.median(seen) if seen else None


def _at_other_speed(entry: Entry, main_us: float | None) -> bool:
    seen = entry.get("canary_us") or ()
    return main_us is not None and any(abs(value / main_us - 1) > OTHER_SPEED for value in seen)


def windows_at_other_speed(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """Return (target, pass) of windows in which the device started kernels at another speed than mostly."""
    main_us = main_canary_us(entries)
    latest = {(entry["subject"], entry["pass"]): entry for entry in windows(entries)}
    return [which for which, entry in latest.items() if _at_other_speed(entry, main_us)]


def at_main_speed(entries: Sequence[Entry]) -> tuple[list[Entry], dict[str, list[Reason]]]:
    """Return the entries without windows at another speed than most, where a target has windows at that.

    Returns:
        The entries that are left, and what to say of targets: both speeds where both were seen, or that a target
        was only measured at the other one.

    """
    main_us = main_canary_us(entries)
    times: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for entry in windows(entries):
        if entry["window"]["time_us"] is not None:
            times[entry["subject"]][_at_other_speed(entry, main_us)].append(entry["window"]["time_us"])
    notes: dict[str, list[Reason]] = {}
    for key, (main, other) in times.items():
        if main and other:
            notes[key] = [reason("two-speeds", us=statistics.median(main), other_us=statistics.median(other))]
        elif other:
            notes[key] = [reason("other-speed")]
    left = [
        entry
        for entry in entries
        if "window" not in entry or not times[entry["subject"]][0] or not _at_other_speed(entry, main_us)
    ]
    return left, notes


def trend(entries: Sequence[Entry]) -> float | None:
    """Return by how much power changes within a window (relative), over all windows; None if not significantly."""
    trends = [
        entry["window"]["power_trend"]
        for entry in windows(entries)
        if entry["window"].get("power_trend") is not None and not entry.get("beats")
    ]
    estimate = combine(trends)
    if estimate.mean is None or estimate.low is None or estimate.high is None or len(trends) < LEAST_TRENDS:
        return None
    return estimate.mean if estimate.low > TREND or estimate.high < -TREND else None


def beside_bystanders(entries: Sequence[Entry]) -> list[tuple[Entry, list[str]]]:
    """Return every window with the other users of the device in the idle time before or after it.

    Replay itself fills the device, so other users show only while the device idles.
    """
    pairs: list[tuple[Entry, list[str]]] = []
    since_idle: list[Entry] = []
    before: list[str] = []
    for entry in entries:
        if "window" in entry:
            since_idle.append(entry)
        elif "bystanders" in entry:
            pairs += [(window, sorted({*before, *entry["bystanders"]})) for window in since_idle]
            since_idle, before = [], list(entry["bystanders"])
    return [*pairs, *((window, before) for window in since_idle)]


def contaminated_windows(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """Return (target, pass) of the windows beside which something else used the device."""
    disturbed = [window for window, others in beside_bystanders(entries) if others]
    return list(dict.fromkeys((window["subject"], window["pass"]) for window in disturbed))


@dataclass(frozen=True)
class IdlePower:
    """The idle power around each pass (W), its mean, and the 95 % half-width of that (None: unknown)."""

    mean_w: float
    half_w: float | None = 0.0
    by_pass: Mapping[int, float] = field(default_factory=dict)

    def during(self, number: int) -> float:
        """Return the idle power in a pass: the mean of that before and that after it."""
        around = [self.by_pass[each] for each in (number, number + 1) if each in self.by_pass]
        return statistics.fmean(around) if around else self.mean_w

    @property
    def change(self) -> float | None:
        """The relative change from the first to the last value, None if it is small or within their scatter."""
        trend = drift(list(self.by_pass), list(self.by_pass.values()))
        return (
            trend.change if trend is not None and trend.significant and abs(trend.change) > IDLE_CHANGE else None
        )


def idle_of(entries: Sequence[Entry]) -> IdlePower | None:
    """Return the idle power around the passes, None where it was not measured.

    Its half-width is unknown below three values: Student's of two is no use. Idle times in which something else
    used the device count only if there are no others, and spikes do not: a board at rest takes some watts more or
    less now and then.
    """
    alone = [entry for entry in entries if entry.get("idle_w") is not None and not entry.get("bystanders")]
    chosen = alone or [entry for entry in entries if entry.get("idle_w") is not None]
    kept = itertools.compress(chosen, usual(_known(chosen, "idle_w")))
    by_pass = {entry["pass"]: entry["idle_w"] for entry in kept}
    estimate = combine(list(by_pass.values()))
    if estimate.mean is None:
        return None
    known = estimate.low is not None and estimate.high is not None and len(by_pass) > 2
    return IdlePower(estimate.mean, (estimate.high - estimate.low) / 2 if known else None, by_pass)  # type: ignore[operator]


def host_idle_power(entries: Sequence[Entry]) -> float | None:
    """Return the mean power (W) of the host in the idle times of a profile; None where it was not counted."""
    return mean(_known(entries, "host_idle_w"))


def idle_power(entries: Sequence[Entry]) -> float | None:
    """Return the mean idle power (W) over the passes, None where it was not measured.

    Which idle times count: see `idle_of`.
    """
    idle = idle_of(entries)
    return idle.mean_w if idle else None


def notes(entries: Sequence[Entry]) -> list[Reason]:
    """Return what to know of a phase's windows as a whole: idle power changed, or power did not settle."""
    idle, unsettled = idle_of(entries), trend(list(windows(entries)))
    changed = idle.change if idle else None
    return [
        *([reason("idle-changed", change=changed)] if changed is not None else []),
        *([reason("unsettled", trend=unsettled)] if unsettled is not None else []),
    ]


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
