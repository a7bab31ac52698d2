"""The passes of a profile: what is replayed when, and what is taken again.

One pass, over the host's clock:

    idle | model | shuffled subjects: a replay window each ... | idle | model | ...

The first passes visit every subject. Then each subject's own spread says how many windows it needs for its
interval to be as narrow as was asked for, and further passes visit only those that lack some; a brief session has
none of these.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch

from energyscope.accounting import records
from energyscope.accounting.aggregate import ROOT
from energyscope.failures import out_of_memory
from energyscope.metering.group import MeterGroup, less, together
from energyscope.metering.interval import windows_wanted
from energyscope.metering.settled import HOST, SETTLE_S, Clock, idle, windows_of
from energyscope.metering.ticks import Calls
from energyscope.progress import Progress
from energyscope.reasons import Reason, reason
from energyscope.replay.calls import Call
from energyscope.replay.graphs import NotCapturableError
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.subjects import Subject
from energyscope.stages.sampling_budget import REWARM_S, SamplingBudget, first_windows, most_retaken

Journal = Callable[[Mapping[str, Any]], None]

STAGE = "profile"


class Replays(Protocol):
    """Runs a round of calls for some seconds; `Replayer` does it on a device."""

    def run(self, round_: Sequence[Call], seconds: float, *, rest_s: float | None = None) -> Calls | None: ...

    def synchronize(self) -> None: ...

    def own_bytes(self) -> int | None: ...


@dataclass
class Bench:
    """What a session works with.

    ``elsewhere`` are the replayers of the other devices that a model is spread over, in the order of the meters.
    """

    replay_setup: ReplaySetup
    replayer: Replays
    meter: MeterGroup
    clock: Clock = HOST
    elsewhere: Mapping[torch.device, Replays] = field(default_factory=dict)

    def replayer_of(self, subject: Subject) -> Replays:
        """Return the replayer of the device on which a subject's work ends."""
        device = self.replay_setup.device_of(subject) if self.elsewhere else None
        return self.replayer if device is None else self.elsewhere.get(device, self.replayer)

    def synchronize(self) -> None:
        """Wait until every device has done all that was queued."""
        for one in (self.replayer, *self.elsewhere.values()):
            one.synchronize()

    def own_bytes(self) -> list[int | None]:
        """Return the memory (bytes) that this process holds on each device."""
        return [one.own_bytes() for one in (self.replayer, *self.elsewhere.values())]


