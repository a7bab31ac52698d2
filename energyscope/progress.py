"""How a stage says where it is: one callable, drawn by the command line or ignored by scripts."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called at each step of a stage, before the step's work."""

    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        """Say what is being done, and how many of the stage's steps are behind it."""
        ...


def silent(stage: str, label: str, done: int, total: int) -> None:
    """Draw nothing."""
