"""Engines: who measures the cells of a sweep, each as an `energyscope run` of its own.

All call `measure_cell`, in a process that sees a GPU: threads here (`local`), tasks of Ray (`on_ray`), or jobs of
Slurm (`on_slurm`). No engine knows what a cell measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from energyscope.engines.cell import CellResult, CellTask

RETRIES = 2  # of a cell whose process was lost


class Engine(Protocol):
    """Measures cells, several at once."""

    def check(self) -> None:
        """Refuse what would keep the engine from measuring here.

        Raises:
            UsageError: with what to do.

        """
        ...

    def measure(self, tasks: Sequence[CellTask]) -> Iterator[CellResult]:
        """Yield the result of each cell once it is known; when closed early, stop what still measures."""
        ...


def missing_extra(name: str) -> str:
    """Return the message that the package of an engine is not installed."""
    return f"--engine {name} needs a package that is not installed: pip install 'energyscope-llm[{name}]'"
