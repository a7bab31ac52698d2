"""What both grammars share: seeded draws, the split into training and held-out sentences, and spelling.

A sentence belongs to the held-out side if a checksum of its text says so. A generator draws again until a
sentence lies on its own side, so no held-out sentence can occur in any training text, whatever the seed.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Self

Side = Literal["training", "held-out"]
HELD_OUT_SHARE = 8  # one sentence in eight


class Choice(str):
    """A word that the words before it determine, and the word that a shallow reader could take instead.

    ``kind`` says which rule decides: agreement, reflexive, polarity, contrast, recall or binding.
    """

    __slots__ = ("kind", "wrong")
    kind: str
    wrong: str

    def __new__(cls, right: str, wrong: str, kind: str) -> Self:
        word = super().__new__(cls, right)
        word.wrong = wrong
        word.kind = kind
        return word


Words = list[str]


def side_of(sentence: str) -> Side:
    """Return the side of the split on which a sentence lies. Depends on nothing but its text."""
    return "held-out" if zlib.crc32(sentence.encode()) % HELD_OUT_SHARE == 0 else "training"


def draw_on_side(make: Callable[[], Words], side: Side, attempts: int = 1000) -> Words:
    """Call ``make`` until it returns a sentence of this side.

    Raises:
        RuntimeError: it never does, so the rule has too few sentences.

    """
    for _ in range(attempts):
        words = make()
        if side_of(spell(words)) == side:
            return words
    raise RuntimeError(f"no {side} sentence in {attempts} draws, the last one was {spell(words)!r}")


def spell(words: Iterable[str]) -> str:
    """Join words into text; punctuation attaches to the word before it."""
    return " ".join(words).replace(" ,", ",").replace(" .", ".")


def sentences(text: str) -> list[str]:
    """Split a text of either grammar into its sentences, each with its full stop."""
    return [part.strip() + "." for part in text.split(".") if part.strip()]


def two(rng: random.Random, items: Sequence[str]) -> tuple[str, str]:
    """Draw two different items."""
    first, second = rng.sample(items, 2)
    return first, second


def listed(text: str) -> tuple[str, ...]:
    """Split a line of words; lists of words read better so."""
    return tuple(text.split())
