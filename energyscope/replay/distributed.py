"""Replay of a model that is split over processes: every rank makes the same calls, since they contain collectives.

Rank 0 leads: it decides what is replayed, for how long and in which chunks, and reads every device's meter. The
others follow its orders and answer:

    leader     | ROUND s | STEPS n .. | BEGIN c | CHUNK .. | CHUNK .. | ... | END  | LEAVE | ... | DONE
    followers  | ready   | seconds    |         | kept     | kept     | ... | times|       |     |

Orders and answers go over the host, never over the devices that are measured. A chunk's order is given before the
leader queues that chunk itself, some chunks ahead of the devices, so that none of them waits for an order.

All processes are on one machine, whose monotonic clock they share: a chunk is done when the last rank is done.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from energyscope.errors import DeviceError
from energyscope.failures import out_of_memory
from energyscope.metering.host import NO_HOST, HostCounter
from energyscope.metering.ticks import Calls
from energyscope.replay.calls import Call, no_garbage_collection
from energyscope.replay.coordinator import (
    NO_MEMORY,
    NO_REST,
    READY,
    Coordinator,
    LeaderLeftError,
    Order,
    is_disconnection,
)
from energyscope.replay.marks import IN_FLIGHT
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.replayer import Loop, Replayer, resting
from energyscope.replay.targets import Target


class LeadingSetup(ReplaySetup):
    """The leader's replay setup: all ranks set up the same targets."""

    def __init__(self, replay_setup: ReplaySetup, plan: Sequence[Target], coordinator: Coordinator) -> None:
        super().__init__(replay_setup.tree, replay_setup.captures, replay_setup.cache_bytes)
        self._coordinator = coordinator
        self._numbers = {target.key: number for number, target in enumerate(plan)}

    @contextmanager
    def round(self, target: Target) -> Iterator[list[Call]]:
        """Yield the target's round of calls, once all ranks have set it up.

        Raises:
            OutOfMemoryError: a rank has no memory left for it.

        """
        self._coordinator.give(Order.ROUND, self._numbers[target.key])
        try:
            with ExitStack() as stack:
                try:
                    calls = stack.enter_context(super().round(target))
                finally:
                    states = self._coordinator.answers()
                _require_ready(states)
                yield calls
        except BaseException:
            self._coordinator.last_word(Order.LEAVE)
            raise
        self._coordinator.give(Order.LEAVE)

    def overhead(self, target: Target) -> list[Call]:
        """Return what each of the target's calls does besides its own work; the other ranks set it up too."""
        self._coordinator.give(Order.OVERHEAD, self._numbers[target.key])
        return super().overhead(target)


def _require_ready(states: Sequence[npt.NDArray[np.float64]]) -> None:
    if any(state[0] != READY for state in states):
        raise torch.OutOfMemoryError("another process has no memory left to set it up")


class LeadingReplayer(Replayer):
    """The leader's replayer: all ranks run what it runs; a chunk is done when the last of them is done."""

    def __init__(self, device: torch.device, coordinator: Coordinator, host: HostCounter) -> None:
        super().__init__(device, host=host)
        self._coordinator = coordinator

    def run(self, round_: Sequence[Call], seconds: float, *, rest_s: float | None = None) -> Calls | None:
        """Run the calls of a round on all ranks (see `Replayer.run`)."""
        self._coordinator.give(Order.RUN, NO_REST if rest_s is None else round(rest_s * 1e9))
        return super().run(round_, seconds, rest_s=rest_s)

    def _seconds_of(self, loop: Loop, steps: int) -> float:
        self._coordinator.give(Order.STEPS, steps)
        own_s = super()._seconds_of(loop, steps)
        return max(own_s, *(float(answer[0]) for answer in self._coordinator.answers()))

    def _timed(self, loop: Loop, chunk: int, seconds: float) -> Calls:
        self._coordinator.give(Order.BEGIN, chunk)
        marks = self._marks()
        counts = [0]
        end = time.monotonic() + seconds
        while counts[-1] == 0 or time.monotonic() < end:
            self._coordinator.give(Order.CHUNK)
            for step in itertools.islice(loop.steps, chunk):
                step()
            counts.append(counts[-1] + chunk * loop.calls)
            marks.mark()
            if len(counts) > IN_FLIGHT:  # a rank that is behind must not fall out of the window
                self._coordinator.answers()
        self._coordinator.give(Order.END)
        for _ in range(min(IN_FLIGHT - 1, len(counts) - 1)):
            self._coordinator.answers()
        times = np.array([marks.finish(), *self._coordinator.answers()])
        return Calls(times.max(axis=0), np.array(counts, dtype=float), marks.waited_s)


