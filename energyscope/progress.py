"""How a stage reports its progress: one callable, drawn by the command line or ignored by scripts."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called at each step of a stage, before the step's work."""

    def __call__(self, stage: str, label: str, done: int, total: int) -> None:
        """Report what is being done, and how many of the stage's steps are done.

        A stage of several parts names the part behind its own name: ``plan: prices``.
        """
        ...


def silent(stage: str, label: str, done: int, total: int) -> None:
    """Draw nothing."""
