"""The words of the two grammars: a few hundred, all of them common English."""

from __future__ import annotations

from dataclasses import dataclass

from grammar import listed


@dataclass(frozen=True)
class Noun:
    """A noun with its plural and, for people, the reflexive pronoun of its singular."""

    singular: str
    plural: str
    reflexive: str | None = None

    def form(self, plural: bool) -> str:
        return self.plural if plural else self.singular


@dataclass(frozen=True)
class Scene:
    """Where a story happens: who and what can appear in it. Scenes share no nouns."""

    people: tuple[Noun, ...]
    things: tuple[Noun, ...]
    places: tuple[str, ...]


def _people(*words: str) -> tuple[Noun, ...]:
    """Turn ``singular/plural`` pairs, men and women in turn, into nouns."""
    pairs = [word.split("/") for word in words]
    return tuple(Noun(one, many, ("himself", "herself")[i % 2]) for i, (one, many) in enumerate(pairs))


def _things(words: str) -> tuple[Noun, ...]:
    return tuple(Noun(word, word + ("es" if word.endswith(("s", "ch", "x")) else "s")) for word in words.split())


SCENES = (
    Scene(
        _people("king/kings", "queen/queens", "prince/princes", "princess/princesses"),
        _things("tower sword crown throne torch bell"),
        ("hall", "dungeon", "courtyard", "chapel"),
    ),
    Scene(
        _people("uncle/uncles", "aunt/aunts", "nephew/nephews", "niece/nieces"),
        _things("cart gate fence plough ladder bucket"),
        ("meadow", "stable", "orchard", "barn"),
    ),
    Scene(
        _people("boy/boys", "girl/girls", "father/fathers", "mother/mothers"),
        _things("desk book map chair clock pencil"),
        ("classroom", "library", "corridor", "playground"),
    ),
    Scene(
        _people("actor/actors", "actress/actresses", "son/sons", "daughter/daughters"),
        _things("curtain mask drum ticket costume mirror"),
        ("lobby", "attic", "cellar", "gallery"),
    ),
    Scene(
        _people("man/men", "woman/women", "grandson/grandsons", "grandmother/grandmothers"),
        _things("boat rope anchor net sail lantern"),
        ("boathouse", "harbour", "cabin", "lighthouse"),
    ),
)

NAMES = ("anna", "clara", "mary", "ruth", "david", "hugo", "peter", "tom")
COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "grey")
OPPOSITES = (
    ("big", "small"),
    ("old", "new"),
    ("hot", "cold"),
    ("heavy", "light"),
    ("clean", "dirty"),
    ("long", "short"),
    ("dry", "wet"),
    ("cheap", "expensive"),
)
# (with a singular subject, with a plural subject)
TRANSITIVE = tuple((verb + "s", verb) for verb in listed("see like follow help admire remember know trust"))
INTRANSITIVE = tuple((verb + "s", verb) for verb in listed("sleep wait sing laugh work rest dance smile"))
PREPOSITIONS = ("near", "behind", "beside", "above")

POSITIVE = listed(
    "wonderful charming clever lovely moving brilliant delightful excellent pleasant superb touching fresh "
    "good great nice beautiful funny perfect enjoyable fascinating"
)
NEGATIVE = listed(
    "dull awful boring dreadful clumsy tedious weak terrible poor shallow tiresome bland "
    "bad horrible ugly stupid annoying disappointing messy pointless"
)
REVIEWED = (
    Noun("film", "films"),
    Noun("play", "plays"),
    Noun("novel", "novels"),
    Noun("concert", "concerts"),
    Noun("song", "songs"),
    Noun("scene", "scenes"),
    Noun("story", "stories"),
    Noun("speech", "speeches"),
    Noun("meal", "meals"),
    Noun("dancer", "dancers"),
    Noun("singer", "singers"),
    Noun("actor", "actors"),
)
RELATIVES = ("sister", "brother", "cousin", "neighbour", "teacher", "friend")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HOURS = ("five", "six", "seven", "eight", "nine", "ten")
ORDINALS = ("first", "second", "third", "last")
TOWNS = ("station", "market", "bridge", "river", "church", "museum")
FILLERS = (
    "really",
    "all in all",
    "in my opinion",
    "to be fair",
    "after all",
    "in the end",
    "on the whole",
    "for the most part",
    "as far as i can tell",
    "when all is said and done",
)
