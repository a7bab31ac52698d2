"""Lists on the command line: words or numbers with commas between them."""

from __future__ import annotations

from energyscope.errors import UsageError


def words(text: str) -> tuple[str, ...]:
    """Return the words of ``"a, b,c"``, blanks left out."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers of ``"1,8,32"``, each once.

    Raises:
        UsageError: one is no whole number.

    """
    try:
        return tuple(dict.fromkeys(int(word) for word in words(text)))
    except ValueError as error:
        raise UsageError(f"{option} {text!r} is no list of whole numbers, such as 1,8,32") from error
