"""Which model of a server is asked, by which API, and what it accepts: found out with a few small requests."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from energyscope.errors import UsageError, did_you_mean
from energyscope.serving.openai_api import ServerError, base_of, failure, open_session, read_body, refusal, shown
from energyscope.serving.prompts import prompt
from energyscope.serving.streaming import Stream, ask, ask_whole

if TYPE_CHECKING:
    import aiohttp

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
FIELDS = ("ignore_eos", "min_tokens", "stream_options")  # that not every server knows
UNKNOWN_FIELD = {400, 422}
NOT_HERE = {400, 404, 405, 422, 501}  # the statuses of an API that a server or its model does not have
PROBE_WORDS = 120
PROBE_CONTEXT = 1024  # tokens, where the server does not say
# Where engines state the longest prompt and answer together (tokens): of a model's entry in the list; elsewhere.
STATED = ("max_model_len", "max_context_length", "context_length", "context_window", "meta.n_ctx")
ELSEWHERE = (
    ("/props", "default_generation_settings.n_ctx"),  # llama.cpp, of each of its slots
    ("/info", "max_total_tokens"),  # text-generation-inference
)
VERSIONS = (  # where engines state their version
    ("/version", "version"),  # vLLM
    ("/props", "build_info"),  # llama.cpp
    ("/info", "version"),  # text-generation-inference
    ("/server_info", "version"),  # SGLang
    ("/get_server_info", "version"),  # SGLang, older
)
TRAINED = "meta.n_ctx_train"  # llama.cpp: what the model was made for, which its slots may be shorter than
TOO_LONG = (
    2.5  # times the context that is needed: a prompt that finds out what a server takes which states nothing
)
SHORTEST_CONTEXT = 32  # tokens: a smaller number in an error is something else
NEAR = 0.9  # of the tokens that were sent, beyond which a number in an error is theirs
_REFUSALS = frozenset({400, 413, 422})  # of a request that is too long
_ABOUT_LENGTH = re.compile(r"token|context|length|max", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d{1,9})(?!\w|[.,]\d)")
KEYLESS = {401, 403}
LISTED = 20  # models in a message


@dataclass(frozen=True)
class Endpoint:
    """A model at a server's address, and how it is asked. Plain data that travels between processes.

    ``url`` has no `/v1`; ``api`` is "completions" or "chat"; ``context_tokens``, ``owner`` (what the engine calls
    itself) and its ``version`` are None where the server does not tell; ``fields`` are those of `FIELDS` that it
    accepts. Our prompts have ``overhead_tokens + tokens_per_word * words`` tokens, both None where the server
    gives no usage.
    """

    url: str
    model: str
    api: str = "completions"
    context_tokens: int | None = None
    owner: str | None = None
    fields: tuple[str, ...] = ()
    tokens_per_word: float | None = None
    overhead_tokens: float | None = None
    version: str | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the endpoint of plain data."""
        return cls(**{**document, "fields": tuple(document["fields"])})

    @property
    def address(self) -> str:
        """Where its requests go."""
        return self.url + PATHS[self.api]

    def body(self, text: str, max_tokens: int) -> dict[str, Any]:
        """Return the request for ``max_tokens`` new tokens: exactly so many, where the server can be told."""
        extra = {"ignore_eos": True, "min_tokens": max_tokens, "stream_options": {"include_usage": True}}
        messages = [{"role": "user", "content": text}]
        asked = {"prompt": text} if self.api == "completions" else {"messages": messages}
        known = {name: extra[name] for name in self.fields}
        return {"model": self.model, **asked, "max_tokens": max_tokens, "stream": True, **known}


async def find_endpoint(
    url: str, *, model: str | None = None, api: str = "auto", timeout_s: float = 60.0, context_tokens: int = 2048
) -> Endpoint:
    """Return what can be asked at an address; ``timeout_s`` (s) is for each of some six requests of one token.

    ``context_tokens`` are needed: a server that does not state its context gets one prompt that is longer.

    Raises:
        UsageError: no address, or a model that is not there, or one of several that must be named.
        ServerError: the server cannot be reached, refuses, or does not speak this API.

    """
    base = base_of(url)
    async with open_session(timeout_s) as session:
        entry = _chosen(await _models(session, base, required=model is None), model, base)
        stated = await _context(session, base, entry)
        owner, version = _text_at(entry, "owned_by"), await _version(session, base)
        endpoint = Endpoint(base, entry["id"], context_tokens=stated, owner=owner, version=version)
        endpoint = await _with_api(session, endpoint, api)
        endpoint = await _with_fields(session, endpoint)
        endpoint = await _calibrated(session, endpoint)
        if stated is not None:
            return endpoint
        return replace(endpoint, context_tokens=await _found_context(session, endpoint, context_tokens))


