"""A server of the OpenAI API for tests: batching in simulation, any misbehaviour that is asked for.

``python openai_server.py`` serves until standard input closes, and prints its address.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from dataclasses import dataclass, field

from aiohttp import web

EXTRA = {"ignore_eos", "min_tokens", "stream_options"}
CHAT = "/v1/chat/completions"


@dataclass
class OpenAIServer:
    """Use it in a with statement: it serves from a thread, and keeps what it received.

    ``models`` is None for a server without a list. ``unknown`` are the extra fields that get ``unknown_status``.
    Every ``fail_every``-th request gets ``fail_status``, with its headers in the text. ``cut_after`` is how many
    tokens come before the connection breaks, ``stall_after`` before nothing comes any more. A prompt
    of more tokens than ``context`` gets the text ``too_long``, or is cut where it ``cuts``, or its stream is empty
    where it ``breaks_long``. An answer in one piece has usage where ``plain_usage``. ``documents`` by path.
    """

    models: tuple[str, ...] | None = ("tiny",)
    entry: dict = field(default_factory=dict)
    list_status: int = 200
    paths: tuple[str, ...] = ("/v1/completions", CHAT)
    missing_status: int = 404
    unknown: tuple[str, ...] = ()
    unknown_status: int = 400
    usage: bool = True
    fail_every: int = 0
    fail_status: int = 500
    cut_after: int | None = None
    stall_after: int | None = None
    done_marker: bool = True
    key: str | None = None
    redirect: str | None = None
    error_event: bool = False
    streams: bool = True
    prefill_s_per_token: float = 1e-5
    step_s: float = 0.002
    tokens_per_word: float = 1.0
    overhead_tokens: int = 5
    context: int | None = None
    too_long: str = "the context is {context} tokens, and {sent} were sent"
    cuts: bool = False
    breaks_long: bool = False
    plain_usage: bool = False
    documents: dict[str, dict] = field(default_factory=dict)
    received: list[dict] = field(default_factory=list)

    def __enter__(self):
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *error):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    @property
    def bodies(self):
        """What was asked of the model, in the order in which it came."""
        return [request["body"] for request in self.received if request["body"] is not None]

    @property
    def prompts(self):
        """The texts of all requests."""
        return [body["prompt"] if "prompt" in body else body["messages"][0]["content"] for body in self.bodies]

    async def _serve(self, started):
        self._loop, self._end, self._work = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._waiting, self._running = [], []
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        engine = asyncio.create_task(self._compute())
        started.set()
        await self._end.wait()
        engine.cancel()
        await runner.cleanup()

    async def _compute(self):
        """Compute prompts one by one, and between them a step of all sequences that run."""
        while True:
            if self._waiting:
                sequence = self._waiting.pop(0)
                await asyncio.sleep(self.prefill_s_per_token * sequence["prompt"])
                self._running.append(sequence)
                self._token(sequence)
            elif self._running:
                await asyncio.sleep(self.step_s)
                for sequence in list(self._running):
                    self._token(sequence)
            else:
                self._work.clear()
                await self._work.wait()

    def _token(self, sequence):
        sequence["made"] += 1
        sequence["tokens"].put_nowait(sequence["made"])
        if sequence["made"] >= sequence["most"]:
            self._running.remove(sequence)

    async def _answer(self, request):
        body = await request.json() if request.can_read_body else None
        sender = request.transport.get_extra_info("peername")
        headers = dict(request.headers)
        self.received.append({"path": request.path, "from": sender, "headers": headers, "body": body})
        refused = self._refusal(request, body)
        if refused is not None:
            return refused
        if request.path in self.documents:
            return web.json_response(self.documents[request.path])
        if request.path == "/v1/models":
            entries = [
                {"id": name, "object": "model", "owned_by": "stand-in"} | self.entry for name in self.models
            ]
            return web.json_response({"object": "list", "data": entries})
        if not (self.streams and body["stream"]):
            used = {"prompt_tokens": self._tokens(body), "completion_tokens": body["max_tokens"]}
            return web.json_response({"choices": [{"text": "whole"}], "usage": used if self.plain_usage else None})
        return await self._stream(request, body)

    def _refusal(self, request, body):
        """Return what is answered instead, None where the request is fine."""
        if self.redirect:
            return web.Response(status=307, headers={"Location": self.redirect})
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _error(401, "wrong key")
        lists = ("/v1/models",) if self.models is not None else ()
        if request.path not in (*self.paths, *lists, *self.documents):
            return _error(self.missing_status, f"no {request.path} here")
        if body is None:
            return None if self.list_status == 200 else _error(self.list_status, "no list")
        return self._refused_body(request, body)

    def _refused_body(self, request, body):
        if self.models is not None and body["model"] not in self.models:
            return _error(404, f"the model {body['model']} does not exist")
        wrong = set(self.unknown) & set(body)
        if wrong:
            return _error(self.unknown_status, f"extra fields not permitted: {sorted(wrong)}")
        broken = self.breaks_long and body["stream"]
        if self.context is not None and not (self.cuts or broken) and self._tokens(body) > self.context:
            return _error(400, self.too_long.format(context=self.context, sent=self._tokens(body)))
        if self.fail_every and len(self.bodies) % self.fail_every == 0:
            told = request.headers.get("Authorization", "")
            return web.Response(status=self.fail_status, text=f"boom\n\x1b[31m {told} " + 500 * "x")
        return None

    def _tokens(self, body):
        text = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        return self.overhead_tokens + round(self.tokens_per_word * len(text.split()))

    async def _stream(self, request, body):
        if self.breaks_long and self._tokens(body) > self.context:
            return web.Response(text="", headers={"Content-Type": "text/event-stream"})
        prompt = min(self._tokens(body), self.context or sys.maxsize)
        sequence = {"prompt": prompt, "most": body["max_tokens"], "made": 0, "tokens": asyncio.Queue()}
        self._waiting.append(sequence)
        self._work.set()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._events(request, response, sequence, body)
        finally:
            for queue in (self._waiting, self._running):
                if sequence in queue:
                    queue.remove(sequence)
        return response

    async def _events(self, request, response, sequence, body):
        chat, most = request.path == CHAT, sequence["most"]
        if chat:
            await _event(response, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        while sequence["made"] < most or not sequence["tokens"].empty():
            made = await sequence["tokens"].get()
            text = {"delta": {"content": "word "}} if chat else {"text": "word "}
            finish = "length" if made == most and self.cut_after is None else None
            await _event(response, {"id": "1", "choices": [{"index": 0, **text, "finish_reason": finish}]})
            if made == self.cut_after:
                request.transport.close()
                return
            if made == self.stall_after:
                await asyncio.sleep(60)
            if self.error_event:
                await _event(response, {"error": {"message": "out of memory"}})
        if self.usage and body.get("stream_options"):
            used = {"prompt_tokens": sequence["prompt"], "completion_tokens": most}
            used["prompt_tokens_details"] = {"cached_tokens": 3}
            await _event(response, {"choices": [], "usage": used})
        if self.done_marker:
            await response.write(b"data: [DONE]\n\n")


async def _event(response, document):
    await response.write(b"data: " + json.dumps(document).encode() + b"\n\n")


def _error(status, message):
    return web.json_response({"error": {"message": message}}, status=status)


if __name__ == "__main__":
    with OpenAIServer() as server:
        print(server.url, flush=True)  # noqa: T201
        sys.stdin.read()
