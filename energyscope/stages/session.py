"""The passes of a profile: what is replayed when, and what is taken again.

One pass, over the host's clock:

    idle | model | shuffled targets: a replay window each ... | (idle) | model | ...

Where components are timed in the model, one window of the model's passes is that of all of them.

The first passes visit every target. Then each target's own spread says how many windows it needs for its
interval to be as narrow as was asked for, and further passes visit only those that lack some; a brief session has
none of these.

A session that was stopped goes on after its last whole pass: each pass has its own window of the model, beside
which its others were taken.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from energyscope.accounting import records
from energyscope.accounting.aggregate import ROOT
from energyscope.errors import EnergyscopeError
from energyscope.failures import ends_a_run, first_line, is_bug, out_of_memory
from energyscope.grouping import group_by
from energyscope.metering.group import subtract_window, sum_windows
from energyscope.metering.interval import windows_wanted
from energyscope.metering.waiting import let_settle, measure_idle, read_windows
from energyscope.metering.window import Window
from energyscope.progress import Progress
from energyscope.reasons import Reason, reason
from energyscope.replay.graphs import NotCapturableError
from energyscope.replay.in_model import InModel, Together
from energyscope.replay.targets import Target
from energyscope.runs.files import as_kept
from energyscope.stages.instruments import Instruments
from energyscope.stages.pauses import Pauses
from energyscope.stages.sampling_budget import (
    IN_TURN_S,
    REWARM_S,
    TOGETHER,
    SamplingBudget,
    first_windows,
    most_retaken,
)
from energyscope.stages.settling import settling_s
from energyscope.unknown import minus

Journal = Callable[[Mapping[str, Any]], None]

STAGE = "profile"
FEWEST_BLOCKS, MOST_BLOCKS = 2, 4  # of component and model in turn, in each of the first passes
BLOCK_S = 0.008  # in which the host's pace hardly changes


class Session:
    """The passes over one plan. Every finished window goes to ``keep`` before the next one starts."""

    def __init__(
        self,
        instruments: Instruments,
        sampling_budget: SamplingBudget,
        keep: Journal,
        *,
        seed: int = 0,
        stage: str = STAGE,
        earlier: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.instruments = instruments
        self.stage = stage
        self.sampling_budget = sampling_budget
        self.meter = instruments.meter
        self.entries: list[Mapping[str, Any]] = [entry for entry in earlier if "pass" in entry]
        self._begun = whole_passes(self.entries, cut=False)
        self._keep = keep
        self._shuffle = random.Random(seed + self._begun)
        self._unavailable = {entry["subject"] for entry in self.entries if {"unavailable", "empty"} & set(entry)}
        self._pauses = Pauses(
            instruments.sampling_s, samples=not self.meter.of_cpu, eager=instruments.eager, earlier=self.entries
        )
        self._retaken = 0
        self._lead_s = 0.0
        self._plan: Sequence[Target] = ()
        self._timed: dict[str, Window | None] = {}  # in the model, and not yet kept
        self._together = Together({}, (0.0, 0.0))
        self.window_s = sampling_budget.window_for(instruments.meter.window_s)

    def keep(self, entry: Mapping[str, Any]) -> None:
        self.entries.append(entry)
        self._keep(entry)

    def run(self, plan: Sequence[Target], progress: Progress) -> None:
        """Measure every target of a plan, the model among them."""
        self._plan = plan
        anchor = next(target for target in plan if target.key == f"node:{ROOT}")
        each = self._runs(plan)
        steps = _Steps(progress, self.stage, total=first_windows(each, self.sampling_budget))
        steps.total -= self.instruments.in_model is not None  # the model's windows are those of its parts
        steps.done = min(self._begun, self.sampling_budget.passes) * each  # of a profile that was stopped
        progress(self.stage, "preheating", steps.done, steps.total)
        self._warm(anchor, self.sampling_budget.preheat_s)
        if not self.meter.modelled and anchor.key not in self._unavailable:
            settle_capped = self.sampling_budget.settle_capped
            self._lead_s = settling_s(self.instruments, anchor, self.window_s, settle_capped=settle_capped)
        number = max(self._begun - 1, 0)
        for number in range(self._begun, self.sampling_budget.passes):
            self._pass(number, anchor, [target for target in plan if target is not anchor], steps)
        self._retake_stalled(plan, steps)  # a stall among the first windows would ask for many more
        self._retake_other_speed(plan, steps)
        while lacking := self._lacking(plan):
            number += 1
            visited = lacking if self.instruments.in_model is None else plan  # all, which costs nothing more
            others = [target for target in visited if target is not anchor]
            steps.total += self._runs([anchor, *others])
            self._pass(number, anchor, others, steps)
        if self.instruments.in_model is None:
            self._measure(anchor, number + 1, steps, last=True)
        self._retake_stalled(plan, steps)
        self._idle(number + 1)
        self._redo(plan, anchor, steps)

    def _pass(self, number: int, anchor: Target, others: Sequence[Target], steps: _Steps) -> None:
        self._timed.clear()
        if self.sampling_budget.idles_before(number) or 0 < number == self._begun:
            self._idle(number)
            self._warm(anchor, REWARM_S)
        self._measure(anchor, number, steps)
        for target in self._shuffle.sample(others, len(others)):
            self._measure(target, number, steps)
            if self._host_paced and number < self.sampling_budget.passes:
                self._time_beside_model(target, anchor, number)

    def _runs(self, targets: Sequence[Target]) -> int:
        """Return how often something runs for a window of each target: once, where they are timed together."""
        return len(targets) if self.instruments.in_model is None else 1

    def _lacking(self, targets: Sequence[Target]) -> list[Target]:
        """Return the targets whose interval is still to be narrowed, by the spread of their first windows."""
        if self.sampling_budget.brief:
            return []
        entries, _ = records.at_main_speed(self.entries)
        energies, took = records.energies(entries), records.seconds(entries)
        return [
            target
            for target in targets
            if target.key not in self._unavailable
            and self._wanted(energies.get(target.key, []), took.get(target.key, 0.0))
            > len(energies.get(target.key, []))  # those without pauses do not count, once there are pauses
        ]

    def _wanted(self, energies: Sequence[float | None], took_s: float) -> int:
        """Return how many windows a target needs, of those that its time budget allows."""
        return windows_wanted(
            energies,
            target=self.sampling_budget.target_interval,
            limit=self.sampling_budget.limit(
                self.meter.window_s,
                modelled=self.meter.modelled,
                took_s=took_s if self.instruments.in_model is None else took_s / TOGETHER,
            ),
            first=self.sampling_budget.passes,
        )

    def _warm(self, anchor: Target, seconds: float) -> None:
        """Bring the board to its working temperature and clocks: at the start, and again after idling."""
        if self.meter.modelled or anchor.key in self._unavailable:
            return
        with self.instruments.replay_setup.round(anchor) as round_:
            try:
                self.instruments.replayer.run(round_, seconds)
            except NotCapturableError as error:
                self._give_up(anchor, 0, reason("not-capturable", error=error))

    def _retake_stalled(self, plan: Sequence[Target], steps: _Steps) -> None:
        """Take the windows again in which the host stalled, up to a share of all."""
        windows = sum("window" in entry for entry in self.entries)
        left = most_retaken(max(steps.total, windows), modelled=self.meter.modelled) - self._retaken
        again = records.stalled_windows(self.entries, limit=max(left, 0))
        if self.instruments.in_model is not None:
            again = in_whole_passes(again, plan, limit=left)
        self._retaken += len(again)
        self._retake(plan, again, steps)

    def _retake_other_speed(self, plan: Sequence[Target], steps: _Steps) -> None:
        """Take the windows again, once, in which the device was not in the state in which it mostly is."""
        self._retake(plan, records.windows_at_other_speed(self.entries), steps)

    def _retake(self, plan: Sequence[Target], again: Sequence[tuple[str, int]], steps: _Steps) -> None:
        """Take windows again; the new one replaces the one before it of its pass."""
        by_key = {target.key: target for target in plan}
        for number, keys in group_by(again, lambda window: window[1]).items():
            targets = [by_key[key] for key, _ in keys]
            steps.total += self._runs(targets)
            self._timed.clear()
            for target in targets:
                self._measure(target, number, steps, last=True)

    def _redo(self, plan: Sequence[Target], anchor: Target, steps: _Steps) -> None:
        """Repeat, once, the windows during which something else used the device.

        If it never leaves, these are all windows, and the session takes about twice as long.
        """
        again = records.contaminated_windows(self.entries)
        if again:
            self._warm(anchor, REWARM_S)
            self._retake(plan, again, steps)
            self._idle(max(number for _, number in again) + 1)

    def _idle(self, number: int) -> None:
        """Measure the idle power, with the context alive, and look for other users."""
        self.instruments.synchronize()
        if readings := measure_idle(self.meter, self.instruments.own_bytes, self.instruments.clock):
            self.keep({"pass": number, **readings})

    def _measure(self, target: Target, number: int, steps: _Steps, *, last: bool = False) -> None:
        """Take a target's window; in its ``last`` ones no pauses begin: one window with them says nothing."""
        if target.key not in self._timed:
            steps.next(target.key)
        if target.key in self._unavailable:
            return
        try:
            entry = self._window(target, number)
            if not last and self._pauses.begin(entry, self.entries):
                self.keep(entry)
                entry = self._window(target, number)
            if self._pauses.tune(entry):
                self.keep(entry)
                entry = self._window(target, number)
            if records.should_retake(entry, self.entries):  # once, then it is kept as it is
                self.keep(entry)
                let_settle(self.meter, self.instruments.clock)
                entry = self._window(target, number)
        except NotCapturableError as error:
            self._give_up(target, number, reason("not-capturable", error=error))
            return
        except Exception as error:
            if target.key == records.MODEL or not self._fails_alone(error):
                raise
            failed = reason("replay-failed", error=f"{type(error).__name__}: {first_line(error)}")
            self._give_up(target, number, reason("no-memory-for-replay") if out_of_memory(error) else failed)
            return
        self.keep(entry)
        if entry.get("empty") or "unavailable" in entry:
            self._unavailable.add(target.key)

    @property
    def _host_paced(self) -> bool:
        return self.instruments.beside_model and not records.device_paced(self.entries)

    def _seconds(self, target: Target) -> float:
        """Return how long a target's window is (s).

        A host that sets the pace leaves the device idle most of the time: its samples see few kernels, and work
        is a small part of the energy. The model's windows, which every share is of, are longer there, and so is
        its first, when it is not known who sets the pace.
        """
        longer = self.sampling_budget.longer_model if self._host_paced and target.key == records.MODEL else 1.0
        return longer * self.window_s + self._lead_s

    def _time_beside_model(self, target: Target, anchor: Target, number: int) -> None:
        """Time a component and the model in short blocks, in turn: the host's pace is the same in both."""
        if target.what not in {"node", "group"} or self._unavailable & {target.key, anchor.key}:
            return
        models, parts = [self._pace(anchor)], []
        blocks = round(IN_TURN_S / max(2 * models[0], BLOCK_S))
        for _ in range(min(MOST_BLOCKS, max(FEWEST_BLOCKS, blocks))):
            parts.append(self._pace(target))
            models.append(self._pace(anchor))
        around = [(before + after) / 2 for before, after in itertools.pairwise(models)]
        ratios = [part / model for part, model in zip(parts, around, strict=True)]
        self.keep({"pass": number, "subject": target.key, "beside_model": ratios})

    def _pace(self, target: Target) -> float:
        """Return the seconds of a target's call now, without the restoring of its inputs."""
        overhead, replayer = self.instruments.replay_setup.overhead(target), self.instruments.replayer
        with self.instruments.replay_setup.round(target) as round_:
            both_s = replayer.pace(round_, BLOCK_S)
        return both_s - (replayer.pace(overhead, BLOCK_S) if overhead else 0.0)

    def _fails_alone(self, error: Exception) -> bool:
        """Tell whether a target fails by itself, and the others can go on: out of memory, or in its own code."""
        if out_of_memory(error):
            return True
        expected = isinstance(error, EnergyscopeError | OSError) or ends_a_run(error)
        return not (expected or is_bug(error) or self.instruments.split)  # else other processes wait for this one

    def _give_up(self, target: Target, number: int, why: Reason) -> None:
        self._unavailable.add(target.key)
        self.keep({"pass": number, "subject": target.key, "unavailable": why})

    def _timed_window(self, target: Target, number: int, in_model: InModel) -> dict[str, Any]:
        """Return a target's window of passes that timed all targets; if it had it before, of new ones."""
        if target.key not in self._timed:
            self._together = in_model.run(self._plan, TOGETHER * self.window_s)
            self._timed = dict(self._together.windows)
        entry: dict[str, Any] = {"pass": number, "subject": target.key}
        window, span = self._timed.pop(target.key), self._together.span_s
        if window is None:  # as modules whose like a fused function computes: torch has one for encoder layers
            return {**entry, "unavailable": reason("not-called")}
        entry |= {"period_us": window.time_us, "tick_spread": None, "begin_s": span[0], "ran_s": span}
        return {**entry, "window": asdict(window), **records.board([]), "waited_share": None, "guard": []}

    def _window(self, target: Target, number: int) -> dict[str, Any]:
        in_model = self.instruments.in_model
        return self._timed_window(target, number, in_model) if in_model else self._replayed_window(target, number)

    def _replayed_window(self, target: Target, number: int) -> dict[str, Any]:
        """Replay a target for a window, less what is not its own: pauses, and the restoring of its inputs."""
        rest_s = self._pauses.of(target.key)
        replayer = self.instruments.replayer_of(target)
        with self.instruments.replay_setup.round(target) as round_:
            calls = replayer.run(round_, self._seconds(target), rest_s=rest_s)
        entry: dict[str, Any] = {"pass": number, "subject": target.key}
        if calls is None:
            return {**entry, "empty": True}
        windows = read_windows(self.meter, calls, self.instruments.clock, lead_s=self._lead_s)
        host_mj = calls.host_mj_each
        entry |= {"period_us": windows[0].time_us, "tick_spread": windows[0].power_spread}
        begin, end = calls.span_s
        states = self.meter.states((begin + end) / 2, end)  # its first half still shows the load before
        overhead = self.instruments.replay_setup.overhead(target)
        if overhead or rest_s is not None:
            alone = replayer.run(overhead, self.window_s + self._lead_s, rest_s=rest_s)
            if alone is not None:
                others = read_windows(self.meter, alone, self.instruments.clock, lead_s=self._lead_s)
                entry["overhead"] = {"ran_s": alone.span_s, "window": asdict(sum_windows(others))}
                windows = [subtract_window(both, other) for both, other in zip(windows, others, strict=True)]
                host_mj = minus(host_mj, alone.host_mj_each)
        if rest_s is not None:
            entry |= {"rest_us": rest_s * 1e6, "sampling_s": self.instruments.sampling_s}
        if self._lead_s:
            entry["lead_s"] = self._lead_s
        if calls.canary_s:
            entry["canary_us"] = [seconds * 1e6 for seconds in calls.canary_s]
        entry |= {"begin_s": begin, "ran_s": calls.span_s}
        result = {**entry, "window": asdict(sum_windows(windows)), **records.board(states)}
        result["waited_share"] = None if calls.waited_s is None else calls.waited_s / calls.seconds
        if len(windows) > 1:
            result["devices"] = [window.energy_mj for window in windows]
        if host_mj is not None:
            result["host_mj"] = host_mj
        result["guard"] = records.contamination(result, self.entries)
        if self._pauses.beats(result, self.entries):
            result["beats"] = True
        return result


