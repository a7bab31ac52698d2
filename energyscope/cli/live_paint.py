"""The process that paints a run while another one measures it: ``python -m energyscope.cli.live_paint``.

It is told of steps by JSON lines on its standard input, reads everything else from the run's own files, and ends
when its input does:

    measuring process --(a line for each step)--> painter --(twice a second)--> terminal
           |                                         ^
           +---------- journal.jsonl, run.json ------+

Painting takes milliseconds of Python. In the process that measures they would stand between two kernels, and in
a component that is bound by its launches they would be counted as its energy.
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

from energyscope.cli.live_left import Estimates, StageProgress, estimate_of, is_skipped, left_of_run, moment_of
from energyscope.cli.live_records import RunFollower, one_name
from energyscope.reasons import words
from energyscope.reporting.terminal_live import Picture, StageState, Step, last_line, live_view
from energyscope.reporting.terminal_text import printable

EVERY_S = 0.5
SENSOR = "sensor"  # a step within whichever stage is about to measure, or, of `doctor`, all there is
STARTING = "starting"  # libraries are imported, which no stage counts as its time


class State:
    """What the painter knows: what it was told, and what the run's files say."""

    def __init__(self, title: str, stages: Sequence[str], now_s: float) -> None:
        self.title = title
        self.names = list(stages)
        self.records = RunFollower()
        self.began_s = self.stage_s = now_s
        self.told = False
        self.estimates: Estimates | None = None
        self._named = bool(stages)
        self._stage = next(iter(stages), "")
        self._label, self._of_sensor = STARTING, False
        self._pace = StageProgress(now_s)
        self._took: dict[str, float] = {}

    def step(self, stage: str, label: str, done: int, total: int, now_s: float) -> None:
        """Be told of a step, as a stage tells its progress. The first stage begins with the first one."""
        if not self.told:
            self.told, self.stage_s, self._label = True, now_s, ""
        if stage == SENSOR and self._stage not in {"", SENSOR}:
            self._label, self._of_sensor = label, True
            return
        if stage != self._stage:
            self._begin(stage, now_s)
        self._pace.step(done, total, now_s)
        self._label, self._of_sensor = label, False

    def update(self, now_s: float) -> None:
        """Read the run's files; a stage that they say has begun is shown before it tells of its first step."""
        self.records.update()
        running = next((name for name, one in self.records.stages.items() if one.get("state") == "running"), "")
        if running not in {"", self._stage}:
            self._begin(running, now_s)

    def _begin(self, stage: str, now_s: float) -> None:
        """Begin a stage without a step yet; what is said of the sensor is said of this one."""
        self._took[self._stage] = now_s - self.stage_s
        self.names += [] if stage in self.names else [stage]
        self._stage, self.stage_s, self._pace = stage, now_s, StageProgress(now_s)
        self._label = self._label if self._of_sensor else ""

    def picture(self, now_s: float) -> Picture:
        """Return the run as it is now."""
        pace, stages = self._pace, self.stages(now_s)
        after = self.names.index(self._stage) + 1 if self._stage in self.names else 0
        waiting = [one.name for one in stages[after:] if one.state == "waiting"]
        seconds = now_s - self.stage_s
        label = f"{SENSOR}: {self._label}" if self._of_sensor else one_name(self._label)
        moment = moment_of(self._stage, pace, self.estimates)
        return Picture(
            title=self.title,
            seconds=now_s - self.began_s,
            stages=stages,
            step=Step(label, pace.done, pace.total, seconds, pace.left(now_s), *moment),
            power=self.records.power(self._stage),
            modelled=self.records.modelled,
            costliest=self.records.costliest(),
            moment=self.records.moment,
            left=left_of_run(self._stage, pace, waiting, self.estimates, now_s),
        )

    def stages(self, now_s: float) -> list[StageState]:
        """Return the stages with their states: as the run's files have it, else as the steps told it."""
        recorded = self.records.stages
        return [self._state(name, recorded.get(name) or {}, now_s) for name in self.names]

    def ended(self, now_s: float) -> list[StageState]:
        """Return the stages when nothing runs any more; where none was named, no file says how they ended."""
        stages = self.stages(now_s)
        return stages if self._named else [replace(one, state="done") for one in stages]

    def _state(self, name: str, recorded: Mapping[str, Any], now_s: float) -> StageState:
        running = name == self._stage
        took = now_s - self.stage_s if running else self._took.get(name)
        ahead = "skipped" if is_skipped(name, self.estimates) else "waiting"
        told = "running" if running else "done" if name in self._took else ahead
        state = str(recorded.get("state") or told)
        seconds, estimates = recorded.get("seconds") or took, estimate_of(name, self.estimates)
        return StageState(name, state, seconds, words(recorded.get("reason")) or None, estimates)


def paint(state: State, console: Console, messages: Iterator[Mapping[str, Any] | None]) -> None:
    """Paint at most twice a second until the messages end; then clear, and say what ran in one line."""
    painted_s = 0.0
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for message in messages:
            now_s = time.monotonic()
            if message is not None:
                _take(state, message, console, now_s)
            if now_s - painted_s >= EVERY_S:
                state.update(now_s)
                view = live_view(state.picture(now_s), console.width, console.height - 2)
                live.update(Group(view, ""), refresh=True)  # the "^C" that a terminal echoes has a line of its own
                painted_s = time.monotonic()
    state.update(time.monotonic())
    said = last_line(state.ended(time.monotonic())) if state.told else ""
    if said:
        console.print(Text(said, style="dim"))


def _take(state: State, message: Mapping[str, Any], console: Console, now_s: float) -> None:
    if "step" in message:
        stage, label, done, total = message["step"]
        state.step(stage, label, done, total, now_s)
    if "run" in message:
        state.records.path = Path(message["run"])
    if "estimates" in message:
        state.estimates = message["estimates"]
    if "say" in message:
        console.print(Text(printable(message["say"])), soft_wrap=True)


def received(descriptor: int) -> Iterator[Mapping[str, Any] | None]:
    """Yield the messages of a pipe until it is closed, and None whenever it is time to paint."""
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
    paint(state, console, received(sys.stdin.fileno()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] == "stderr")
