"""A run with what its report draws of it, and what every figure of it has to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.data.execution import BOTH, execution_of
from energyscope.reporting.data.stages import why_missing
from energyscope.reporting.figure import Figure
from energyscope.reporting.figures import figures
from energyscope.reporting.publication.sheet import Missing, Panel, Sheet
from energyscope.runs.intervals import finite
from energyscope.runs.store import Run


@dataclass(frozen=True)
class Source:
    """A run with what its report makes of it."""

    run: Run
    data: ReportData
    figures: dict[str, Figure]

    @property
    def word(self) -> str:
        """What the run's joules are called."""
        return "Modelled energy" if self.run.modelled else "Energy"

    @property
    def about(self) -> str:
        """The run in a few words, for the figures' titles."""
        model = self.run.document.get("model") or {}
        return str(model.get("name") or self.run.name)


def source(run: Run) -> Source:
    """Gather a run's data and draw the charts of its report."""
    data = report_data(run)
    return Source(run, data, {figure.name: figure for figure in figures(data)})


def caveats(run: Run, *, energy: bool = True) -> list[str]:
    """Return what has to stand in every figure of this run; ``energy`` says whether the figure shows joules."""
    found = []
    if run.modelled and energy:
        watts = finite((run.document.get("sensor") or {}).get("watts"))
        stated = f"{watts:g} W, which were stated" if watts is not None else "stated watts"
        found.append(f"MODELLED: energy is time multiplied by {stated}; no power was measured.")
    if energy and execution_of(run).name == BOTH:
        found.append("Eager execution: the run measured CUDA graphs as well.")
    if (run.document.get("model") or {}).get("weights") == "random":
        found.append("RANDOM WEIGHTS: the model has its true shape and no trained weights.")
    return found


def sheet_of(of: Source, stem: str, title: str, rows: Sequence[list[Panel]], width: float) -> Sheet:
    """Return a figure of a run that shows its energy, with the caveats as notes."""
    return Sheet(stem, f"{title}: {of.about}", [row for row in rows if row], width, caveats(of.run))


def missing(of: Source, stem: str, stage: str) -> Missing:
    """Return why a figure that needs a stage is missing."""
    return Missing(stem, why_missing(of.run.document, stage))
