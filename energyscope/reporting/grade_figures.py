"""How the tables behind charts, which are also what is downloaded, say what is not to be relied on."""

from __future__ import annotations


def graded(said: str, invalid: int, count: int = 1) -> str:
    """Return a value as text with how many of the components that it adds up are below grade C.

    >>> graded("3.1 mJ", 1, 4), graded("3.1 mJ", True), graded("3.1 mJ", 0, 4)
    ('3.1 mJ, 1 of 4 below grade C', '3.1 mJ, below grade C', '3.1 mJ')
    """
    if not invalid:
        return said
    return f"{said}, {invalid} of {count} below grade C" if count > 1 else f"{said}, below grade C"
