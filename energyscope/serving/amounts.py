"""What a server did between two times, from what came of it: tokens of prompts, tokens of answers, decode steps.

The engine is not asked: all is inferred from when requests were sent and when their text came.

    request 1   sent |--- prompt ---| first text, decode: one token, one token, ...      | end
    request 2            sent | waits |--- prompt ---| first text, ...                        | end
    steps                            1      1      1      1    (one step makes a token of each answer under way)

A prompt is computed between the moment at which its request was sent, or the first text of another request if
that came later (engines compute prompts in turn), and its own first token. Tokens after it are spread over the
time between the texts that brought them; where a text brings several, the first token came before the first text.
A step ends where an answer gets text that has had some since the last step ended: engines with continuous batching
give each answer a token in each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from energyscope.metering.ticks import Array
from energyscope.serving.requests import Answer, Served

GRID_S = 0.005  # of the curves; ticks lie further apart
TOGETHER_S = 0.002  # first texts closer than this come of prompts that were computed together
CAUSES = {  # of energy, with the unit of what each costs
    "time": "W",
    "active": "W",
    "requests": "J",
    "prompt": "J per token",
    "steps": "J per step",
    "tokens": "J per token",
    "context": "J per token and 1000 tokens of context",
}
CONTEXT = 1e3  # tokens


@dataclass(frozen=True)
class Amounts:
    """How much of each cause there was until each time of a regular grid: ``until`` has shape (times,) for each.

    ``time`` is seconds, ``active`` seconds with a request under way, ``requests`` prompts computed, ``prompt``
    their tokens, ``steps`` decode steps, ``tokens`` tokens made by them, ``context`` thousands of tokens that
    these looked back at.
    """

    begin_s: float
    until: dict[str, Array] = field(repr=False)

    @cached_property
    def _times_s(self) -> Array:
        times_s: Array = self.begin_s + GRID_S * np.arange(len(self.until["time"]), dtype=np.float64)
        return times_s

    def between(self, times_s: Array, causes: Sequence[str] = tuple(CAUSES)) -> Array:
        """Return the amounts between each two times, shape (times - 1, causes); none before or after the loads."""
        curves = [np.interp(times_s, self._times_s, self.until[cause]) for cause in causes]
        between: Array = np.diff(np.column_stack(curves), axis=0).astype(np.float64)
        if "time" in causes:
            between[:, list(causes).index("time")] = np.diff(times_s)
        return between


def amounts_of(loads: Sequence[Served]) -> Amounts:
    """Return what happened in all loads, at least one. Requests without any text count as time alone."""
    begin_s = min(load.begin_s for load in loads)
    count = int((max(load.end_s for load in loads) - begin_s) / GRID_S) + 2
    rates = {cause: np.zeros(count) for cause in CAUSES}  # in each cell of the grid
    answers = [answer for load in loads for answer in load.answers]
    for answer in answers:
        rates["active"][_cells(begin_s, answer.sent_s, answer.ended_s)] = GRID_S
    for answer, since_s in zip(*prompt_spans(answers), strict=True):
        _add_prompt(rates, begin_s, answer, since_s)
        _add_decode(rates, begin_s, answer)
    rates["time"][:] = GRID_S
    rates["steps"] = np.diff(np.interp(begin_s + GRID_S * np.arange(count + 1), *steps_until(answers)))
    return Amounts(begin_s, {cause: np.concatenate([[0.0], np.cumsum(rate)]) for cause, rate in rates.items()})


def prompt_spans(answers: Sequence[Answer]) -> tuple[list[Answer], list[float]]:
    """Return the answers with text in the order of their first, and since when (s) each prompt was computed."""
    texts = sorted((answer for answer in answers if answer.chunks_s), key=first_token_s)
    begins: list[float] = []
    free_s = last_s = -np.inf  # since when the engine computes the prompts that are due, and the last first text
    for answer in texts:
        first_s = first_token_s(answer)
        if first_s - last_s > TOGETHER_S:
            free_s = last_s
        begins.append(min(max(answer.sent_s, free_s), first_s))
        last_s = first_s
    return texts, begins


def new_tokens(answer: Answer) -> int:
    """Return the tokens of an answer: those of ``usage``, else one for each piece of text."""
    return len(answer.chunks_s) if answer.new_tokens is None else answer.new_tokens


def tokens_a_text(answer: Answer) -> float:
    """Return how many tokens a text of an answer brings on average, at least one."""
    return max(new_tokens(answer) / max(len(answer.chunks_s), 1), 1.0)


def token_s(answer: Answer) -> float | None:
    """Return the time per token after the first (s); None where one text brought all."""
    texts = len(answer.chunks_s)
    if texts < 2:
        return None
    return (answer.chunks_s[-1] - answer.chunks_s[0]) / (texts - 1) / tokens_a_text(answer)


def first_token_s(answer: Answer) -> float:
    """Return when the first token was made (s): so long before the first text as its other tokens took."""
    before_s = (tokens_a_text(answer) - 1) * (token_s(answer) or 0.0)
    return max(answer.chunks_s[0] - before_s, answer.sent_s)


def decoded(answer: Answer) -> tuple[Array, Array]:
    """Return times of an answer (s), and the tokens after the first that were there by then."""
    each, texts = tokens_a_text(answer), len(answer.chunks_s)
    times_s = np.array([first_token_s(answer), *answer.chunks_s])
    return times_s, np.array([0.0, *(each * np.arange(1, texts + 1) - 1)])


def steps_until(answers: Sequence[Answer]) -> tuple[Array, Array]:
    """Return times (s) and how many decode steps were over by then, between which they rise evenly.

    An answer that gets several tokens at once took as many steps.
    """
    texts = sorted(
        (time_s, number, tokens_a_text(answer) if place else tokens_a_text(answer) - 1)
        for number, answer in enumerate(answers)
        for place, time_s in enumerate(answer.chunks_s)
    )
    times_s, steps, before_s = [0.0], [0.0], 0.0
    had: set[int] = set()  # answers with text of this step, of those that are not at their end
    for time_s, number, tokens in texts:
        if tokens:
            if number in had or (not had and time_s - before_s > TOGETHER_S):
                had = set()
                times_s += [before_s, time_s]
                steps += [steps[-1], steps[-1] + tokens]
            had.add(number)
            if time_s == answers[number].chunks_s[-1]:
                had.remove(number)
        before_s = time_s
    return np.array(times_s), np.array(steps)


def _cells(begin_s: float, from_s: float, to_s: float) -> slice:
    return slice(max(int((from_s - begin_s) / GRID_S), 0), int((to_s - begin_s) / GRID_S) + 1)


def _spread(begin_s: float, times_s: Array, amounts: Array) -> tuple[slice, Array]:
    """Return the cells over which a rising amount is spread, and how much falls into each."""
    cells = _cells(begin_s, float(times_s[0]), float(times_s[-1]))
    edges = begin_s + GRID_S * np.arange(cells.start, cells.stop + 1)
    return cells, np.diff(np.interp(edges, times_s, amounts))


def _add_prompt(rates: dict[str, Array], begin_s: float, answer: Answer, since_s: float) -> None:
    times_s = np.array([since_s, max(first_token_s(answer), since_s + 1e-6)])
    cells, share = _spread(begin_s, times_s, np.array([0.0, 1.0]))
    computed = (answer.prompt_tokens or 0) - (answer.cached_tokens or 0)
    rates["requests"][cells] += share
    rates["prompt"][cells] += share * computed


def _add_decode(rates: dict[str, Array], begin_s: float, answer: Answer) -> None:
    times_s, tokens = decoded(answer)
    if tokens[-1] <= 0:
        return
    cells, made = _spread(begin_s, times_s, tokens)
    rates["tokens"][cells] += made
    context = (answer.prompt_tokens or 0) + np.cumsum(made)
    rates["context"][cells] += made * context / CONTEXT
