"""A streamed answer: server-sent events as they come, with as little work for each as possible."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from energyscope.serving.openai_api import (
    BODY_BYTES,
    ServerError,
    failure,
    message_of,
    open_session,
    read_body,
    refusal,
    shown,
)

if TYPE_CHECKING:
    import aiohttp

TEXTS = ("text", "content", "reasoning_content", "reasoning")  # of a choice, or of its delta
LAST_S = 0.2  # for the end of the body after [DONE]: it lets the connection be used again


class Stream:
    """What has come of an answer so far.

    ``chunks_s`` has a time (s, monotonic clock) for each event with text; ``last_s`` is when anything came last.
    """

    def __init__(self) -> None:
        self.chunks_s: list[float] = []
        self.last_s: float | None = None
        self.usage: dict[str, Any] = {}
        self.finish: str | None = None
        self.done = False
        self._rest = b""

    def feed(self, data: bytes, now_s: float) -> None:
        """Take bytes that came at ``now_s``: several events, or a part of one.

        Raises:
            ServerError: they are no events, or say that the answer failed.

        """
        self.last_s = now_s
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > BODY_BYTES:
            raise ServerError("the server sends an event without end")
        for line in lines:
            if line.startswith(b"data:"):
                self._take(line[5:].strip(), now_s)
            elif line.startswith(b"error:"):  # as llama.cpp writes it
                raise ServerError(f"the server broke off: {message_of(line[6:])}")

    def end(self) -> None:
        """Take the end of the body.

        Raises:
            ServerError: the answer is not complete.

        """
        if self._rest and self.last_s is not None:
            self.feed(b"\n", self.last_s)
        if not self.done and self.finish is None:
            raise ServerError("the answer ended early, without [DONE] and finish_reason")

    def tokens(self, name: str) -> int | None:
        """Return a number of tokens of ``usage``."""
        return _whole(self.usage.get(name))

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that the server had in its cache."""
        details = self.usage.get("prompt_tokens_details")
        return _whole(details.get("cached_tokens")) if isinstance(details, dict) else None

    def _take(self, data: bytes, now_s: float) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise ServerError(f"the server sent an event that is not JSON: {shown(data.decode(errors='replace'))}")
        if event.get("error"):
            raise ServerError(f"the server broke off: {message_of(data)}")
        if isinstance(event.get("usage"), dict):
            self.usage = event["usage"]
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._choose(choice, now_s)

    def _choose(self, choice: dict[str, Any], now_s: float) -> None:
        delta = choice.get("delta")
        parts = delta if isinstance(delta, dict) else choice
        if any(parts.get(name) for name in TEXTS):
            self.chunks_s.append(now_s)
        finish = choice.get("finish_reason")
        if isinstance(finish, str):
            self.finish = shown(finish)


async def ask(session: aiohttp.ClientSession, url: str, body: Mapping[str, Any], stream: Stream) -> None:
    """Send a request and let the stream take its answer, up to its end.

    Raises:
        ServerError: there is no complete answer; what came of it is in the stream.

    """
    import aiohttp

    try:
        async with session.post(url, json=body, allow_redirects=False) as response:
            if response.status != 200:
                raise await refusal(response)
            if response.content_type == "application/json":
                message = message_of(await read_body(response))
                raise ServerError(f"{url} did not stream its answer: {message}", response.status)
            while not stream.done and (data := await response.content.readany()):
                stream.feed(data, time.monotonic())
            stream.end()
            with contextlib.suppress(TimeoutError, aiohttp.ClientError):
                async with asyncio.timeout(LAST_S):
                    await response.content.readany()
    except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
        raise failure(error, url, session.timeout.total) from None


async def ask_whole(url: str, body: Mapping[str, Any], timeout_s: float | None) -> int | None:
    """Send a request for an answer in one piece, and return its prompt's tokens; None where it does not say.

    It has a connection of its own: that of a stream which the server broke off is about to be closed.

    Raises:
        ServerError: it is refused.

    """
    import aiohttp

    plain = {name: value for name, value in body.items() if name != "stream_options"} | {"stream": False}
    try:
        async with (
            open_session(timeout_s) as session,
            session.post(url, json=plain, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise await refusal(response)
            usage = json.loads(await read_body(response))["usage"]
            return _whole(usage["prompt_tokens"])
    except (aiohttp.ClientError, OSError) as error:
        raise failure(error, url, timeout_s) from None
    except (ValueError, RecursionError, TypeError, KeyError):
        return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
