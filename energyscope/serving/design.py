"""The loads of a measurement: such that prompts, answers and users can be told apart, in random order.

prompt   prompts of several lengths, one new token each      -> J per prompt token
answer   short prompts and long answers, 1, 2, 4, ... users   -> J per step and per generated token
request  the user's request, 1, 2, 4, ... users, or at rates  -> the load curve
mixture  requests of any shape: held out, to check all that   -> the error of predictions
pause    nothing                                             -> idle power of the loaded engine
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from energyscope.errors import UsageError
from energyscope.serving.curve import REQUEST, good_answers, requests_per_s
from energyscope.serving.energy import HELD_OUT, PAUSE, WARM_UP
from energyscope.serving.requests import Load, Served, Shape
from energyscope.settings.serving import ServingSettings, rates_of, tokens_of

PROMPT, ANSWER = "prompt", "answer"
PROMPT_LENGTHS = (64, 256, 1024)  # tokens, as far as the context reaches
PROMPT_USERS = (1, 4)
SHORT_PROMPT = 16  # tokens
LONG_ANSWER = 128  # tokens
FIRST_USERS = (1, 2, 4, 8, 16, 32)  # and twice as many again, while throughput grows
MOST_USERS = 256
GROWS = 1.1  # times the throughput of half as many users
LONGEST_MIXED = 128  # tokens of an answer in a mixture: longer ones go on long after the others have ended
MIXTURES = 4
PAUSES = 4
PAUSE_SHARE = 0.4  # of a load's seconds
RAMP_SHARE = 0.1
REQUESTS_LONG = 4  # of each user, at least
SHAPES = 64  # drawn for a load, and taken in turn
SIGMA = 0.5  # of the logarithm of tokens, where they are spread
DEFAULT_CONTEXT = 2048  # tokens, where the server does not say
LONGEST_LINE = 1 << 20  # bytes of a trace


@dataclass(frozen=True)
class Limits:
    """What the server takes: tokens of prompt and answer together, and how many tokens a word of ours has.

    The context is ``stated`` by the server, or was found by asking it; else it is assumed.
    """

    context: int
    tokens_per_word: float
    overhead_tokens: float
    stated: bool = True

    def words(self, tokens: int) -> int:
        """Return the words of a prompt of about so many tokens."""
        return max(round((tokens - self.overhead_tokens) / self.tokens_per_word), 1)

    def shape(self, prompt: int, new: int) -> Shape:
        """Return a request of so many tokens."""
        return Shape(self.words(prompt), new)


@dataclass(frozen=True)
class _Request:
    """A request of the user's; ``at_s`` is when it is sent (s), None but in traces with times."""

    shape: Shape
    at_s: float | None = None


def loads_of(settings: ServingSettings, limits: Limits) -> list[Load]:
    """Return the loads in the order in which they are sent; the first warms the engine up.

    Raises:
        UsageError: a request is longer than the context, or the trace cannot be used.

    """
    drawn = random.Random(settings.seed)
    requests = _requests(settings, limits, drawn)
    loads = [*_prompts(settings, limits), *_answers(settings, limits), *_curve(settings, requests, drawn)]
    loads += [_mixture(settings, limits, drawn, number) for number in range(1, MIXTURES + 1)]
    loads += [Load(f"pause {number}", PAUSE, PAUSE_SHARE * settings.seconds) for number in range(1, PAUSES + 1)]
    drawn.shuffle(loads)
    shapes = [request.shape for request in requests]
    warm = _of_users(settings, WARM_UP, WARM_UP, max(users_of(settings)), shapes)
    return [_final(settings, limits, load) for load in (warm, *loads)]


def users_of(settings: ServingSettings) -> tuple[int, ...]:
    """Return the numbers of users that are tried in any case."""
    return settings.users or FIRST_USERS


