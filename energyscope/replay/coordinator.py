"""Communication of processes on one machine: rank 0 gives orders, the others answer."""

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
TIMEOUT = timedelta(hours=12)  # before a phase the others wait until the leader has written the last one
_ORDER = struct.Struct("<qq")
NO_REST = -1
READY, NO_MEMORY = 0, 1


class Order(IntEnum):
    """What the leader tells the others to do, each with a number."""

    ROUND = 0  # set up the target of that number in the plan
    OVERHEAD = 1  # set up what that target's calls do besides their own work
    RUN = 2  # run the calls that were set up, with a pause of that many nanoseconds after each (`NO_REST`: none)
    STEPS = 3  # time that many calls
    BEGIN = 4  # begin chunks of that many calls
    CHUNK = 5  # run a chunk
    END = 6  # end the chunks
    LEAVE = 7  # restore what was changed for the target
    MEMORY = 8  # report how much memory is held
    DONE = 9  # no more orders


class LeaderLeftError(Exception):
    """The leader gave up, or is gone, in the middle of a target."""


class Coordinator:
    """The processes that replay together: orders from the leader to all others, and their answers to it.

    Over sockets of this machine. They buffer what was sent until it is read, unlike gloo's `send`, which waits for
    the other side; they close when a process ends, and a signal interrupts waiting for them.
    """

    def __init__(self) -> None:
        """Connect the ranks. All of them do it, at the same point, after the default process group was made."""
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
        """Give an order to the ranks that still run, without hiding the error that the leader gives up for."""
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
        answers = []
        for rank in self.followers:
            with _reaching(rank):
                answers.append(np.frombuffer(self._to[rank].recv_bytes(), dtype=float))
        return answers

    def dissolve(self) -> None:
        """Close the connections, once the leader has given its last order."""
        for connection in self._to.values():
            connection.close()


def _connected(rank: int, size: int) -> dict[int, Connection]:
    """Return a rank's connections by the other side's rank: the leader's to all others, theirs to the leader.

    The leader sends its address over a temporary gloo group: NCCL sends tensors only.
    """
    host = dist.new_group(backend="gloo", timeout=TIMEOUT)
    try:
        if rank == LEADER:
            key = secrets.token_bytes(32)
            with Listener(authkey=key) as listener:
                dist.broadcast_object_list([listener.address, key], LEADER, group=host)
                connections = [listener.accept() for _ in range(1, size)]
            return {int.from_bytes(link.recv_bytes()): link for link in connections}
        received: list[Any] = [None, None]
        dist.broadcast_object_list(received, LEADER, group=host)
        address, key = received
        connection = Client(address, authkey=key)
        connection.send_bytes(rank.to_bytes(4))
        return {LEADER: connection}
    finally:
        dist.destroy_process_group(host)


def is_disconnection(error: BaseException) -> bool:
    """Whether a collective failed because another process is gone: gloo raises plain RuntimeErrors."""
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        text in message for text in ("connection closed", "connection reset", "broken pipe")
    )


@contextmanager
def _reaching(rank: int) -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise DeviceError(f"process {rank} of {dist.get_world_size()} ended: its own message says why") from error