def in_whole_passes(
    windows: Sequence[tuple[str, int]], plan: Sequence[Target], *, limit: int
) -> list[tuple[str, int]]:
    """Return the windows (target, pass) of all targets in the passes that have most of those given.

    They are timed together, and compared with each other: at most ``limit`` windows, of whole passes.
    """
    worst = Counter(number for _, number in windows).most_common(max(limit, 0) // len(plan))
    return [(target.key, number) for number, _ in worst for target in plan]


def is_of(earlier: Sequence[Mapping[str, Any]], header: Mapping[str, Any]) -> bool:
    """Tell whether entries of a journal are of a stage with this header: then what they hold stays."""
    before = next((entry["header"] for entry in earlier if "header" in entry), None)
    return before is not None and bool(before == as_kept(header))


def whole_passes(entries: Sequence[Mapping[str, Any]], *, cut: bool = True) -> int:
    """Return how many passes of a session are whole, of which the last one may have been ``cut`` off."""
    return max((entry["pass"] + (not cut) for entry in entries if "subject" in entry), default=0)


class _Steps:
    def __init__(self, progress: Progress, stage: str, total: int) -> None:
        self.progress = progress
        self.stage = stage
        self.total = total
        self.done = 0

    def next(self, label: str) -> None:
        what, _, name = label.replace("{layer}", "*").partition(":")
        words = {"glue": f"{name} (overhead)", "without": f"model without {name}"}.get(what, name)
        self.progress(self.stage, words, self.done, self.total)
        self.done += 1
