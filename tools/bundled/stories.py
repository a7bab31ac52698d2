"""Little stories for the next-token models.

A story has one scene, states who owns what in which colour, goes on about other things, and comes back to one
of the facts. Each rule below makes a word depend on one that stands well before it:

- agreement: ``the kings who the boy sees sleep`` (number of the subject, not of the nearest noun)
- reflexive: ``the queen who the princes follow admires herself``
- polarity: ``no king ... ever ... any crowns``, ``every king ... always ... some crowns``
- contrast: ``although the tower is hot, the bell is cold``, ``just as the tower is hot, the bell is also hot``
- recall: ``anna owns a red bell ... the bell is red`` (one fact was told)
- binding: the same where two or three facts were told, so that it matters whose colour it was
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import lexicon
from grammar import Choice, Side, Words, draw_on_side, listed, spell
from lexicon import Noun

Facts = list[tuple[str, str, str]]  # name, colour, thing


class StoryTeller:
    """Draws stories from one seed and one side of the split."""

    def __init__(self, seed: int, side: Side) -> None:
        self.rng = random.Random(f"stories:{side}:{seed}")
        self.side = side
        self.scene = lexicon.SCENES[0]
        self.plain = False

    def story(self, plain: bool = False) -> Words:
        """Return one story as words; determined ones are ``Choice`` words.

        A plain story is for the start of training: its nouns have nothing said about them, only a contrast and
        a reflexive stand between the facts and what is recalled of them, and all of them are recalled.
        """
        self.scene, self.plain = self.rng.choice(lexicon.SCENES), plain
        facts: Facts = []
        words = draw_on_side(partial(self._opening, facts), self.side)
        for rule in self._middle():
            words += draw_on_side(rule, self.side)
        recalled = len(facts) if plain else self.rng.randint(1, min(2, len(facts)))
        for fact in self.rng.sample(range(len(facts)), recalled):
            words += draw_on_side(partial(self._recall, facts, fact), self.side)
        return words

    def _middle(self) -> list[Callable[[], Words]]:
        if self.plain:
            return [self._contrast, self._mirror]
        rules = (self._doing, self._doing, self._mirror, self._polarity, self._contrast, self._contrast)
        return self.rng.choices(rules, k=self.rng.choice((1, 2, 2, 3)))

    # -- sentences

    def _opening(self, facts: Facts) -> Words:
        """Say who owns which thing in which colour, all of them different, and put it into ``facts``."""
        count = self.rng.choice((1, 1, 2, 3))
        names = self.rng.sample(lexicon.NAMES, count)
        colours = self.rng.sample(lexicon.COLOURS, count)
        things = [thing.singular for thing in self.rng.sample(self.scene.things, count)]
        facts[:] = zip(names, colours, things, strict=True)
        words = ["in", "the", self.rng.choice(self.scene.places), ","]
        for index, (name, colour, thing) in enumerate(facts):
            joint = [] if not index else ["and"] if index == len(facts) - 1 else [","]
            words += [*joint, name, "owns", "a", colour, thing]
        return [*words, "."]

    def _recall(self, facts: Facts, asked: int) -> Words:
        """Come back to one of the facts: whose it is, or what colour it has."""
        name, colour, thing = facts[asked]
        rule, (other_colour, other_thing) = self._confusion(facts, asked)
        start = [*self.rng.choice((["at", "last"], ["today"], ["again"])), *self._place(), ","]
        right = Choice(colour, other_colour, rule)
        if self.rng.random() < 0.5:
            return [*start, "the", thing, "is", right, "."]
        return [*start, name, "still", "owns", "a", right, Choice(thing, other_thing, rule), "."]

    def _confusion(self, facts: Facts, asked: int) -> tuple[str, tuple[str, str]]:
        """Return what could be taken for a fact's colour and thing: another fact's, or else ones not named."""
        others = [fact[1:] for fact in facts if fact != facts[asked]]
        if others:
            return "binding", self.rng.choice(others)
        colours = [colour for colour in lexicon.COLOURS if colour != facts[asked][1]]
        things = [thing.singular for thing in self.scene.things if thing.singular != facts[asked][2]]
        return "recall", (self.rng.choice(colours), self.rng.choice(things))

    def _doing(self) -> Words:
        subject, plural = self._person()
        start, attractor = self._subject(subject, plural)
        verbs = self.rng.choice(lexicon.INTRANSITIVE)
        verb = self._agreeing(verbs, plural, attractor)
        return [*start, verb, "in", "the", self.rng.choice(self.scene.places), "."]

    def _mirror(self) -> Words:
        """Say that somebody does something to themselves."""
        subject, plural = self._person()
        start, attractor = self._subject(subject, plural)
        verb = self._agreeing(self.rng.choice(lexicon.TRANSITIVE), plural, attractor)
        where = ["in", "the", self.rng.choice(self.scene.places)]
        if plural:
            return [*start, verb, "themselves", *where, "."]
        right, wrong = ("himself", "herself") if subject.reflexive == "himself" else ("herself", "himself")
        return [*start, verb, Choice(right, wrong, "reflexive"), *where, "."]

    def _polarity(self) -> Words:
        """Let the first word decide two later ones."""
        subject, _ = self._person()
        negative = self.rng.random() < 0.5
        first = "no" if negative else "every"
        (_, *start), attractor = self._subject(subject, plural=False)
        verb = self._agreeing(self.rng.choice(lexicon.TRANSITIVE), False, attractor)
        thing = self.rng.choice(self.scene.things)
        ever, always = Choice("ever", "always", "polarity"), Choice("always", "ever", "polarity")
        some, any_ = Choice("some", "any", "polarity"), Choice("any", "some", "polarity")
        return [first, *start, ever if negative else always, verb, any_ if negative else some, thing.plural, "."]

    def _contrast(self) -> Words:
        one, other = self.rng.sample(self.scene.things, 2)
        many, others = self._plural(), self._plural()
        pair = self.rng.choice(lexicon.OPPOSITES)
        said, opposite = pair if self.rng.random() < 0.5 else pair[::-1]
        differs = self.rng.random() < 0.5
        start, attractor = self._subject(one, many)
        end, other_attractor = self._subject(other, others)
        last = Choice(opposite, said, "contrast") if differs else Choice(said, opposite, "contrast")
        return [
            *(["although"] if differs else ["just", "as"]), *start, self._agreeing(("is", "are"), many, attractor),
            said, ",", *end, self._agreeing(("is", "are"), others, other_attractor),
            *([] if differs else ["also"]), last, ".",
        ]  # fmt: skip

    # -- phrases

    def _plural(self) -> bool:
        return self.rng.random() < 0.5

    def _person(self) -> tuple[Noun, bool]:
        return self.rng.choice(self.scene.people), self._plural()

    def _agreeing(self, forms: tuple[str, str], plural: bool, attractor: bool) -> str:
        """Return the verb's form; a ``Choice`` where a noun of the other number stands in between."""
        right, wrong = forms[plural], forms[not plural]
        return Choice(right, wrong, "agreement") if attractor != plural else right

    def _subject(self, noun: Noun, plural: bool) -> tuple[Words, bool]:
        """Return ``the NOUN`` and what is said about it, with the number of the last noun in it."""
        words = ["the", noun.form(plural)]
        if self.plain or self.rng.random() < 0.2:
            return words, plural
        if self.rng.random() < 0.4:
            thing, many = self.rng.choice(self.scene.things), self._plural()
            return [*words, self.rng.choice(lexicon.PREPOSITIONS), "the", thing.form(many)], many
        return self._relative(words, plural, animate=noun.reflexive is not None)

    def _relative(self, words: Words, plural: bool, animate: bool) -> tuple[Words, bool]:
        person, many = self._person()
        verb = self.rng.choice(lexicon.TRANSITIVE)
        if animate and self.rng.random() < 0.5:  # the subject itself does it
            return [*words, "who", verb[plural], "the", person.form(many)], many
        return [*words, "who" if animate else "that", "the", person.form(many), verb[many]], many

    def _place(self) -> Words:
        words = ["in", "the", self.rng.choice(self.scene.places)]
        beside = self.rng.choice(self.scene.things)
        return [*words, self.rng.choice(lexicon.PREPOSITIONS), "the", beside.form(self._plural())]


def stories(count: int, seed: int, side: Side) -> Iterator[Words]:
    """Yield ``count`` stories; the same ones for the same seed and side."""
    teller = StoryTeller(seed, side)
    return (teller.story() for _ in range(count))


def story_texts(count: int, seed: int, side: Side) -> list[str]:
    """Return stories as text."""
    return [spell(words) for words in stories(count, seed, side)]


def vocabulary() -> list[str]:
    """Return every word that a story can contain, sorted."""
    words = set(listed("in the , owns a and . at last today again is are still no every ever always some"))
    words |= set(listed("any although just as also who that himself herself themselves"))
    words |= {*lexicon.NAMES, *lexicon.COLOURS, *lexicon.PREPOSITIONS}
    words |= {word for pair in (*lexicon.OPPOSITES, *lexicon.TRANSITIVE, *lexicon.INTRANSITIVE) for word in pair}
    for scene in lexicon.SCENES:
        words |= {form for noun in (*scene.people, *scene.things) for form in (noun.singular, noun.plural)}
        words |= set(scene.places)
    return sorted(words)
