"""The figures of a whole inference: power over a generation, energy per token, attention by context, choices."""

from __future__ import annotations

from dataclasses import replace

from energyscope.reporting.publication.sheet import DOUBLE, SINGLE, Panel, Sheet
from energyscope.reporting.publication.source import Source, sheet_of

WHISKERS = "Lines and bands: 95 % intervals."


def inference_sheets(of: Source) -> list[Sheet]:
    """Return the figures for which the run has data, in this order; none where it has none."""
    found = [_power(of), _tokens(of), _context(of), _choices(of)]
    return [sheet for sheet in found if sheet is not None]


def _power(of: Source) -> Sheet | None:
    panels = [
        Panel(title, figure.chart, height=150)
        for name, title in (("trace", "All traced generations"), ("close", "Closer"))
        if (figure := of.figures.get(f"generation-power-{name}")) is not None
    ]
    if not panels:
        return None
    notes = ["Mean power between ticks of the energy counter; bands are the phases."]
    if len(panels) > 1:
        notes = ["Mean power between ticks of the energy counter; bands are the phases, strokes below tokens."]
    sheet = sheet_of(of, "generation_power_trace", "Power over a generation", [[one] for one in panels], DOUBLE)
    return replace(sheet, notes=[*sheet.notes, *notes])


def _tokens(of: Source) -> Sheet | None:
    figure, parts = of.figures.get("energy-per-token"), of.figures.get("generation-parts")
    if figure is None:
        return None
    rows = [[Panel("Each step over the generation" if parts else "", figure.chart, height=170)]]
    rows += [[Panel("A step from its parts, and as traced", parts.chart)]] if parts else []
    sheet = sheet_of(of, "energy_per_token", f"{of.word} per token", rows, SINGLE)
    return replace(sheet, notes=[*sheet.notes, f"Step 1 makes the second token. {WHISKERS}"])


def _context(of: Source) -> Sheet | None:
    figure = of.figures.get("attention-by-context")
    if figure is None or of.data.growth is None:
        return None
    sheet = sheet_of(of, "attention_by_context", f"{of.word} of a decode step by context",
                     [[Panel("", figure.chart, height=250)]], SINGLE)  # fmt: skip
    cache = of.data.growth.cache.partition(". ")[0].rstrip(".")
    said = f"{cache}. " if cache else ""
    bars = "Bars: 95 % intervals; one down to the lower end may reach 0 or below."
    return replace(sheet, notes=[*sheet.notes, f"{said}{bars}"])


def _choices(of: Source) -> Sheet | None:
    names = {"decode": "A decode step", "prefill": "The pass over the prompt"}
    rows = [
        [Panel(names.get(phase, phase), figure.chart)]
        for phase in (of.data.choices.phases if of.data.choices else [])
        if (figure := of.figures.get(f"choices-{phase}")) is not None
    ]
    if not rows:
        return None
    sheet = sheet_of(of, "choices", f"{of.word} per token with one thing changed", rows, DOUBLE)
    weak = any(row.weak for row in of.data.choices.rows) if of.data.choices else False
    said = "Bars begin at the run's own setting. Lines: 95 % intervals." + (
        " Hollow: below grade C." if weak else ""
    )
    return replace(sheet, notes=[*sheet.notes, said])