def _final(settings: ServingSettings, limits: Limits, load: Load) -> Load:
    """Return a load with what all have in common."""
    of_user = load.kind in {REQUEST, WARM_UP}  # a cache would hide what prompts cost
    shared = limits.words(settings.shared_prefix) if settings.shared_prefix and of_user else 0
    return replace(load, seed=settings.seed, shared_words=shared)


def paced(load: Load, sent: Sequence[Served]) -> Load:
    """Return a load of the user's request that lasts several of them.

    Users begin within the time of one request (at most the load's seconds), as it was in the load sent before by
    the most similar number of users: those who begin together keep in step, and their prompts too.
    """
    if load.users is None or load.kind != REQUEST:
        return load
    distances = {  # of the loads sent before; the last of those that are as far away
        abs(math.log(served.load.users / load.users)): good_answers(served)
        for served in sent
        if served.load.kind in {REQUEST, WARM_UP} and served.load.users and good_answers(served)
    }
    ramp_s = load.ramp_s
    if distances and load.users > 1:
        request_s = median(answer.ended_s - answer.sent_s for answer in distances[min(distances)])
        ramp_s = max(ramp_s, min(request_s, load.seconds))
    return replace(load, ramp_s=ramp_s, rounds=REQUESTS_LONG)


def next_load(settings: ServingSettings, limits: Limits, sent: Sequence[Served]) -> Load | None:
    """Return the user's request by twice as many users as were tried, while that pays.

    None where the user named how many, where throughput grew little, or where requests failed.
    """
    rates = {
        load.load.users: requests_per_s(load)
        for load in sent
        if load.load.kind == REQUEST and load.load.users is not None
    }
    most = max(rates, default=MOST_USERS)
    half = rates.get(most // 2)
    failing = any(answer.error is not None for load in sent for answer in load.answers)
    if settings.users or failing or 2 * most > MOST_USERS or not half or (rates[most] or 0.0) < GROWS * half:
        return None
    drawn = random.Random(settings.seed)
    shapes = [request.shape for request in _requests(settings, limits, drawn)]
    return _final(settings, limits, _of_users(settings, f"requests by {2 * most}", REQUEST, 2 * most, shapes))


def seconds_of(loads: Sequence[Load]) -> float:
    """Return how long loads take at least (s); their last answers come on top."""
    return sum(load.seconds for load in loads)


def _of_users(settings: ServingSettings, name: str, kind: str, users: int, shapes: Sequence[Shape]) -> Load:
    ramp_s = RAMP_SHARE * settings.seconds if users > 1 else 0.0
    return Load(name, kind, settings.seconds, tuple(shapes), users=users, ramp_s=ramp_s)


def _prompts(settings: ServingSettings, limits: Limits) -> list[Load]:
    lengths = sorted({min(length, limits.context // 2) for length in PROMPT_LENGTHS})
    return [
        _of_users(settings, f"prompts of {length} by {users}", PROMPT, users, [limits.shape(length, 1)])
        for length in lengths
        for users in PROMPT_USERS
    ]


def _answers(settings: ServingSettings, limits: Limits) -> list[Load]:
    new = min(LONG_ANSWER, limits.context // 2)
    shape = limits.shape(min(SHORT_PROMPT, limits.context // 4), new)
    return [_of_users(settings, f"answers by {users}", ANSWER, users, [shape]) for users in users_of(settings)]


def _curve(settings: ServingSettings, requests: Sequence[_Request], drawn: random.Random) -> list[Load]:
    shapes = [request.shape for request in requests]
    loads = [_of_users(settings, f"requests by {users}", REQUEST, users, shapes) for users in users_of(settings)]
    for rate in rates_of(settings.rates):
        arrivals_s = tuple(_arrivals(rate, settings.seconds, drawn))
        taken = tuple(shapes[number % len(shapes)] for number in range(len(arrivals_s)))
        name = f"requests at {rate:g} per second"
        loads.append(Load(name, REQUEST, settings.seconds, taken, arrivals_s=arrivals_s))
    timed = [(request.at_s, request.shape) for request in requests if request.at_s is not None]
    if timed:
        timed.sort(key=lambda pair: pair[0])
        times_s = tuple(at_s - timed[0][0] for at_s, _ in timed)
        seconds = max(times_s[-1], settings.seconds)
        traced = tuple(shape for _, shape in timed)
        loads.append(Load("requests at the trace's times", REQUEST, seconds, traced, arrivals_s=times_s))
    return loads


def _arrivals(rate: float, seconds: float, drawn: random.Random) -> list[float]:
    times_s, now_s = [], drawn.expovariate(rate)
    while now_s < seconds:
        times_s.append(now_s)
        now_s += drawn.expovariate(rate)
    return times_s or [0.0]


def _mixture(settings: ServingSettings, limits: Limits, drawn: random.Random, number: int) -> Load:
    most = limits.context // 2
    shapes = [
        limits.shape(
            round(math.exp(drawn.uniform(math.log(min(SHORT_PROMPT, most)), math.log(min(1024, most))))),
            round(math.exp(drawn.uniform(math.log(4), math.log(min(LONGEST_MIXED, most))))),
        )
        for _ in range(SHAPES)
    ]
    users = round(math.exp(drawn.uniform(0, math.log(max(users_of(settings))))))
    return _of_users(settings, f"mixture {number} by {users}", HELD_OUT, users, shapes)


def _requests(settings: ServingSettings, limits: Limits, drawn: random.Random) -> list[_Request]:
    if settings.trace is not None:
        return _read_trace(settings.trace)
    prompt, new = (
        _tokens(text, option, drawn)
        for text, option in ((settings.prompt_tokens, "--prompt-tokens"), (settings.new_tokens, "--new-tokens"))
    )
    spread = any(":" in text for text in (settings.prompt_tokens, settings.new_tokens))
    pairs = [(prompt(), new()) for _ in range(SHAPES if spread else 1)]
    if not spread and sum(pairs[0]) > limits.context:
        assumed = "" if limits.stated else " (assumed, as it states none)"
        raise UsageError(
            f"a request of {pairs[0][0]} + {pairs[0][1]} tokens is longer than the server's context of "
            f"{limits.context}{assumed}: lower --prompt-tokens or --new-tokens"
        )
    most = limits.context // 2
    if spread:
        pairs = [(min(words, most), min(tokens, most)) for words, tokens in pairs]
    return [_Request(limits.shape(words, tokens)) for words, tokens in pairs]


def _tokens(text: str, option: str, drawn: random.Random) -> Callable[[], int]:
    median, spread = tokens_of(text, option)
    return lambda: max(round(drawn.lognormvariate(math.log(median), SIGMA)), 1) if spread else median


def _read_trace(path: Path) -> list[_Request]:
    found = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    found.append(_traced(line, f"{path}, line {number}"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--trace {path} cannot be read: {error}") from error
    if not found:
        raise UsageError(f"--trace {path} holds no request")
    return found


def _traced(line: str, where: str) -> _Request:
    try:
        entry = json.loads(line) if len(line) <= LONGEST_LINE else None
    except (ValueError, RecursionError):
        entry = None
    known = entry if isinstance(entry, dict) else {}
    text, new, at_s = known.get("prompt"), known.get("max_tokens"), known.get("time")
    if not isinstance(text, str) or not text:
        raise UsageError(f'{where} holds no request: each is JSON such as {{"prompt": "...", "max_tokens": 128}}')
    if not isinstance(new, int) or isinstance(new, bool) or new < 1:
        raise UsageError(f"{where}: max_tokens is no number of tokens")
    if at_s is not None and (not isinstance(at_s, int | float) or isinstance(at_s, bool) or not 0 <= at_s < 1e7):
        raise UsageError(f"{where}: time is no number of seconds")
    return _Request(Shape(len(text.split()), new, text), None if at_s is None else float(at_s))
