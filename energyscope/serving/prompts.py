"""Prompts of random words: fresh for every request, so that no server knows them already."""

from __future__ import annotations

import random

COMMON = (  # short and common: each is one token to most tokenizers
    "able about above acid across act add age air all alone along also always among animal answer apple area "
    "arm army art ask baby back bad ball band bank bar base bed bell best big bird black blood blue board boat "
    "body bone book born box boy bread bring brown build burn bus buy call car card care cat cause cell change "
    "check child church city class clean clear cloud coal coast coat cold color come corn cost cover cream "
    "cross cup cut dance dark day dead deal deep desk dog door down draw dream dress drink drive dry dust ear "
    "earth east eat edge egg end enter eye face fact fall farm fast fat fear feel field fight fill film fire "
    "fish five flat floor flow food foot force form four free fresh fruit full game gate gift girl give glass "
    "go goal gold good grass great green group grow gun hair half hall hand happy hard hat head heart heat "
    "hill home hope horse hot hour house ice idea iron island job join judge jump keep key kind king lake land "
    "language large late law lead left leg letter level life light line lion list live long love low lunch man "
    "map mark market milk mind money moon morning mother mountain music name near neck night noise north nose "
    "ocean office oil open paint paper park party peace phone plan plant point pool power price queen quick "
    "rain red rice ring river road rock"
)
WORDS = COMMON.split()


def prompt(words: int, shared_words: int, seed: int, load: str, number: int) -> str:
    """Return so many random words: the first ``shared_words`` are of the seed, all others of the request.

    ``load`` is the name of its load, and ``number`` its place in it.
    """
    shared = min(shared_words, words)
    start = random.Random(f"{seed} shared").choices(WORDS, k=shared)
    fresh = random.Random(f"{seed} {load} {number}").choices(WORDS, k=words - shared)
    return " ".join(start + fresh)
