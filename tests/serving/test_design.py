"""The loads of a measurement: what they ask, in which order, and when more users are tried."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from served_builder import LIMITS, URL
from simulated_server import SimulatedServer

from energyscope.errors import UsageError
from energyscope.serving.design import Limits, loads_of, next_load
from energyscope.serving.requests import Load, Served, Shape
from energyscope.settings.serving import ServingSettings


def settings(**options: object) -> ServingSettings:
    return ServingSettings.of(URL, **options)


def test_the_loads_tell_phases_apart() -> None:
    """GIVEN no options THEN prompts, answers, requests, mixtures and pauses come shuffled, after a warm-up."""
    loads = loads_of(settings(), LIMITS)
    kinds = Counter(load.kind for load in loads)
    assert kinds == {"warm-up": 1, "prompt": 6, "answer": 6, "request": 6, "mixture": 4, "pause": 4}
    assert loads[0].kind == "warm-up"
    names = [load.name for load in loads]
    assert len(set(names)) == len(names)
    assert names != [load.name for load in loads_of(settings(seed=1), LIMITS)]
    assert names == [load.name for load in loads_of(settings(), LIMITS)]


def test_prompts_have_the_words_of_their_tokens() -> None:
    """GIVEN how many tokens a word has THEN a prompt has fewer words than tokens, and no less than one."""
    limits = Limits(context=512, tokens_per_word=2.0, overhead_tokens=10.0)
    lengths = {
        load.shapes[0].words for load in loads_of(settings(prompt_tokens="100"), limits) if load.kind == "prompt"
    }
    assert lengths == {27, 123}  # of 64 and 256 tokens, half of the context: 1,024 do not fit
    assert limits.words(3) == 1


def test_a_request_that_does_not_fit_is_refused() -> None:
    """GIVEN a request longer than the context THEN it is refused; spread lengths are cut to what fits."""
    limits = replace(LIMITS, context=256)
    with pytest.raises(UsageError, match="longer than the server's context of 256"):
        loads_of(settings(), limits)
    spread = loads_of(settings(prompt_tokens="128:lognormal"), limits)
    shapes = next(load.shapes for load in spread if load.name == "requests by 1")
    assert all(shape.words + shape.max_tokens <= 256 for shape in shapes)
    assert len({shape.words for shape in shapes if shape.words < 128}) > 1


def test_arrivals_are_random_and_as_many_as_the_rate() -> None:
    """GIVEN a rate THEN arrivals come at random times, about as many as it says."""
    (load,) = (load for load in loads_of(settings(rates=("20",), seconds=60), LIMITS) if load.arrivals_s)
    assert len(load.shapes) == len(load.arrivals_s)
    assert len(load.arrivals_s) == pytest.approx(1200, rel=0.15)
    assert list(load.arrivals_s) == sorted(load.arrivals_s)
    assert load.arrivals_s[-1] < 60


def sent(users: int) -> Served:
    """Let a simulated server meet a number of users."""
    load = Load(f"requests by {users}", "request", 4.0, (Shape(64, 32),), users=users)
    return SimulatedServer().serve(load)


def test_more_users_are_tried_while_throughput_grows() -> None:
    """GIVEN twice the throughput by twice the users THEN more are tried; not where users are named."""
    growing = [sent(4), sent(8)]
    more = next_load(settings(), LIMITS, growing)
    assert more is not None
    assert (more.name, more.users) == ("requests by 16", 16)
    assert next_load(settings(users=(4, 8)), LIMITS, growing) is None
    full = replace(sent(4), load=replace(sent(4).load, users=8))  # no more requests by twice the users
    assert next_load(settings(), LIMITS, [sent(4), full]) is None
    assert next_load(settings(), LIMITS, []) is None
