"""Documents of laws that were altered: what is wrong is told, and what energyscope writes is never wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from laws_builder import ONE, SIX, Swept, laws_document

from energyscope.runs.checking import document_flaw
from energyscope.runs.documents import LawsDocument

PAIR = (Swept(batch_sizes=(1,), lengths=(128, 512)),)


@pytest.mark.parametrize("swept", [ONE, SIX, PAIR])
def test_what_energyscope_writes_has_no_flaw(swept: tuple[Swept, ...]) -> None:
    """GIVEN laws of one cell, of two and of many THEN nothing is wrong with them."""
    assert document_flaw(laws_document(swept), LawsDocument) is None


@pytest.fixture(scope="module")
def six() -> dict[str, Any]:
    return laws_document(SIX)


def _first(group: dict[str, Any]) -> dict[str, Any]:
    subject: dict[str, Any] = group["subjects"][0]
    return subject


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda group: group["cells"].append(None), "is null, and not an object"),
        (lambda group: group["cells"][0].update(tokens="x"), "cells[0].tokens is 'x', and not a whole number"),
        (lambda group: group.update(held_out={"whole": {"median": 0.1}}), "held_out lacks reason"),
        (lambda group: group.update(held_out="x"), "held_out is 'x', and not an object"),
        (lambda group: group["subjects"].append("x"), "is 'x', and not an object"),
        (lambda group: _first(group).update(points=None), "points is null, and not a list"),
        (lambda group: _first(group)["points"][0].pop("tokens"), "points[0] lacks tokens"),
        (lambda group: _first(group).update(reach=None), "reach is null, and not an object"),
        (lambda group: _first(group)["reach"].update(within="x"), "reach.within is 'x', and not a whole number"),
        (
            lambda group: _first(group)["reach"].update(first_beyond={}),
            "reach.first_beyond lacks batch_size, tokens",
        ),
        (lambda group: _first(group).update(two_term=3), "two_term is 3, and not an object"),
        (
            lambda group: _first(group)["two_term"].update(fixed_mj=None),
            "two_term.fixed_mj is null, and not an object",
        ),
        (lambda group: _first(group)["two_term"].update(r2="x"), "two_term.r2 is 'x', and not a number"),
        (lambda group: _first(group)["two_term"].update(flags=None), "two_term.flags is null, and not a list"),
    ],
)
def test_what_was_altered_is_told(
    six: dict[str, Any], alter: Callable[[dict[str, Any]], None], message: str
) -> None:
    """GIVEN a cell without a shape or a law without its terms THEN it is named."""
    document = copy.deepcopy(six)
    alter(document["groups"][0])
    assert message in (document_flaw(document, LawsDocument) or "")