class OtherRank:
    """Stands for the replayer of another rank's device in a session: it only reports the memory held there."""

    def __init__(self, rank: int, coordinator: Coordinator) -> None:
        self._rank = rank
        self._coordinator = coordinator

    def run(self, round_: Sequence[Call], seconds: float, *, rest_s: float | None = None) -> Calls | None:  # noqa: ARG002 - the contract's
        """Raise: this rank runs what the leader runs, and nothing alone."""
        raise RuntimeError("a rank of a split model runs nothing alone: replay on the leader's device")

    def pace(self, round_: Sequence[Call], seconds: float) -> float:  # noqa: ARG002 - the contract's
        """Raise, as `run` does."""
        raise RuntimeError("a rank of a split model runs nothing alone: time it on the leader's device")

    def synchronize(self) -> None:
        """Do nothing: when the leader has the answers, the others have finished their work."""

    def own_bytes(self) -> int | None:
        """Return the device memory (bytes) that the rank holds; None on the CPU."""
        self._coordinator.give(Order.MEMORY)
        number = self._coordinator.answers()[self._rank - 1][0]
        return None if number < 0 else int(number)


@dataclass(frozen=True)
class Lead:
    """What a session needs to replay on all ranks; ``elsewhere`` are the other ranks, by their devices."""

    replay_setup: LeadingSetup
    replayer: LeadingReplayer
    elsewhere: Mapping[torch.device, OtherRank]


@contextmanager
def leading(
    replay_setup: ReplaySetup, plan: Sequence[Target], device: torch.device, host: HostCounter = NO_HOST
) -> Iterator[Lead]:
    """Lead the other ranks through a plan while the context lasts; they `follow`.

    However it ends, they get a last order, so that none of them waits for ever.
    """
    coordinator = Coordinator()
    ranks = coordinator.followers if device.type == "cuda" else ()
    elsewhere = {torch.device("cuda", rank): OtherRank(rank, coordinator) for rank in ranks}
    try:
        replayer = LeadingReplayer(device, coordinator, host)
        yield Lead(LeadingSetup(replay_setup, plan, coordinator), replayer, elsewhere)
    except BaseException as error:
        coordinator.last_word(Order.DONE)
        if is_disconnection(error):
            raise DeviceError("one of the processes ended: its own message says why") from error
        raise
    coordinator.give(Order.DONE)
    coordinator.dissolve()


def follow(replay_setup: ReplaySetup, plan: Sequence[Target], device: torch.device) -> None:
    """Follow the leader's orders until it is done; ``plan`` is the leader's own.

    Raises:
        LeaderLeftError: it gave up, or is gone, in the middle of a replay.

    """
    coordinator = Coordinator()
    follower = _Follower(replay_setup, plan, device, coordinator)
    follower.until(Order.DONE)
    coordinator.dissolve()


class _Follower(Replayer):
    """One of the other ranks."""

    def __init__(
        self, replay_setup: ReplaySetup, plan: Sequence[Target], device: torch.device, coordinator: Coordinator
    ) -> None:
        super().__init__(device)
        self._replay_setup = replay_setup
        self._plan = plan
        self._coordinator = coordinator
        self._round: list[Call] = []

    def until(self, last: Order) -> None:
        """Follow orders up to the last one of its kind."""
        while True:
            order, number = self._coordinator.next()
            if order is last:
                return
            if order is Order.ROUND:
                self._set_up(self._plan[number])
            elif order is Order.OVERHEAD:
                self._round = self._replay_setup.overhead(self._plan[number])
            elif order is Order.RUN:
                self._replay(None if number == NO_REST else number / 1e9)
            elif order is Order.MEMORY:
                own_bytes = self.own_bytes()
                self._coordinator.answer([-1 if own_bytes is None else own_bytes])
            else:
                raise LeaderLeftError

    def _set_up(self, target: Target) -> None:
        with ExitStack() as stack:
            try:
                self._round = stack.enter_context(self._replay_setup.round(target))
            except Exception as error:
                if not out_of_memory(error):
                    raise
                self._coordinator.answer([NO_MEMORY])
            else:
                self._coordinator.answer([READY])
            self.until(Order.LEAVE)
        self._round = []

    @torch.no_grad()
    def _replay(self, rest_s: float | None) -> None:
        with no_garbage_collection(), self._current():
            loop: Any = self._loop(self._round if rest_s is None else resting(self._round, rest_s))
            order, number = self._coordinator.next()
            while order is Order.STEPS:
                self._coordinator.answer([self._seconds_of(loop, number)])
                order, number = self._coordinator.next()
            if order is not Order.BEGIN:
                raise LeaderLeftError
            self._run_chunks(loop, number)

    def _run_chunks(self, loop: Loop, chunk: int) -> None:
        marks = self._marks()
        while (order := self._coordinator.next()[0]) is Order.CHUNK:
            for step in itertools.islice(loop.steps, chunk):
                step()
            marks.mark()
            self._coordinator.answer([READY])
        if order is not Order.END:
            raise LeaderLeftError
        self._coordinator.answer(marks.finish())
