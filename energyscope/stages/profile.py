"""Profile: the energy of every component, by capture and replay, in shuffled interleaved passes.

One pass, over the host's clock::

    idle | model | shuffled subjects: a replay window each ... | idle | model | ...

The whole model is measured at the start, between passes and at the end (the anchors), so that a drift of
the board is seen and does not turn into a difference between components.
"""

from __future__ import annotations

import functools
import operator
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from energyscope.adapters import Granularity
from energyscope.components import Component, component_tree
from energyscope.loading import LoadedModel, parameter_count, weight_bytes
from energyscope.metering.estimate import Window, estimate_window
from energyscope.metering.meter import Meter
from energyscope.metering.ticks import mean_power
from energyscope.replay.capture import Capture, capture
from energyscope.replay.replayer import Replayer
from energyscope.replay.rotation import l2_bytes
from energyscope.replay.subjects import Layers, Rig, Subject, subjects
from energyscope.stages.ledger import ROOT, Books, close_books
from energyscope.stages.progress import Progress, silent

if TYPE_CHECKING:
    from energyscope.workloads import Workload

Journal = Callable[[Mapping[str, Any]], None]

LOOK_BACK_S = 3.0  # ticks before a window that sharpen its grid
SETTLE_S = 0.8  # power falls to idle within this after a load
IDLE_S = 1.0
PREHEAT_S = 5.0
REWARM_S = 0.5
SLOW = 1.25  # a stall of the host, far outside of what windows of one component differ by
REPEATED_SHARE = 0.08  # of all windows are taken again at most
MODELLED_REPEATED_SHARE = 0.3  # a CPU's windows are short, and its stalls are many
OVERHEAD_S = 0.06  # between two windows: copies, warm-up, estimate
STAGE = "profile"


@dataclass(frozen=True)
class ProfileSettings:
    """How to profile. ``window_s`` None takes the meter's own; ``passes`` windows are taken of each subject."""

    granularity: Granularity = "medium"
    layers: Layers = "mean"
    passes: int = 5
    window_s: float | None = None
    seed: int = 0
    phase: str = "prefill"
    execution: str = "eager"


def profile(
    loaded: LoadedModel,
    workload: Workload,
    meter: Meter,
    settings: ProfileSettings,
    *,
    journal: Journal,
    progress: Progress = silent,
) -> Books:
    """Measure every component of a loaded model on a started meter.

    Every finished window goes to ``journal`` before the next one starts: ``recover`` makes the same books of
    what was journalled.

    Raises:
        MeterError: the meter was lost.
        ModelError: a declared component is not called.
        DeviceError: the device ran out of memory.

    """
    tree = component_tree(loaded.model, loaded.adapter, settings.granularity)
    captures = capture(tree, workload.inputs)
    plan = subjects(tree, settings.granularity, settings.layers)
    entries: list[Mapping[str, Any]] = []

    def keep(entry: Mapping[str, Any]) -> None:
        entries.append({"stage": STAGE, **entry})
        journal(entries[-1])

    rig = Rig(tree, captures, l2_bytes(loaded.device))
    keep({"header": {"meter": meter.name, **_header(rig, plan, loaded, workload, settings)}})
    session = _Session(rig, Replayer(loaded.device), meter, settings, keep)
    session.run(plan, progress)
    return recover(entries)


def _header(
    rig: Rig, plan: Sequence[Subject], loaded: LoadedModel, workload: Workload, settings: ProfileSettings
) -> dict[str, Any]:
    """Return all that the books need besides the windows, as plain data."""
    return {
        "phase": settings.phase,
        "precision": loaded.precision,
        "execution": settings.execution,
        "batch_size": workload.batch_size,
        "context_length": workload.sequence_length,
        "device": str(loaded.device),
        "passes": settings.passes,
        "tree": [_describe(component, rig.captures[component.name]) for component in rig.tree],
        "subjects": [asdict(subject) for subject in plan],
    }