async def _models(session: aiohttp.ClientSession, base: str, *, required: bool) -> list[dict[str, Any]] | None:
    """Return what the server lists; None where it has no list, which a model's name makes up for."""
    import aiohttp

    url = f"{base}/v1/models"
    try:
        headers = {"Connection": "close"}  # after an error, servers close it at any moment
        async with session.get(url, allow_redirects=False, headers=headers) as response:
            if response.status not in KEYLESS and response.status != 200 and not required:
                return None  # `transformers serve` without a hub cache answers 500
            if response.status == 404:
                raise ServerError(f"{url} is not there (404): give --model, or check the address", 404)
            if response.status != 200:
                raise await refusal(response)
            body = await read_body(response)
    except (aiohttp.ClientError, OSError) as error:
        raise failure(error, url, session.timeout.total) from None
    return _entries(body, url)


def _entries(body: bytes, url: str) -> list[dict[str, Any]]:
    try:
        data = json.loads(body)["data"]
        entries = [entry for entry in data if isinstance(entry["id"], str)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ServerError(f"{url} is not the list of models of an OpenAI API: check address and port") from None
    return entries


def _chosen(entries: list[dict[str, Any]] | None, model: str | None, base: str) -> dict[str, Any]:
    """Return the entry of the model that is asked for, or of the only one."""
    by_name = {entry["id"]: entry for entry in entries or ()}
    if not by_name and model is None:
        raise ServerError(f"{base} lists no model: load one first, or give --model")
    if not by_name:
        return {"id": model}
    if model is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if model is None:
        names = ", ".join(shown(name) for name in list(by_name)[:LISTED])
        raise UsageError(f"{base} has {len(by_name)} models, choose one with --model: {names}")
    if model not in by_name:
        raise UsageError(f"{base} has no model {model!r}" + did_you_mean(model, by_name)[:500])
    return by_name[model]


async def _context(session: aiohttp.ClientSession, base: str, entry: Mapping[str, Any]) -> int | None:
    """Return the longest prompt and answer together (tokens) as the server states it; None where it does not."""
    for field in STATED:
        if limit := _tokens_at(entry, field):
            return limit
    for path, field in ELSEWHERE:
        if limit := _tokens_at(await _document(session, base + path), field):
            return limit
    return _tokens_at(entry, TRAINED)


async def _version(session: aiohttp.ClientSession, base: str) -> str | None:
    """Return the engine's version as it states it; None where it does not."""
    for path, field in VERSIONS:
        if version := _text_at(await _document(session, base + path), field):
            return version
    return None


def _tokens_at(document: Any, field: str) -> int | None:
    """Return the number at a field of a document, such as ``meta.n_ctx``; None where there is none above 0."""
    value = _at(document, field)
    return value if type(value) is int and value > 0 else None


def _text_at(document: Any, field: str) -> str | None:
    """Return the text at a field of a document as part of a line; None where there is none."""
    value = _at(document, field)
    return shown(value) or None if isinstance(value, str) else None


def _at(document: Any, field: str) -> Any:
    for key in field.split("."):
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


async def _document(session: aiohttp.ClientSession, url: str) -> Any:
    """Return the JSON at an address; None where there is none."""
    import aiohttp

    try:
        headers = {"Connection": "close"}
        async with session.get(url, allow_redirects=False, headers=headers) as response:
            return json.loads(await read_body(response)) if response.status == 200 else None
    except (aiohttp.ClientError, OSError, ValueError, RecursionError):
        return None


async def _found_context(session: aiohttp.ClientSession, endpoint: Endpoint, needed: int) -> int | None:
    """Return what a prompt that may be too long tells of the context: the limit in its error, else its own length.

    None where it is refused without a limit. A server that cuts prompts short states the length of what is left.
    """
    sent = round(TOO_LONG * needed)
    words = max(round(sent / (endpoint.tokens_per_word or 1.0)), 1)
    try:  # a fresh text, of which a cache holds nothing
        taken = await _prompt_tokens(session, endpoint, words, secrets.randbits(32))
    except ServerError as error:
        refused = error.status in _REFUSALS
        return limit_in(error.words.replace(endpoint.model, ""), sent) if refused else None
    return sent if taken is None else taken if taken >= SHORTEST_CONTEXT else None


def limit_in(message: str, sent: int) -> int | None:
    """Return the limit that an error names for a prompt of ``sent`` tokens; None where it names none or several.

    The number of tokens sent, and what was asked for on top, are no limits, nor is a number in a message that
    does not speak of tokens, length or context.
    """
    if not _ABOUT_LENGTH.search(message):
        return None
    numbers = {int(number.replace(",", "")) for number in NUMBER.findall(message)}
    limits = [number for number in numbers if SHORTEST_CONTEXT <= number <= NEAR * sent]
    return limits[0] if len(limits) == 1 else None


async def _probe(session: aiohttp.ClientSession, endpoint: Endpoint, text: str = "") -> Stream:
    stream = Stream()
    await ask(session, endpoint.address, endpoint.body(text or prompt(4, 0, 0, "probe", 4), 1), stream)
    return stream


async def _prompt_tokens(
    session: aiohttp.ClientSession, endpoint: Endpoint, words: int, number: int
) -> int | None:
    """Return the tokens of a prompt as the server counts them; None where it does not tell.

    Some (llama-cpp-python) give no usage in a stream, and break it off where a prompt is too long: they are asked
    for an answer in one piece.
    """
    text, broken = prompt(words, 0, 0, "probe", number), None
    try:
        if (tokens := (await _probe(session, endpoint, text)).tokens("prompt_tokens")) is not None:
            return tokens
    except ServerError as error:
        if error.status is not None:
            raise
        broken = error
    tokens = await ask_whole(endpoint.address, endpoint.body(text, 1), session.timeout.total)
    if tokens is None and broken is not None:
        raise broken
    return tokens


async def _with_api(session: aiohttp.ClientSession, endpoint: Endpoint, api: str) -> Endpoint:
    """Return the endpoint with the first API that answers."""
    refused = []
    for name in PATHS if api == "auto" else (api,):
        tried = replace(endpoint, api=name)
        try:
            await _probe(session, tried)
        except ServerError as error:
            if error.status not in NOT_HERE:
                raise
            refused.append(error)
        else:
            return tried
    message = "; ".join(str(error) for error in refused)
    raise ServerError(f"{endpoint.model!r} cannot be asked: {message}", refused[-1].status)


async def _with_fields(session: aiohttp.ClientSession, endpoint: Endpoint) -> Endpoint:
    """Return the endpoint with the extra fields that it accepts: all at once, else each that it accepts alone."""
    whole = replace(endpoint, fields=FIELDS)
    if await _accepts(session, whole):
        return whole
    single = [replace(endpoint, fields=(name,)) for name in FIELDS]
    accepted = [one.fields[0] for one in single if await _accepts(session, one)]
    return replace(endpoint, fields=tuple(accepted))


async def _accepts(session: aiohttp.ClientSession, endpoint: Endpoint) -> bool:
    try:
        await _probe(session, endpoint)
    except ServerError as error:
        if error.status not in UNKNOWN_FIELD:
            raise
        return False
    return True


async def _calibrated(session: aiohttp.ClientSession, endpoint: Endpoint) -> Endpoint:
    """Return the endpoint with how many tokens prompts of ours have, from a short and a long one."""
    long = max(min(PROBE_WORDS, (endpoint.context_tokens or PROBE_CONTEXT) // 4), 5)
    short = long // 5
    try:
        few, many = [await _prompt_tokens(session, endpoint, words, words) for words in (short, long)]
    except ServerError:  # refused without a stream
        return endpoint
    if few is None or many is None or many <= few:
        return endpoint
    rate = (many - few) / (long - short)
    return replace(endpoint, tokens_per_word=rate, overhead_tokens=few - rate * short)
