"""The process that draws a run while another one measures it: ``python -m energyscope.cli.live_view``.

It gets steps as JSON lines on its standard input, reads everything else from the run's own files, and ends when
its input does:

    measuring process --(a line for each step)--> live view --(twice a second)--> terminal
           |                                         ^
           +---------- journal.jsonl, run.json ------+

Drawing takes milliseconds of Python. In the process that measures they would stand between two kernels, and in
a component that is bound by its launches they would be counted as its energy. The journal is synced after every
finished measurement anyway, so reading it costs that process nothing.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from energyscope.accounting.measured import measure
from energyscope.accounting.records import MODEL
from energyscope.cli.time_left import Estimates, StageProgress, estimate_of, is_skipped, left_of_run, phase_of
from energyscope.intervals import Interval
from energyscope.reasons import words
from energyscope.reporting.terminal_live import (
    MOST,
    CostlyComponent,
    Power,
    RunView,
    StageState,
    Step,
    last_line,
    live_view,
)
from energyscope.reporting.terminal_text import printable
from energyscope.runs import schema

Entry = Mapping[str, Any]

EVERY_S = 0.5
SENSOR = "sensor"  # a step within whichever stage is about to measure, or, of `doctor`, all there is
STARTING = "starting"  # libraries are imported, which no stage counts as its time
PROFILE = "profile"
MOST_BYTES = 1 << 24  # of the journal at once: the lines of a long stage, when it is read late
MEASURED = (b'"window"', b'"header"', b'"row"', b'"empty"')  # keys of the journal's lines that are shown


class RunFollower:
    """What a run directory, which may not be there yet, holds so far."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.phase = ""  # the phase that is profiled, such as ``prefill`` or ``decode@1024``; empty before
        self._document: dict[str, Any] = {}
        self._changed = 0
        self._read = 0
        self._latest: Entry = {}
        self._header: Entry = {}
        self._entries: dict[str, list[Entry]] = {}
        self._known: dict[str, tuple[int, Interval | None]] = {}

    def update(self) -> None:
        """Read what was written since the last call.

        A file that cannot be read now is left for the next call; a finished line that is no entry is skipped.
        """
        if self.path is None:
            return
        try:
            file = self.path / schema.RUN_FILE
            changed = file.stat().st_mtime_ns
            if changed != self._changed:
                self._document = json.loads(file.read_text(encoding="utf-8"))
                self._changed = changed
            for entry in self._new_entries(self.path / schema.JOURNAL_FILE):
                self._add(entry)
        except (OSError, ValueError):
            return

    def _new_entries(self, path: Path) -> Iterator[Entry]:
        with path.open("rb") as file:
            file.seek(self._read)
            finished, _, _ = file.read(MOST_BYTES).rpartition(b"\n")
        self._read += len(finished) + 1 if finished else 0
        for line in finished.split(b"\n"):
            if any(key in line for key in MEASURED):
                try:
                    entry = json.loads(line)
                except ValueError:  # a crash or a full disk left it broken
                    continue
                if isinstance(entry, dict):
                    yield entry

    def _add(self, entry: Entry) -> None:
        if "window" in entry or "row" in entry:
            self._latest = entry
        if entry.get("stage") != PROFILE:
            return
        if "header" in entry:
            self._header, self.phase = entry["header"], str(entry.get("scene") or "")
            self._entries, self._known = {}, {}
        elif "subject" in entry:
            self._entries.setdefault(entry["subject"], []).append(entry)

    @property
    def modelled(self) -> bool:
        """Whether the run's joules are time x stated watts."""
        return bool((self._document.get("sensor") or {}).get("modelled"))

    @property
    def stages(self) -> dict[str, Mapping[str, Any]]:
        """The stages' states, as run.json holds them."""
        return dict(self._document.get("stages") or {})

    def power(self, stage: str) -> Power | None:
        """Return the power in the latest measurement, if it is of this stage and has one."""
        if self._latest.get("stage") != stage:
            return None
        values = self._latest.get("window") or self._latest.get("row") or {}
        watts = values.get("power_w") if "power_w" in values else values.get("mean_power_w")
        if not isinstance(watts, int | float):
            return None
        return Power(float(watts), self._latest.get("clock_mhz"), self._latest.get("temperature_c"))

    def costliest(self) -> list[CostlyComponent]:
        """Return the components without parts that take most energy in a pass of the model, costliest first.

        Each as the report would have it of the windows so far; what stands for several components is
        one line.
        """
        tree = {component["name"]: component for component in self._header.get("tree", ())}
        parents = {component["parent"] for component in tree.values()}
        whole = self._energy(MODEL, 1.0)
        components = []
        for target in self._header.get("subjects", ()):
            name, *others = target["members"]
            energy = self._energy(target["key"], tree[name].get("calls") or 1) if name in tree else None
            if target["what"] in {"node", "group"} and name not in parents and energy is not None:
                share = energy.value / whole.value if whole is not None and whole.value else None
                windows, label = len(self._entries[target["key"]]), shown_name(target["key"].partition(":")[2])
                components.append(CostlyComponent(label, energy, share, windows, 1 + len(others)))
        return sorted(components, key=lambda component: -component.energy.value)[:MOST]

    def _energy(self, key: str, calls: float) -> Interval | None:
        entries = self._entries.get(key)
        if not entries:
            return None
        count, interval = self._known.get(key, (0, None))
        if count != len(entries):  # a thousand components take too long twice a second
            energy = measure(entries, None, first=self._header.get("passes", 5)).energy
            interval = None if energy.mean is None else Interval(energy.mean, energy.low, energy.high)
            self._known[key] = len(entries), interval
        return None if interval is None else interval.scaled(calls)