class Session:
    """The passes over one plan. Every finished window goes to ``keep`` before the next one starts."""

    def __init__(self, bench: Bench, sampling_budget: SamplingBudget, keep: Journal, *, seed: int = 0) -> None:
        self.bench = bench
        self.sampling_budget = sampling_budget
        self.meter = bench.meter
        self.entries: list[Mapping[str, Any]] = []
        self._keep = keep
        self._shuffle = random.Random(seed)
        self._unavailable: set[str] = set()
        self._rest_s: dict[str, float] = {}
        self._retaken = 0
        self.window_s = sampling_budget.window_for(bench.meter.window_s)

    def keep(self, entry: Mapping[str, Any]) -> None:
        self.entries.append(entry)
        self._keep(entry)

    def run(self, plan: Sequence[Subject], progress: Progress) -> None:
        """Measure every subject of a plan, the model among them."""
        anchor = next(subject for subject in plan if subject.key == f"node:{ROOT}")
        steps = _Steps(progress, total=first_windows(plan, self.sampling_budget))
        progress(STAGE, "preheating", 0, steps.total)
        self._warm(anchor, self.sampling_budget.preheat_s)
        number = 0
        for number in range(self.sampling_budget.passes):
            due = [one for one in plan if one is not anchor and number < self.sampling_budget.first(one)]
            self._pass(number, anchor, due, steps)
        self._retake_stalled(plan, steps)  # a stall among the first windows would ask for many more
        while lacking := self._lacking(plan):
            number += 1
            others = [subject for subject in lacking if subject is not anchor]
            steps.total += len(others) + 1
            self._pass(number, anchor, others, steps)
        self._measure(anchor, number + 1, steps)
        self._retake_stalled(plan, steps)
        self._idle(number + 1)
        self._redo(plan, anchor, steps)

    def _pass(self, number: int, anchor: Subject, others: Sequence[Subject], steps: _Steps) -> None:
        self._idle(number)
        self._warm(anchor, REWARM_S)
        self._measure(anchor, number, steps)
        for subject in self._shuffle.sample(others, len(others)):
            self._measure(subject, number, steps)

    def _lacking(self, subjects: Sequence[Subject]) -> list[Subject]:
        """Return the subjects whose interval is still to be narrowed, by the spread of their first windows."""
        if self.sampling_budget.brief:
            return []
        energies, took = records.energies(self.entries), records.seconds(self.entries)
        return [
            subject
            for subject in subjects
            if subject.key not in self._unavailable
            and self._wanted(energies.get(subject.key, []), took.get(subject.key, 0.0))
            > len(energies.get(subject.key, []))  # those without pauses do not count, once there are pauses
        ]

    def _wanted(self, energies: Sequence[float | None], took_s: float) -> int:
        """Return how many windows a subject needs, of those that its time budget allows."""
        return windows_wanted(
            energies,
            target=self.sampling_budget.target_interval,
            limit=self.sampling_budget.limit(self.meter.window_s, modelled=self.meter.modelled, took_s=took_s),
            first=self.sampling_budget.passes,
        )

    def _warm(self, anchor: Subject, seconds: float) -> None:
        """Bring the board to its working temperature and clocks: at the start, and again after idling."""
        if self.meter.modelled or anchor.key in self._unavailable:
            return
        with self.bench.replay_setup.round(anchor) as round_:
            try:
                self.bench.replayer.run(round_, seconds)
            except NotCapturableError as error:
                self._give_up(anchor, 0, reason("not-capturable", error=error))

    def _retake_stalled(self, plan: Sequence[Subject], steps: _Steps) -> None:
        """Take the windows again in which the host stalled, up to a share of all."""
        left = most_retaken(steps.total, modelled=self.meter.modelled) - self._retaken
        again = records.slow_windows(self.entries, limit=max(left, 0))
        self._retaken += len(again)
        self._retake(plan, again, steps)

    def _retake(self, plan: Sequence[Subject], again: Sequence[tuple[str, int]], steps: _Steps) -> None:
        """Take windows again; the new one replaces the one before it of its pass."""
        by_key = {subject.key: subject for subject in plan}
        steps.total += len(again)
        for key, number in again:
            self._measure(by_key[key], number, steps)

    def _redo(self, plan: Sequence[Subject], anchor: Subject, steps: _Steps) -> None:
        """Repeat, once, the windows beside which something else was found to use the device.

        Beside something that never leaves these are all windows, and the session takes about twice as long.
        """
        again = records.contaminated_windows(self.entries)
        if again:
            self._warm(anchor, REWARM_S)
            self._retake(plan, again, steps)
            self._idle(max(number for _, number in again) + 1)

    def _idle(self, number: int) -> None:
        """Measure the idle power, with the context alive, and look for other users."""
        self.bench.synchronize()
        if found := idle(self.meter, self.bench.own_bytes, self.bench.clock):
            self.keep({"pass": number, **found})

    def _measure(self, subject: Subject, number: int, steps: _Steps) -> None:
        steps.next(subject.key)
        if subject.key in self._unavailable:
            return
        try:
            entry = self._window(subject, number)
            if subject.key not in self._rest_s and records.slowed_by_cap(entry, self.entries):
                self.keep(entry)
                self._rest_s[subject.key] = entry["window"]["time_us"] / 1e6
                entry = self._window(subject, number)
            if records.worth_again(entry, self.entries):  # once, then it is kept as it is
                self.keep(entry)
                self.bench.clock.sleep(SETTLE_S)
                entry = self._window(subject, number)
        except NotCapturableError as error:
            self._give_up(subject, number, reason("not-capturable", error=error))
            return
        except Exception as error:
            if subject.key == records.MODEL or not out_of_memory(error):
                raise
            self._give_up(subject, number, reason("no-memory-for-replay"))
            return
        self.keep(entry)
        if entry.get("empty"):
            self._unavailable.add(subject.key)

    def _give_up(self, subject: Subject, number: int, why: Reason) -> None:
        self._unavailable.add(subject.key)
        self.keep({"pass": number, "subject": subject.key, "unavailable": why})

    def _window(self, subject: Subject, number: int) -> dict[str, Any]:
        """Replay a subject for a window, less what is not its own: pauses, and the restoring of its inputs."""
        rest_s = self._rest_s.get(subject.key)
        replayer = self.bench.replayer_of(subject)
        with self.bench.replay_setup.round(subject) as round_:
            calls = replayer.run(round_, self.window_s, rest_s=rest_s)
        entry = {"pass": number, "subject": subject.key}
        if calls is None:
            return {**entry, "empty": True}
        windows = windows_of(self.meter, calls, self.bench.clock)
        begin, end = float(calls.time_s[0]), float(calls.time_s[-1])
        states = self.meter.states((begin + end) / 2, end)  # its first half still shows the load before
        overhead = self.bench.replay_setup.overhead(subject)
        if overhead or rest_s is not None:
            alone = replayer.run(overhead, self.window_s, rest_s=rest_s)
            if alone is not None:
                others = windows_of(self.meter, alone, self.bench.clock)
                windows = [less(both, other) for both, other in zip(windows, others, strict=True)]
        if rest_s is not None:
            entry["rest_us"] = rest_s * 1e6
        found = {**entry, "begin_s": begin, "window": asdict(together(windows)), **records.board(states)}
        found["waited_share"] = None if calls.waited_s is None else calls.waited_s / calls.seconds
        if len(windows) > 1:
            found["devices"] = [window.energy_mj for window in windows]
        found["guard"] = records.contamination(found, self.entries)
        return found


class _Steps:
    def __init__(self, progress: Progress, total: int) -> None:
        self.progress = progress
        self.total = total
        self.done = 0

    def next(self, label: str) -> None:
        what, _, name = label.replace("{layer}", "*").partition(":")
        self.progress(STAGE, {"glue": f"{name} (overhead)", "without": f"model without {name}"}.get(what, name),
                      self.done, self.total)  # fmt: skip
        self.done += 1
