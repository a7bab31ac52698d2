"""The tables of `energyscope show` that single stages leave: precisions, a generation, impact, advice."""

from __future__ import annotations

from energyscope.advising.said import MODELLED
from energyscope.reporting import text
from energyscope.reporting.data import ReportData
from energyscope.reporting.data.generation_words import US_PER_S, share_of
from energyscope.reporting.data.impact_words import limited_text, method_title, metric_title
from energyscope.reporting.terminal_impact import not_applicable, reasons_without_value, worth_rows
from energyscope.reporting.terminal_show_sheets import DASH, Head, Sheet, energy_word, known, why


def impact_sheet(data: ReportData, *, every: bool = False) -> Sheet:
    """Return what the kinds are worth by the methods that the report's heat maps show.

    With ``every``, a row for each component and method, with its interval; of those without a value, how many
    there are and why, those included that could have none.
    """
    impact = data.impact
    if impact is None or not impact.metrics:
        return Sheet("What it is worth", (), (), [why(data, "ablate")])
    metric = impact.metrics[0]
    title = f"What it is worth: {metric_title(metric)}"
    if every:
        rows_said = f"Rows of the run's table without a value, which are not listed: {impact.invalid_rows}."
        notes = [rows_said] if impact.invalid_rows else []
        notes += [f"Without a value: {group.sentence}." for group in impact.invalid]
        points = [point for point in impact.points if point.metric == metric]
        cells = [
            [point.component, method_title(point.method), limited_text(point.value, metric)] for point in points
        ]
        heads: tuple[Head, ...] = (Head("component"), Head("method"), Head("value [95 %]", right=True))
        return Sheet(title, heads, cells, notes)
    methods = [method for method in (impact.removal, impact.quantization) if method is not None]
    rows = worth_rows(impact, metric, methods)
    notes = [f"Without a value: {reason}." for reason in reasons_without_value(impact)]
    named = [Head(f"{method_title(method)}, mean (largest)", right=True) for method in methods]
    return Sheet(title, (Head("kind"), *named), rows, [*not_applicable(rows), *notes])


def advice_sheet(data: ReportData) -> Sheet:
    """Return what to change: settings that were tried, then components; what is not sure says so."""
    tried = data.choices.advice if data.choices else []
    rows = [[said.what.replace("_", " "), "yes" if said.confident else "no", said.sentence] for said in tried]
    panel = data.correlation.advice if data.correlation else None
    if panel is not None:
        rows += [[name, "yes", f"{advice}: {why}"] for name, advice, _, why in panel.table.rows]
    notes = [panel.before] if panel is not None and panel.before else []
    if not rows and not notes:
        notes.append("Nothing was tried or found that can be told to save energy.")
    warnings = [MODELLED.rstrip(": ") + "."] if data.modelled and rows else []
    return Sheet("What to change", (Head("what"), Head("sure"), Head("advice")), rows, notes, warnings)


def generation_sheet(data: ReportData) -> Sheet:
    """Return the phases of a traced generation."""
    found = data.generation
    heads = (
        Head("phase"), Head("time", right=True), Head(energy_word(data), right=True), Head("share", right=True),
        Head("per token [95 %]", right=True, wide=True), Head("power", right=True, wide=True),
    )  # fmt: skip
    if found is None:
        return Sheet("A whole generation", heads, (), [why(data, "generate")])
    phases = [*found.phases, *([found.total] if found.total else [])]
    rows = [
        [row.phase, known(row.seconds.scaled(US_PER_S).value if row.seconds else None, "us"),
         text.with_limits(row.energy, "mJ") if row.energy else DASH, share_of(row, found),
         text.with_limits(row.per_token, "mJ") if row.per_token else DASH,
         known(row.power_w.value if row.power_w else None, "W")]
        for row in phases
    ]  # fmt: skip
    title = f"A whole generation ({found.new_tokens} tokens from {found.prompt_tokens})"
    return Sheet(title, heads, rows, [f"{row.phase}: {row.reason}." for row in phases if row.reason])


def benchmark_sheet(data: ReportData) -> Sheet:
    """Return a row for each precision, batch size and length."""
    found = data.benchmark
    heads = (Head("precision"), Head("shape", wide=True), Head("latency", right=True),
             Head(energy_word(data), right=True), Head("speed-up", right=True), Head("grade"))  # fmt: skip
    if found is None:
        return Sheet("Precisions", heads, (), [data.benchmark_missing])
    rows = [
        [cell.marked_title, " x ".join(map(str, cell.shape)),
         known(cell.latency_s.value * US_PER_S if cell.latency_s else None, "us"),
         text.amount(cell.energy_mj, "mJ"), text.amount(cell.speedup, "") if cell.speedup else DASH,
         cell.quality]
        for cell in found.cells
    ]  # fmt: skip
    page = data.benchmark_page
    notes = [*page.said, *([page.twice] if page.twice else [])] if page else []
    return Sheet("Precisions of the whole model", heads, rows, notes)