def _describe(component: Component, captured: Capture) -> dict[str, Any]:
    return {
        "name": component.name,
        "kind": component.kind,
        "layer": component.layer,
        "level": component.level,
        "parent": component.parent,
        "calls": captured.calls,
        "varied": captured.varied,
        "parameters": parameter_count(component.module),
        "weight_bytes": weight_bytes(component.module),
    }


class _Session:
    """The passes over one plan."""

    def __init__(
        self, rig: Rig, replayer: Replayer, meter: Meter, settings: ProfileSettings, keep: Journal
    ) -> None:
        self.rig = rig
        self.replayer = replayer
        self.meter = meter
        self.settings = settings
        self.entries: list[Mapping[str, Any]] = []
        self._keep = keep
        self.window_s = settings.window_s or meter.window_s

    def keep(self, entry: Mapping[str, Any]) -> None:
        self.entries.append(entry)
        self._keep(entry)

    def run(self, plan: Sequence[Subject], progress: Progress) -> None:
        anchor = next(subject for subject in plan if subject.key == f"node:{ROOT}")
        others = [subject for subject in plan if subject is not anchor]
        steps = _Steps(progress, total=len(others) * self.settings.passes + self.settings.passes + 1)
        shuffle = random.Random(self.settings.seed)
        progress(STAGE, "preheating", 0, steps.total)
        self._warm(anchor, PREHEAT_S)
        for number in range(self.settings.passes):
            self._idle(number)
            self._warm(anchor, REWARM_S)
            self._measure(anchor, number, steps)
            for subject in shuffle.sample(others, len(others)):
                self._measure(subject, number, steps)
        self._measure(anchor, self.settings.passes, steps)
        self._repeat(plan, steps)
        self._idle(self.settings.passes)

    def _warm(self, anchor: Subject, seconds: float) -> None:
        """Bring the board to its working temperature and clocks: at the start, and again after idling."""
        if not self.meter.modelled:
            with self.rig.round(anchor) as round_:
                self.replayer.run(round_, seconds)

    def _repeat(self, plan: Sequence[Subject], steps: _Steps) -> None:
        """Take the windows again in which the host stalled; the repeated window replaces the slow one.

        Stalls only ever slow a window down, and show in its time: other work on the host, not the component.
        """
        by_key = {subject.key: subject for subject in plan}
        share = MODELLED_REPEATED_SHARE if self.meter.modelled else REPEATED_SHARE
        slow = slow_windows(self.entries, limit=int(share * steps.total))
        steps.total += len(slow)
        for key, number in slow:
            self._measure(by_key[key], number, steps)

    def _idle(self, number: int) -> None:
        """Measure the idle power, with the context alive and power settled, and look for other users."""
        if self.meter.modelled:
            return
        self.replayer.synchronize()
        time.sleep(SETTLE_S)
        begin = time.monotonic()
        time.sleep(IDLE_S)
        end = time.monotonic()
        power = mean_power(self.meter.ticks(begin, end), begin, end)
        self.keep({"pass": number, "idle_w": power, "bystanders": self.meter.bystanders()})

    def _measure(self, subject: Subject, number: int, steps: _Steps) -> None:
        steps.next(subject.key)
        window, begin, end = self._window(subject)
        states = self.meter.states((begin + end) / 2, end)  # its first half still shows the load before
        entry = {"pass": number, "subject": subject.key, "begin_s": begin, "window": asdict(window)}
        self.keep({**entry, **_summary(states)})

    def _window(self, subject: Subject) -> tuple[Window, float, float]:
        with self.rig.round(subject) as round_:
            calls = self.replayer.run(round_, self.window_s)
        begin, end = float(calls.time_s[0]), float(calls.time_s[-1])
        self._await_tick(end)
        return estimate_window(self.meter.ticks(begin - LOOK_BACK_S, end), calls), begin, end

    def _await_tick(self, end_s: float) -> None:
        """Let the last tick of the window arrive: the sampler prints it a read later."""
        if not self.meter.modelled:
            time.sleep(max(0.0, end_s + 0.008 - time.monotonic()))


