"""Time components where they run, in forward passes of the model; no component is replayed.

A sensor that is a thousand times too slow needs a component again and again, alone. A processor then finds its
code, weights and inputs in the caches, where the model has meanwhile used them for others, and takes less time.
Where joules are time x watts there is no sensor, and a clock can be read around each call.

Reading it takes time itself. So passes take turns in which only the model is timed, only its parts, only theirs:

    model             |------------------------------------|
    its parts         |-- embedding --|-- layer --|-- layer --|-- head --|
    and their parts                   |- norm -|- attention -|- norm -|- MLP -|

What a component does beside its parts is the difference of two turns.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from energyscope.components import Component
from energyscope.functions import FunctionCall, answered, exchanged_forward
from energyscope.grouping import group_by
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.window import Window
from energyscope.replay.calls import Call, no_garbage_collection
from energyscope.replay.marks import Clock
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.targets import Target

TURN_S = 0.03  # of passes of one level: the first one after another level's finds less in the caches
TIMED_TWICE = 4  # passes that tell what a timer costs
WITHIN = 0.5  # of what a timer costs is in its own time: half of each of its two reads; the rest is its caller's


@dataclass
class Timed:
    """The seconds of a component's calls so far, and how many there were."""

    seconds: float = 0.0
    calls: int = 0

    def add(self, others: Sequence[Timed]) -> None:
        self.seconds += sum(other.seconds for other in others)
        self.calls += sum(other.calls for other in others)


@dataclass(frozen=True)
class Together:
    """The windows of targets that were timed in the same passes, None without calls; their span (monotonic, s)."""

    windows: Mapping[str, Window | None]
    span_s: tuple[float, float]


class InModel:
    """Times the components of a model on a processor in its own forward passes."""

    def __init__(self, setup: ReplaySetup, meter: ModelledMeter, clock: Clock | None = None) -> None:
        self._watts = meter.watts
        self._setup = setup
        self._clock = clock or time.perf_counter
        root = setup.tree.root
        self._model = Target(f"node:{root.name}", "node", (root.name,))
        self._levels = list(group_by(setup.tree, self._depth).values())
        self._chunk = 0  # passes of a level in its turn; known once a pass was timed, as is what a timer takes
        self._timer_s = 0.0

    @torch.no_grad()
    def run(self, targets: Sequence[Target], seconds: float) -> Together:
        """Return a window of every target, of forward passes that take at least some seconds.

        Targets run in the model as it is: components, kinds, what is between components. Restoring inputs that the
        model writes to is part of none. A window's energy is time x watts; it and the time may be negative where
        they are a difference: without such windows their mean would be too large. ``seconds`` are those of all.
        """
        with no_garbage_collection(), self._setup.round(self._model) as (step,):
            if not self._chunk:
                self._chunk = max(1, round(TURN_S / min(self._seconds_of(step, 1) for _ in range(2))))
                self._timer_s = self._seconds_of_timer(step)
            begin = time.monotonic()
            totals = {target.key: Timed() for target in targets}
            turns = 0
            while turns == 0 or time.monotonic() < begin + seconds:
                own = self._turn(step)
                for target in targets:
                    totals[target.key].add(self._of(target, own))
                turns += 1
            span = begin, time.monotonic()
        return Together({key: self._window(total, turns, span) for key, total in totals.items()}, span)

    def _window(self, timed: Timed, turns: int, span: tuple[float, float]) -> Window | None:
        if not timed.calls:
            return None
        each_s = timed.seconds / timed.calls
        return Window(
            energy_mj=each_s * self._watts * 1e3,
            time_us=each_s * 1e6,
            power_w=self._watts,
            naive_mj=None,
            ticks=turns,
            calls=timed.calls,
            seconds=span[1] - span[0],
        )

    def _depth(self, component: Component) -> int:
        return 0 if component.parent is None else 1 + self._depth(self._setup.tree[component.parent])

    def _turn(self, step: Call) -> dict[str, Timed]:
        """Return every component's calls in some passes of its level, without what its timer took."""
        within_s, own = WITHIN * self._timer_s, dict[str, Timed]()
        for level in self._levels:
            with self._timers(level) as (timed,):
                if self._chunk > 1:
                    step()
                    for one in timed.values():
                        one.seconds, one.calls = 0.0, 0
                self._seconds_of(step, self._chunk)
            own |= {name: Timed(one.seconds - within_s * one.calls, one.calls) for name, one in timed.items()}
        return own

    def _seconds_of(self, step: Call, steps: int) -> float:
        begin = self._clock()
        for _ in range(steps):
            step()
        return self._clock() - begin

    def _seconds_of_timer(self, step: Call) -> float:
        """Return what timing a call costs in the model (s): how much longer it takes with a second timer.

        Calls of nothing, in a loop of their own, would take a third of that.
        """
        with self._timers(self._levels[-1], 2) as (inner, outer):
            self._seconds_of(step, TIMED_TWICE)
        longer_s = sum(outer[name].seconds - inner[name].seconds for name in outer)
        return max(longer_s / max(1, sum(timed.calls for timed in outer.values())), 0.0)

    def _of(self, target: Target, own: Mapping[str, Timed]) -> list[Timed]:
        """Return what makes a target's time: its members' and, of what is between components, less its parts'."""
        members = target.members[:1] if target.what == "node" else target.members
        parts = [own[name] for name in members]
        if target.what == "glue":
            children = [child.name for name in members for child in self._setup.tree.children(name)]
            parts += [Timed(-own[name].seconds) for name in children]
        return parts

    @contextmanager
    def _timers(self, level: Sequence[Component], number: int = 1) -> Iterator[list[dict[str, Timed]]]:
        """Put timers, one around the other, around every call of some components as long as the context lasts."""
        records = [{component.name: Timed() for component in level} for _ in range(number)]
        with ExitStack() as stack:
            for component in level:
                module = component.module
                function = module.function if isinstance(module, FunctionCall) else module.forward
                for timed in records:
                    function = _timer(function, timed[component.name], self._clock)
                if isinstance(module, FunctionCall):
                    stack.enter_context(answered(module, function))
                else:
                    stack.enter_context(exchanged_forward(module, function))
            yield records


def _timer(function: Callable[..., Any], timed: Timed, clock: Clock) -> Callable[..., Any]:
    @functools.wraps(function)
    def forward(*args: Any, **kwargs: Any) -> Any:
        begin = clock()
        output = function(*args, **kwargs)
        timed.seconds += clock() - begin
        timed.calls += 1
        return output

    return forward
