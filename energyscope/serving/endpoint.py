"""Which model of a server is asked, by which API, and what it accepts: found out with a few small requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from energyscope.errors import UsageError, did_you_mean
from energyscope.serving.openai_api import ServerError, base_of, failure, open_session, read_body, refusal, shown
from energyscope.serving.prompts import prompt
from energyscope.serving.streaming import Stream, ask

if TYPE_CHECKING:
    import aiohttp

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
FIELDS = ("ignore_eos", "min_tokens", "stream_options")  # that not every server knows
UNKNOWN_FIELD = {400, 422}
NOT_HERE = {400, 404, 405, 422, 501}  # the statuses of an API that a server or its model does not have
PROBE_WORDS = 120
PROBE_CONTEXT = 1024  # tokens, where the server does not say
KEYLESS = {401, 403}
LISTED = 20  # models in a message


@dataclass(frozen=True)
class Endpoint:
    """A model at a server's address, and how it is asked. Plain data that travels between processes.

    ``url`` has no `/v1`; ``api`` is "completions" or "chat"; ``context_tokens`` and ``owner`` (what the engine
    calls itself) are None where the server does not say; ``fields`` are those of `FIELDS` that it accepts. Our
    prompts have ``overhead_tokens + tokens_per_word * words`` tokens, both None where the server gives no usage.
    """

    url: str
    model: str
    api: str = "completions"
    context_tokens: int | None = None
    owner: str | None = None
    fields: tuple[str, ...] = ()
    tokens_per_word: float | None = None
    overhead_tokens: float | None = None

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
    url: str, *, model: str | None = None, api: str = "auto", timeout_s: float = 60.0
) -> Endpoint:
    """Return what can be asked at an address; ``timeout_s`` (s) is for each of some six requests of one token.

    Raises:
        UsageError: no address, or a model that is not there, or one of several that must be named.
        ServerError: the server cannot be reached, refuses, or does not speak this API.

    """
    base = base_of(url)
    async with open_session(timeout_s) as session:
        entry = _chosen(await _models(session, base, required=model is None), model, base)
        endpoint = Endpoint(base, entry["id"], context_tokens=_context(entry), owner=_owner(entry))
        endpoint = await _with_api(session, endpoint, api)
        endpoint = await _with_fields(session, endpoint)
        return await _calibrated(session, endpoint)


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


def _context(entry: Mapping[str, Any]) -> int | None:
    """Return the longest prompt and answer together (tokens), as vLLM and SGLang or llama.cpp say it."""
    meta = entry.get("meta")
    trained = meta.get("n_ctx_train") if isinstance(meta, dict) else None
    limit = entry.get("max_model_len") or trained
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None


def _owner(entry: Mapping[str, Any]) -> str | None:
    owner = entry.get("owned_by")
    return shown(owner) if isinstance(owner, str) and owner else None


async def _probe(session: aiohttp.ClientSession, endpoint: Endpoint, words: int = 4) -> Stream:
    stream = Stream()
    text = prompt(words, 0, 0, "probe", words)
    await ask(session, endpoint.address, endpoint.body(text, 1), stream)
    return stream


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
    few, many = [(await _probe(session, endpoint, words)).tokens("prompt_tokens") for words in (short, long)]
    if few is None or many is None or many <= few:
        return endpoint
    rate = (many - few) / (long - short)
    return replace(endpoint, tokens_per_word=rate, overhead_tokens=few - rate * short)