class _Steps:
    def __init__(self, progress: Progress, total: int) -> None:
        self.progress = progress
        self.total = total
        self.done = 0

    def next(self, label: str) -> None:
        self.progress(STAGE, label.partition(":")[2] + (" (glue)" if label.startswith("glue") else ""), self.done,
                      self.total)  # fmt: skip
        self.done += 1


def _summary(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the board's mean SM clock (MHz), highest temperature (C), all throttle bits; None if unknown."""
    clocks = [state["sm_clock_mhz"] for state in states if state["sm_clock_mhz"] is not None]
    heat = [state["temperature_c"] for state in states if state["temperature_c"] is not None]
    throttle = [state["throttle"] for state in states if state["throttle"] is not None]
    return {
        "clock_mhz": sum(clocks) / len(clocks) if clocks else None,
        "temperature_c": max(heat) if heat else None,
        "throttle": functools.reduce(operator.or_, throttle) if throttle else None,
    }


def slow_windows(entries: Sequence[Mapping[str, Any]], *, limit: int) -> list[tuple[str, int]]:
    """Return (subject, pass) of windows over 25 % longer than their subject's median, the slowest first.

    Only gross stalls: taking again whatever was a little slow would cut off a tail of the ordinary scatter, and
    the interval would be too narrow.
    """
    times: dict[str, dict[int, float]] = defaultdict(dict)
    for entry in entries:
        if "window" in entry and entry["window"]["time_us"] is not None:
            times[entry["subject"]][entry["pass"]] = entry["window"]["time_us"]
    excess = [
        (time_us / statistics.median(group.values()), key, number)
        for key, group in times.items()
        for number, time_us in group.items()
    ]
    slow = sorted((one for one in excess if one[0] > SLOW), reverse=True)
    return [(key, number) for _, key, number in slow[:limit]]


def recover(entries: Sequence[Mapping[str, Any]]) -> Books:
    """Make the books of journalled entries, of a finished or of an interrupted profile."""
    ours = [entry for entry in entries if entry.get("stage") == STAGE]
    described = next(entry["header"] for entry in ours if "header" in entry)
    return close_books(described, [entry for entry in ours if "window" in entry], idle_power(ours))


def idle_power(entries: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the mean idle power (W) over the passes, None where it was not measured."""
    known = [entry["idle_w"] for entry in entries if entry.get("idle_w") is not None]
    return sum(known) / len(known) if known else None


def passes_of(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each pass's idle power (W) and anchor (the whole model, mJ per forward pass)."""
    found: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if "pass" not in entry or entry.get("stage") != STAGE:
            continue
        row = found.setdefault(entry["pass"], {"index": entry["pass"], "idle_w": None, "anchor_mj": None})
        if "idle_w" in entry:
            row["idle_w"] = entry["idle_w"]
        elif entry["subject"] == f"node:{ROOT}":
            row["anchor_mj"] = entry["window"]["energy_mj"]
            row["clock_mhz"] = entry["clock_mhz"]
            row["temperature_c"] = entry["temperature_c"]
    return [found[index] for index in sorted(found)]


def bystanders_of(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what else used the device during the profile, each once."""
    return sorted({found for entry in entries for found in entry.get("bystanders", ())})


def expected_seconds(plan: Sequence[Subject], settings: ProfileSettings, meter_window_s: float) -> float:
    """Return about how long a profile takes (s), for --dry-run; calls longer than a window take longer."""
    windows = (len(plan) - 1) * settings.passes + settings.passes + 1
    return windows * ((settings.window_s or meter_window_s) + OVERHEAD_S)


def fixed_seconds(settings: ProfileSettings) -> float:
    """Return what preheating and the idle baselines of a measured profile take (s)."""
    return PREHEAT_S + settings.passes * REWARM_S + (settings.passes + 1) * (SETTLE_S + IDLE_S)
