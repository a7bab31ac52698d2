"""Time components where they run, in forward passes of the model; no component is replayed.

A sensor that is a thousand times too slow needs a component again and again, alone. A processor then finds its
code, weights and inputs in the caches, where the model has meanwhile used them for others: components of the
bundled models take 8 to 35 % less time alone than in the model. Where joules are time x watts there is no sensor,
and a clock can be read around each call.

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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from energyscope.components import Component
from energyscope.functions import FunctionCall, answered, exchanged_forward
from energyscope.grouping import group_by
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.ticks import Calls
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


@dataclass(frozen=True)
class Tally:
    """Calls of one target over time, chunk by chunk, from a start on the monotonic clock (s)."""

    origin_s: float
    seconds: list[float] = field(default_factory=lambda: [0.0])
    counts: list[float] = field(default_factory=lambda: [0.0])

    def add(self, parts: Sequence[Timed]) -> None:
        self.seconds.append(self.seconds[-1] + sum(part.seconds for part in parts))
        self.counts.append(self.counts[-1] + sum(part.calls for part in parts))

    @property
    def calls(self) -> Calls:
        return Calls(self.origin_s + np.array(self.seconds), np.array(self.counts))


class InModel:
    """Times the components of a model on a processor in its own forward passes."""

    def __init__(self, setup: ReplaySetup, meter: ModelledMeter, clock: Clock | None = None) -> None:
        self.window_of = meter.window_of
        self._setup = setup
        self._clock = clock or time.perf_counter
        root = setup.tree.root
        self._model = Target(f"node:{root.name}", "node", (root.name,))
        self._levels = list(group_by(setup.tree, self._depth).values())

    def can_time(self, target: Target) -> bool:
        """Tell whether a target runs in the model as it is: a component, a kind, what is between components."""
        return target.what in {"node", "group", "glue"}

    @torch.no_grad()
    def run(self, targets: Sequence[Target], seconds: float) -> dict[str, Calls]:
        """Return the calls of every target in forward passes that take at least some seconds.

        A target's calls follow each other, as if nothing else ran between them. Restoring
        inputs that the model writes to is part of none.
        """
        with no_garbage_collection(), self._setup.round(self._model) as (step,):
            chunk = max(1, round(TURN_S / min(self._seconds_of(step, 1) for _ in range(2))))
            timer_s = self._timer_s(step)
            begin = time.monotonic()
            tallies = {target.key: Tally(begin) for target in targets}
            turns = 0
            while turns == 0 or time.monotonic() < begin + seconds:
                own = self._turn(step, chunk, WITHIN * timer_s)
                for target in targets:
                    tallies[target.key].add(self._of(target, own))
                turns += 1
        return {key: tally.calls for key, tally in tallies.items() if tally.counts[-1]}

    def _depth(self, component: Component) -> int:
        return 0 if component.parent is None else 1 + self._depth(self._setup.tree[component.parent])

    def _turn(self, step: Call, chunk: int, within_s: float) -> dict[str, Timed]:
        """Return every component's calls in some passes of its level, without what its timer took."""
        own: dict[str, Timed] = {}
        for level in self._levels:
            with self._timers(level) as (timed,):
                if chunk > 1:
                    step()
                    for one in timed.values():
                        one.seconds, one.calls = 0.0, 0
                self._seconds_of(step, chunk)
            own |= {name: Timed(one.seconds - within_s * one.calls, one.calls) for name, one in timed.items()}
        return own

    def _seconds_of(self, step: Call, steps: int) -> float:
        begin = self._clock()
        for _ in range(steps):
            step()
        return self._clock() - begin

    def _timer_s(self, step: Call) -> float:
        """Return what timing a call costs in the model (s): how much longer it takes with a second timer.

        Calls of nothing, in a loop of their own, would take a third of that.
        """
        with self._timers(self._levels[-1], 2) as (inner, outer):
            self._seconds_of(step, TIMED_TWICE)
        longer_s = sum(outer[name].seconds - inner[name].seconds for name in outer)
        return max(longer_s / sum(timed.calls for timed in outer.values()), 0.0)

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
