"""`python -m energyscope.serving.client`: sends loads to a server, in a process that does nothing else.

Standard input: a line with the endpoint as JSON, and ``timeout_s`` (s); then a line for each load. Standard
output: a line ``{"answer": ...}`` for each request that ended, and ``{"done": ...}`` after each load. The process
ends when standard input closes, also amid a load: requests under way are given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from energyscope.serving.endpoint import Endpoint
from energyscope.serving.openai_api import ServerError, open_session
from energyscope.serving.prompts import prompt
from energyscope.serving.requests import Answer, Load, Shape
from energyscope.serving.streaming import Stream, ask

if TYPE_CHECKING:
    import aiohttp

WAIT_S, LONGEST_WAIT_S = 0.2, 5.0  # of a user whose request failed: twice as long each time
LONGEST_LINE = 1 << 30  # bytes: a load may hold a trace of texts
DIGITS = 6  # of times (s)


class Asking:
    """Until when the users of a load ask, and what; ``requests`` are shared by all of them."""

    def __init__(self, load: Load, begin_s: float) -> None:
        self.load = load
        self.requests = enumerate(itertools.cycle(load.shapes))
        self.until_s = begin_s + load.seconds
        self._rounds = [0] * (load.users or 0)

    def ended(self, user: int, answer: Answer) -> None:
        """Take note that a request of a user has ended; nobody waits for more of a user whose request failed."""
        lacking = min(self._rounds) < self.load.rounds
        self._rounds[user] = self._rounds[user] + 1 if answer.error is None else self.load.rounds
        if lacking and min(self._rounds) >= self.load.rounds:
            self.until_s = max(self.until_s, answer.ended_s)

    def goes_on(self, now_s: float) -> bool:
        """Tell whether a user whose request ended now sends another one."""
        return now_s < self.until_s or min(self._rounds) < self.load.rounds


class Sender:
    """Sends loads by a session; ``write`` gets a record of each request that ended, and of each load."""

    def __init__(
        self, session: aiohttp.ClientSession, endpoint: Endpoint, write: Callable[[dict[str, Any]], None]
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._write = write

    async def send(self, load: Load) -> None:
        """Send a load; it is over when its time is, and all its requests have ended."""
        begin_s = time.monotonic()
        unsent, seconds = 0, load.seconds
        if load.arrivals_s is not None:
            unsent = await self._on_schedule(load, begin_s)
        elif load.users is not None:
            seconds = await self._by_users(load, begin_s)
        await _sleep_until(begin_s + load.seconds)
        times = {"begin_s": begin_s, "end_s": time.monotonic(), "seconds": round(seconds, DIGITS)}
        self._write({"done": {**times, "unsent": unsent}})

    async def _on_schedule(self, load: Load, begin_s: float) -> int:
        """Send each request at its time, whatever is unanswered; return how many were later than the load."""
        schedule = sorted(zip(load.arrivals_s or (), load.shapes, strict=True), key=lambda pair: pair[0])
        due = [pair for pair in schedule if pair[0] <= load.seconds]
        async with asyncio.TaskGroup() as tasks:
            for number, (after_s, shape) in enumerate(due):
                await _sleep_until(begin_s + after_s)
                tasks.create_task(self._request(load, number, shape, begin_s + after_s))
        return len(schedule) - len(due)

    async def _by_users(self, load: Load, begin_s: float) -> float:
        """Send the requests of users; return for how long they asked (s)."""
        asking = Asking(load, begin_s)
        drawn = random.Random(f"{load.seed} {load.name}")
        async with asyncio.TaskGroup() as tasks:
            for user in range(load.users or 0):
                tasks.create_task(self._user(asking, user, begin_s + drawn.uniform(0.0, load.ramp_s)))
        return asking.until_s - begin_s

    async def _user(self, asking: Asking, user: int, due_s: float) -> None:
        """Send one request after another."""
        wait_s = WAIT_S
        while asking.goes_on(due_s):
            await _sleep_until(due_s)
            number, shape = next(asking.requests)
            answer = await self._request(asking.load, number, shape, due_s)
            asking.ended(user, answer)
            due_s = answer.ended_s
            if answer.error is None:
                wait_s = WAIT_S
            else:
                due_s += wait_s
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    async def _request(self, load: Load, number: int, shape: Shape, due_s: float) -> Answer:
        words = prompt(shape.words, load.shared_words, load.seed, load.request_name, number)
        body = self._endpoint.body(words if shape.text is None else shape.text, shape.max_tokens)
        stream, error = Stream(), None
        sent_s = time.monotonic()
        try:
            await ask(self._session, self._endpoint.address, body, stream)
        except ServerError as failed:
            error = str(failed)
        ended_s = time.monotonic() if error or stream.last_s is None else stream.last_s
        texts_s = stream.chunks_s or ([] if error else [ended_s])  # an answer may be empty
        answer = Answer(
            load.name,
            number,
            shape.max_tokens,
            shape.words,
            round(due_s, DIGITS),
            round(sent_s, DIGITS),
            round(ended_s, DIGITS),
            chunks_s=tuple(round(time_s, DIGITS) for time_s in texts_s),
            prompt_tokens=stream.tokens("prompt_tokens"),
            cached_tokens=stream.cached_tokens,
            new_tokens=stream.tokens("completion_tokens"),
            finish=stream.finish,
            error=error,
        )
        self._write({"answer": answer.document()})
        return answer


def write(record: dict[str, Any]) -> None:
    """Write a record as one line, at once."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


async def _sleep_until(due_s: float) -> None:
    await asyncio.sleep(max(due_s - time.monotonic(), 0.0))


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return reader


async def _serve() -> None:
    lines = await _standard_input()
    document = json.loads(await lines.readline())
    timeout_s = document.pop("timeout_s")
    loads: asyncio.Queue[Load] = asyncio.Queue()
    async with open_session(timeout_s) as session:
        sending = asyncio.create_task(_send_all(Sender(session, Endpoint.of(document), write), loads))
        reading = asyncio.create_task(_read_all(lines, loads))
        ended, others = await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for task in ended:
            task.result()


async def _send_all(sender: Sender, loads: asyncio.Queue[Load]) -> None:
    while True:
        await sender.send(await loads.get())


async def _read_all(lines: asyncio.StreamReader, loads: asyncio.Queue[Load]) -> None:
    """Read until standard input closes."""
    while line := await lines.readline():
        loads.put_nowait(Load.of(json.loads(line)))


def main() -> None:
    """Send what standard input says."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):  # each request under way is an open file
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        asyncio.run(_serve())
    except (ExceptionGroup, BrokenPipeError) as error:
        cause: Exception = error
        while isinstance(cause, ExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, BrokenPipeError):  # nobody reads any more: the interpreter would complain as it ends
            os._exit(1)
        raise cause from None  # its last line is what the parent shows


if __name__ == "__main__":
    main()
