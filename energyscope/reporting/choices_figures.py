"""The charts of what changing one thing at a time would do."""

from __future__ import annotations

from energyscope.reporting import text
from energyscope.reporting.charts import choices as charts
from energyscope.reporting.data.choices import ChoicesData, choices_table
from energyscope.reporting.figure import Figure

_OF = {"decode": "of a decode step", "prefill": "of the pass over the prompt"}


def choices_figures(data: ChoicesData | None) -> list[Figure]:
    """Draw each phase's alternatives against the run's own setting."""
    return [] if data is None else [_figure(data, phase) for phase in data.phases]


def _figure(data: ChoicesData, phase: str) -> Figure:
    word = "Modelled energy" if data.modelled else "Energy"
    rows = data.of(phase)
    said = "; ".join(f"{row.title} \u00d7 {text.number(row.ratio.value)}" for row in rows if row.ratio)
    summary = f"{word} per token {_OF.get(phase, phase)} with one thing changed: {said}"
    weak = " Hollow bars did not reach grade C." if any(row.weak for row in rows) else ""
    base = data.base_of(phase)
    own = f" That setting takes {text.with_limits(base.per_token, 'mJ')} per token." if base else ""
    return Figure(
        name=f"choices-{phase}",
        section="choices",
        title=f"{word} per token {_OF.get(phase, phase)}, with one thing changed",
        caption=f"Bars begin at the run's own setting, 1: left of it is less energy per token.{own} Lines are "
        f"95 % intervals.{weak}",
        summary=summary,
        chart=charts.choices(rows, summary, word),
        table=choices_table(data, phase),
    )
