"""Tokens of prompts where the server states none: counted by the model's tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from energyscope.errors import UsageError
from energyscope.serving.prompts import prompt
from energyscope.serving.requests import Answer, Load, Served

PROBED = (24, 120)  # words of two prompts, from which the tokens of others are known
Count = Callable[[str], int]


def counter_of(tokenizer: str) -> Count:
    """Return what counts the tokens of a text; ``tokenizer`` is a folder or a Hugging Face id.

    Raises:
        UsageError: it cannot be loaded.

    """
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(tokenizer)
    except (OSError, ValueError) as error:
        said = str(error).strip().splitlines()[0]
        raise UsageError(f"--tokenizer {tokenizer} cannot be loaded: {said}") from error
    return lambda text: len(loaded(text)["input_ids"])


def counter_by_words(rate: float | None, overhead: float | None) -> Count | None:
    """Return what counts the tokens of a text by its words; None where their rate is not known."""
    if rate is None or overhead is None:
        return None
    return lambda text: round(overhead + rate * len(text.split()))


def words_as_tokens(count: Count) -> tuple[float, float]:
    """Return how many tokens a word of our prompts has, and how many a prompt has beside."""
    few, many = (count(prompt(words, 0, 0, "probe", words)) for words in PROBED)
    rate = (many - few) / (PROBED[1] - PROBED[0])
    return rate, few - rate * PROBED[0]


def with_prompt_tokens(served: Served, count: Count) -> Served:
    """Return a load with the tokens of prompts counted where the server did not state them."""
    answers = [_counted(served.load, answer, count) for answer in served.answers]
    return replace(served, answers=answers)


def _counted(load: Load, answer: Answer, count: Count) -> Answer:
    if answer.prompt_tokens is not None:
        return answer
    shape = load.shapes[answer.number % len(load.shapes)]
    text = shape.text or prompt(shape.words, load.shared_words, load.seed, load.request_name, answer.number)
    return replace(answer, prompt_tokens=count(text))
