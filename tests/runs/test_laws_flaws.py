"""Documents of laws that were altered: what is wrong is told, and what energyscope writes is never wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from laws_builder import ONE, SIX, Swept, laws_document

from energyscope.runs.laws import document_error

PAIR = (Swept(batch_sizes=(1,), lengths=(128, 512)),)


@pytest.mark.parametrize("swept", [ONE, SIX, PAIR])
def test_what_energyscope_writes_has_no_flaw(swept: tuple[Swept, ...]) -> None:
    """GIVEN laws of one cell, of two and of many THEN nothing is wrong with them."""
    assert document_error(laws_document(swept)) is None


@pytest.fixture(scope="module")
def six() -> dict[str, Any]:
    return laws_document(SIX)


def _first(group: dict[str, Any]) -> dict[str, Any]:
    subject: dict[str, Any] = group["subjects"][0]
    return subject


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda group: group["cells"].append(None), "a cell has no batch size or no length"),
        (lambda group: group["cells"][0].update(tokens="x"), "a cell has no batch size or no length"),
        (lambda group: group.update(held_out={"whole": {"median": 0.1}}), "do not say what was left out"),
        (lambda group: group.update(held_out="x"), "do not say what was left out"),
        (lambda group: group["subjects"].append("x"), "a subject has no name"),
        (lambda group: _first(group).update(points=None), "a cell of model has no batch size"),
        (lambda group: _first(group)["points"][0].pop("tokens"), "a cell of model has no batch size"),
        (lambda group: _first(group).update(reach=None), "the reach of the law of model is not known"),
        (lambda group: _first(group)["reach"].update(within="x"), "the reach of the law of model is not known"),
        (
            lambda group: _first(group)["reach"].update(first_beyond={}),
            "the reach of the law of model is not known",
        ),
        (lambda group: _first(group).update(two_term=3), "the two_term law of model lacks a number"),
        (
            lambda group: _first(group)["two_term"].update(fixed_mj=None),
            "the two_term law of model lacks a number",
        ),
        (lambda group: _first(group)["two_term"].update(r2="x"), "the two_term law of model lacks a number"),
        (lambda group: _first(group)["two_term"].update(flags=None), "the two_term law of model lacks a number"),
    ],
)
def test_what_was_altered_is_told(
    six: dict[str, Any], alter: Callable[[dict[str, Any]], None], message: str
) -> None:
    """GIVEN a cell without a shape or a law without its terms THEN it is named."""
    document = copy.deepcopy(six)
    alter(document["groups"][0])
    assert message in (document_error(document) or "")
