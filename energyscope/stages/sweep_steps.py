"""The steps of a sweep's cells as one count, so that what is drawn of it has the whole sweep's time left.

The windows that one cell is planned to take are its steps; windows that come on top of these move it no further
than its end, and the total stays as it is. A bar whose total changes forgets its pace.
"""

from __future__ import annotations

from energyscope.progress import Progress

STAGE = "sweep"


class SweepSteps:
    """Is told of each cell's own steps, as a stage tells its progress, and tells of the sweep's."""

    def __init__(self, progress: Progress, cells: int) -> None:
        self._progress = progress
        self._cells = cells
        self._number = 0  # of the cell that is being measured, from 1
        self._label = ""
        self._within = 0
        self._each = 0  # steps of a cell; 0 until the first one has said

    def loading(self, precision: str, cells: int) -> None:
        """Say that the model is loaded for so many cells."""
        self._say(f"loading in {precision} for {cells} {'cell' if cells == 1 else 'cells'}")

    def begin(self, name: str) -> None:
        """Say which cell is measured next."""
        self._number += 1
        self._within = 0
        self._label = f"{self._number}/{self._cells} {name}"
        self._say(self._label)

    def end(self) -> None:
        """Count all steps of the cell as behind, however it ended."""
        self._within = self._each
        self._say(self._label)

    def skip(self, cells: int) -> None:
        """Count cells that are not tried, since their model could not be loaded."""
        self._number += cells
        self._within = self._each

    def step(self, stage: str, label: str, done: int, total: int) -> None:  # noqa: ARG002 - a `Progress`
        """Be told of a step within the cell; its label is too long beside the cell's name."""
        self._each = self._each or total
        self._within = max(self._within, min(self._each, self._each * done // max(total, 1)))
        self._say(self._label)

    def _say(self, label: str) -> None:
        if not self._each:
            self._progress(STAGE, label, 0, 1)
            return
        behind = max(self._number - 1, 0) * self._each + self._within
        self._progress(STAGE, label, behind, self._cells * self._each)
