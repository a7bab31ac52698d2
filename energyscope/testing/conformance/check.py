"""What a check found, and all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from energyscope.errors import EnergyscopeError
from energyscope.failures import first_line

_MOST_NAMES = 5


@dataclass(frozen=True)
class Check:
    """One check. ``passed`` is None where there is nothing to check; ``detail`` says why, or what was found."""

    name: str
    passed: bool | None
    detail: str

    @classmethod
    def of(cls, name: str, problems: Sequence[str], detail: str) -> Self:
        """Return a check that failed where there are problems, sentences that name components; else the detail."""
        return cls(name, passed=not problems, detail="; ".join(problems) or detail)


@dataclass(frozen=True)
class Conformance:
    """What `check_adapter` found: its checks in their order, on a model of some class and number of weights.

    ``seconds`` is how long all of it took.
    """

    adapter: str
    model: str | None
    parameters: int | None
    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.problems

    @property
    def problems(self) -> list[str]:
        """What is wrong, a text for each failed check that begins with its name."""
        return [f"{check.name}: {check.detail}" for check in self.checks if check.passed is False]

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)


def said(error: Exception) -> str:
    """Return what an exception says, in a line; of one that is not ours, with its class."""
    return str(error) if isinstance(error, EnergyscopeError) else f"{type(error).__name__}: {first_line(error)}"


def some(names: Collection[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(list(names)[:_MOST_NAMES]) + more