def shown_name(name: str) -> str:
    """Return the name of several layers' components as the tables write it: ``transformer.h.*``."""
    return name.replace("{layer}", "*")


class State:
    """What is known of a run: the messages, and what its files say."""

    def __init__(self, title: str, stages: Sequence[str], now_s: float) -> None:
        self.title = title
        self.names = list(stages)
        self.records = RunFollower()
        self.began_s = self.stage_s = now_s
        self.started = False
        self.estimates: Estimates | None = None
        self._named = bool(stages)
        self._stage = next(iter(stages), "")
        self._label, self._of_sensor = STARTING, False
        self._pace = StageProgress(now_s)
        self._took: dict[str, float] = {}

    def step(self, stage: str, label: str, done: int, total: int, now_s: float) -> None:
        """Record a step that a stage reports. The first stage begins with the first one."""
        if not self.started:
            self.started, self.stage_s, self._label = True, now_s, ""
        if stage == SENSOR and self._stage not in {"", SENSOR}:
            self._label, self._of_sensor = label, True
            return
        stage, _, part = stage.partition(": ")
        if stage != self._stage:
            self._begin(stage, now_s)
        self._pace.step(done, total, now_s, part)
        self._label, self._of_sensor = f"{part}: {label}" if part else label, False

    def update(self, now_s: float) -> None:
        """Read the run's files; a stage that they say has begun is shown before it reports its first step."""
        self.records.update()
        states = {name: stage.get("state") for name, stage in self.records.stages.items()}
        running = next((name for name, state in states.items() if state == "running"), "")
        if running not in {"", self._stage}:
            self._begin(running, now_s)

    def _begin(self, stage: str, now_s: float) -> None:
        """Begin a stage without a step yet; a step of the sensor belongs to this one."""
        self._took[self._stage] = now_s - self.stage_s
        self.names += [] if stage in self.names else [stage]
        self._stage, self.stage_s, self._pace = stage, now_s, StageProgress(now_s)
        self._label = self._label if self._of_sensor else ""

    def picture(self, now_s: float) -> RunView:
        """Return the run as it is now."""
        pace, stages = self._pace, self.stages(now_s)
        after = self.names.index(self._stage) + 1 if self._stage in self.names else 0
        waiting = [stage.name for stage in stages[after:] if stage.state == "waiting"]
        label = f"{SENSOR}: {self._label}" if self._of_sensor else shown_name(self._label)
        phase = phase_of(self._stage, pace, self.estimates)
        return RunView(
            title=self.title,
            seconds=now_s - self.began_s,
            stages=stages,
            step=Step(label, pace.done, pace.total, now_s - self.stage_s, pace.left(now_s), *phase),
            power=self.records.power(self._stage),
            modelled=self.records.modelled,
            costliest=self.records.costliest(),
            phase=self.records.phase,
            left=left_of_run(self._stage, pace, waiting, self.estimates, now_s),
        )

    def stages(self, now_s: float) -> list[StageState]:
        """Return the stages with their states: as the run's files have it, else as the steps show it."""
        recorded = self.records.stages
        return [self._state(name, recorded.get(name) or {}, now_s) for name in self.names]

    def ended(self, now_s: float) -> list[StageState]:
        """Return the stages when nothing runs any more; where none was named, no file says how they ended."""
        stages = self.stages(now_s)
        return stages if self._named else [replace(stage, state="done") for stage in stages]

    def _state(self, name: str, recorded: Mapping[str, Any], now_s: float) -> StageState:
        running = name == self._stage
        took_s = now_s - self.stage_s if running else self._took.get(name)
        ahead = "skipped" if is_skipped(name, self.estimates) else "waiting"
        state = "running" if running else "done" if name in self._took else ahead
        return StageState(
            name,
            str(recorded.get("state") or state),
            recorded.get("seconds") or took_s,
            words(recorded.get("reason")) or None,
            estimate_of(name, self.estimates),
        )


def paint(state: State, console: Console, messages: Iterator[Mapping[str, Any] | None]) -> None:
    """Draw at most twice a second until the messages end; then clear, and say what ran in one line."""
    painted_s = 0.0
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for message in messages:
            now_s = time.monotonic()
            if message is not None:
                receive(state, message, console, now_s)
            if now_s - painted_s >= EVERY_S:
                state.update(now_s)
                view = live_view(state.picture(now_s), console.width, console.height - 2)
                live.update(Group(view, ""), refresh=True)  # the "^C" that a terminal echoes has a line of its own
                painted_s = time.monotonic()
    state.update(time.monotonic())
    line = last_line(state.ended(time.monotonic())) if state.started else ""
    if line:
        console.print(Text(line, style="dim"))


def receive(state: State, message: Mapping[str, Any], console: Console, now_s: float) -> None:
    """Record a message of the measuring process, or print the line in it."""
    if "step" in message:
        stage, label, done, total = message["step"]
        state.step(stage, label, done, total, now_s)
    if "run" in message:
        state.records.path = Path(message["run"])
    if "estimates" in message:
        state.estimates = message["estimates"]
    if "say" in message:
        console.print(Text(printable(message["say"])), soft_wrap=True)


def read_messages(descriptor: int) -> Iterator[Mapping[str, Any] | None]:
    """Yield the messages of a pipe until it is closed, and None whenever it is time to draw."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], EVERY_S)[0]:
            yield None
            continue
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:  # a message that the pipe took only a part of
                continue


def main(title: str, stages: str, error_stream: bool) -> None:
    console = Console(stderr=error_stream, highlight=False)
    state = State(title, stages.split(",") if stages else [], time.monotonic())
    paint(state, console, read_messages(sys.stdin.fileno()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] == "stderr")
