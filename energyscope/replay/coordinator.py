"""Processes of one machine that work together: one gives orders, the others answer. Nothing is decided here."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from enum import IntEnum
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np
import numpy.typing as npt
import torch.distributed as dist

from energyscope.errors import DeviceError

LEADER = 0
PATIENCE = timedelta(hours=12)  # before a scene the others wait until the leader has written down the last
_ORDER = struct.Struct("<qq")
NO_REST = -1
READY, NO_MEMORY = 0, 1


class Order(IntEnum):
    """What the leader tells the others to do, each with a number."""

    ROUND = 0  # set up the target of that number in the plan
    OVERHEAD = 1  # what that target's calls do besides their own work
    RUN = 2  # the calls that were set up, with a pause of so many nanoseconds after each (`NO_REST`: none)
    STEPS = 3  # so many calls, between two waits for the device
    BEGIN = 4  # chunks of so many calls
    CHUNK = 5  # one of them
    END = 6  # no more of them
    LEAVE = 7  # restore what was changed for the target
    MEMORY = 8  # say how much memory is held
    DONE = 9  # no more orders


class LeaderLeftError(Exception):
    """The leader gave up, or is gone, in the middle of something: there is nothing to follow any more."""


class Coordinator:
    """The processes that replay together: orders from the leader to all others, and their answers to it.

    Over sockets of this machine. They hold what was sent until it is read, unlike gloo's `send`, which waits for
    the other side; they end when a process does, and a signal is heard while one waits for them.
    """

    def __init__(self) -> None:
        """Form the coordinator. All ranks do it, at the same point; the default process group is there already."""
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.followers = range(1, self.size)
        self._to = _connected(self.rank, self.size)

    def give(self, order: Order, number: int = 0) -> None:
        """Give all others an order.

        Raises:
            DeviceError: one of them is gone.

        """
        for rank in self.followers:
            with _reaching(rank):
                self._to[rank].send_bytes(_ORDER.pack(order, number))

    def last_word(self, order: Order) -> None:
        """Give an order to those who are still there, without hiding the error that the leader gives up for."""
        with suppress(DeviceError):
            self.give(order)

    def next(self) -> tuple[Order, int]:
        """Wait for the leader's next order.

        Raises:
            LeaderLeftError: the leader is gone.

        """
        try:
            order, number = _ORDER.unpack(self._to[LEADER].recv_bytes())
        except (EOFError, OSError) as error:
            raise LeaderLeftError from error
        return Order(order), number

    def answer(self, values: Sequence[float]) -> None:
        """Answer the leader with some numbers."""
        try:
            self._to[LEADER].send_bytes(np.asarray(values, dtype=float).tobytes())
        except OSError as error:
            raise LeaderLeftError from error

    def answers(self) -> list[npt.NDArray[np.float64]]:
        """Wait for the answers of all others.

        Raises:
            DeviceError: one of them is gone.

        """
        return [self._answer_of(rank) for rank in self.followers]

    def _answer_of(self, rank: int) -> npt.NDArray[np.float64]:
        with _reaching(rank):
            return np.frombuffer(self._to[rank].recv_bytes(), dtype=float)

    def dissolve(self) -> None:
        """Part, once the leader has given its last order."""
        for connection in self._to.values():
            connection.close()


def _connected(rank: int, size: int) -> dict[int, Connection]:
    """Return the leader's connections to all others, by their ranks; of the others, that to the leader.

    Where to find the leader goes over a gloo group of the host, which ends with it: NCCL carries no words.
    """
    host = dist.new_group(backend="gloo", timeout=PATIENCE)
    try:
        if rank == LEADER:
            key = secrets.token_bytes(32)
            with Listener(authkey=key) as listener:
                dist.broadcast_object_list([listener.address, key], LEADER, group=host)
                connections = [listener.accept() for _ in range(1, size)]
            return {int.from_bytes(link.recv_bytes()): link for link in connections}
        words: list[Any] = [None, None]
        dist.broadcast_object_list(words, LEADER, group=host)
        connection = Client(words[0], authkey=words[1])
        connection.send_bytes(rank.to_bytes(4))
        return {LEADER: connection}
    finally:
        dist.destroy_process_group(host)


def has_parted(error: BaseException) -> bool:
    """Whether a collective failed since another process is gone: gloo raises plain RuntimeErrors."""
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        word in words for word in ("connection closed", "connection reset", "broken pipe")
    )


@contextmanager
def _reaching(rank: int) -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise DeviceError(f"process {rank} of {dist.get_world_size()} ended: its own message says why") from error
