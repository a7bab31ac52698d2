"""The messages that docs/troubleshooting.md quotes are those of the package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^\| `(.+?)` \|", PAGE, flags=re.MULTILINE)


def texts(source: str) -> list[str]:
    """Return a module's strings, with `{}` where an f-string has a value."""
    return [
        "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        if isinstance(node, ast.JoinedStr)
        else node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ]


def is_in(message: str, written: list[str]) -> bool:
    """Whether one of the strings has a message's words in order, with anything for each `...`."""
    pattern = re.compile(".*".join(re.escape(piece.strip()) for piece in message.split("...")), flags=re.DOTALL)
    return any(pattern.search(text) for text in written)


@pytest.fixture(scope="module")
def written():
    sources = sorted((ROOT / "energyscope").rglob("*.py"))
    return [text for path in sources for text in texts(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_quoted_message_is_one_of_the_package(message, written):
    """GIVEN a message in the first column of a table THEN one string of the source has its words."""
    assert is_in(message, written)


def test_every_row_quotes_a_message():
    """GIVEN the rows of all tables THEN each begins with a message as code, and has words besides `...`."""
    rows = re.findall(r"^\| (?!message)(?!-)", PAGE, flags=re.MULTILINE)
    assert len(rows) == len(MESSAGES) > 30
    assert all(len(re.findall(r"[a-z]{2,}", message)) > 1 for message in MESSAGES)


def test_other_words_are_noticed():
    """GIVEN an f-string WHEN a word of it is quoted otherwise THEN it is not found."""
    source = 'f"no run {name!r} here or in " f"{root}/: look"'
    assert is_in("no run ... here or in ...: look", texts(source))
    assert not is_in("no run ... here nor in ...", texts(source))
