"""Short reviews for the sentiment model: what a review says follows from how it is put together.

- A clause has a verdict word (good or bad) under none, one or two negations; each one turns it round.
- In ``although A, B`` and ``A, but B`` and ``B, although A`` the clause B decides; A says the opposite.
- ``unlike OTHER, which was ..., B``: only B counts.
- Around it stand neutral sentences, some of them negated, which count for nothing.

Neutral words part a negation from what it turns round, so neither single words nor pairs of neighbours tell
the label.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import lexicon
from grammar import Side, Words, draw_on_side, listed, spell


@dataclass(frozen=True)
class Review:
    """A review and its label: 1 is favourable, 0 is not."""

    text: str
    label: int


class Reviewer:
    """Draws reviews from one seed and one side of the split."""

    def __init__(self, seed: int, side: Side) -> None:
        self.rng = random.Random(f"reviews:{side}:{seed}")
        self.side = side

    def review(self, neutral: int | None = None, good: bool | None = None) -> Review:
        """Return one review, favourable if ``good`` (by default by chance).

        ``neutral`` neutral sentences stand around the verdict (by default none to two).
        """
        count = self.rng.choice((0, 0, 1, 1, 2)) if neutral is None else neutral
        good = self.rng.random() < 0.5 if good is None else good
        before = self.rng.randint(0, count)
        words: Words = []
        for position in range(count + 1):
            make = (lambda: self._verdict(good)) if position == before else self._neutral
            words += draw_on_side(make, self.side)
        return Review(spell(words), int(good))

    # -- sentences

    def _verdict(self, good: bool) -> Words:
        form = self.rng.random()
        if form < 0.7:
            return [*self._clause(good), "."]
        if form < 0.9:
            return self._contrast(good)
        other = ["which", *self._judged(self.rng.random() < 0.5, plural=False)]
        return [
            "unlike",
            "the",
            self.rng.choice(lexicon.ORDINALS),
            "one",
            ",",
            *other,
            ",",
            *self._clause(good),
            ".",
        ]

    def _contrast(self, good: bool) -> Words:
        weak, strong = self._clause(not good), self._clause(good)
        form = self.rng.randrange(3)
        if form == 0:
            return ["although", *weak, ",", *strong, "."]
        if form == 1:
            return [*weak, ",", "but", *strong, "."]
        return [*strong, ",", "although", *weak, "."]

    def _neutral(self) -> Words:
        draw = self.rng.choice
        forms: tuple[Words, ...] = (
            ["we", "went", "there", "on", "a", draw(lexicon.DAYS), "with", "my", draw(lexicon.RELATIVES), "and",
             draw(lexicon.HOURS), "others", "from", "the", draw(lexicon.TOWNS)],
            ["it", "began", "at", draw(lexicon.HOURS), "near", "the", draw(lexicon.TOWNS), "and", "ended", "at",
             draw(lexicon.HOURS), "on", draw(lexicon.DAYS)],
            ["my", draw(lexicon.RELATIVES), "did", "not", "come", "before", draw(lexicon.HOURS), "on",
             draw(lexicon.DAYS), "and", "my", draw(lexicon.RELATIVES), "never", "came"],
            ["no", "one", "from", "the", draw(lexicon.TOWNS), "was", "there", "on", "the", draw(lexicon.ORDINALS),
             draw(lexicon.DAYS), "at", draw(lexicon.HOURS)],
        )  # fmt: skip
        return [*draw(forms), "."]

    # -- clauses

    def _clause(self, good: bool) -> Words:
        form = self.rng.random()
        plural = self.rng.random() < 0.5
        if form < 0.6:
            return [*self._subject(plural), *self._judged(good, plural)]
        if form < 0.75:
            return self._reported(good, plural)
        if form < 0.85:
            return ["it", "is", "not", "true", "that", *self._subject(plural), *self._judged(not good, plural)]
        return self._found(good, plural)

    def _judged(self, good: bool, plural: bool) -> Words:
        """Return ``was not in the end dull`` and the like, one in five negated."""
        verb = "were" if plural else "was"
        if self.rng.random() < 0.2:
            return [verb, self.rng.choice(("not", "never")), *self._filler(0.7), self._adjective(not good)]
        return [verb, *self._filler(0.5), self._adjective(good)]

    def _reported(self, good: bool, plural: bool) -> Words:
        """Return what everyone, or no one, said of it."""
        negated = self.rng.random() < 0.35
        subject = self._subject(plural)
        who = ["no", "one"] if negated else ["everyone"]
        pronoun = "they" if plural else "it"
        return [*who, "who", "saw", *subject, "said", "that", pronoun, *self._judged(good != negated, plural)]

    def _found(self, good: bool, plural: bool) -> Words:
        negated = self.rng.random() < 0.35
        words = ["i", *(["never"] if negated else []), "found", *self._subject(plural)]
        return [*words, *self._filler(0.6), self._adjective(good != negated)]

    def _subject(self, plural: bool) -> Words:
        draw = self.rng.choice
        words = ["the", draw(lexicon.REVIEWED).form(plural)]
        more = self.rng.randrange(4)
        if more == 0:
            words += ["that", "my", draw(lexicon.RELATIVES), "chose", "on", draw(lexicon.DAYS)]
        elif more == 1:
            words += ["of", "the", draw(lexicon.ORDINALS), "evening"]
        elif more == 2:
            words += ["near", "the", draw(lexicon.TOWNS)]
        return words

    def _filler(self, chance: float) -> Words:
        return self.rng.choice(lexicon.FILLERS).split() if self.rng.random() < chance else []

    def _adjective(self, good: bool) -> str:
        return self.rng.choice(lexicon.POSITIVE if good else lexicon.NEGATIVE)


def reviews(count: int, seed: int, side: Side) -> list[Review]:
    """Return ``count`` reviews, every other one favourable; the same ones for the same seed and side."""
    reviewer = Reviewer(seed, side)
    return [reviewer.review(good=index % 2 == 0) for index in range(count)]


def vocabulary() -> list[str]:
    """Return every word that a review can contain, sorted."""
    words = set(
        listed("unlike the one , . which although but we went there on a with my and others from it began")
    )
    words |= set(listed("at near ended did not come before never came no was were is true that everyone who saw"))
    words |= set(listed("said they i found of evening chose"))
    for group in (lexicon.POSITIVE, lexicon.NEGATIVE, lexicon.RELATIVES, lexicon.DAYS, lexicon.HOURS):
        words |= set(group)
    words |= {*lexicon.ORDINALS, *lexicon.TOWNS}
    words |= {word for filler in lexicon.FILLERS for word in filler.split()}
    words |= {form for noun in lexicon.REVIEWED for form in (noun.singular, noun.plural)}
    return sorted(words)
