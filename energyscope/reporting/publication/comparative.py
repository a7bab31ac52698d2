"""The figure of two runs: shares of energy, impact, correlation, and what each precision buys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from energyscope.reporting import text
from energyscope.reporting.charts.comparison import SERIES, Compared, side_by_side
from energyscope.reporting.data.benchmark import precision_title
from energyscope.reporting.data.benchmark_words import shape_text
from energyscope.reporting.data.impact_words import method_title
from energyscope.reporting.publication import pairs
from energyscope.reporting.publication.sheet import DOUBLE, Key, Missing, Panel, Sheet
from energyscope.reporting.publication.sheets import Source, caveats

STEM = "comparative_analysis"


@dataclass(frozen=True)
class Subject:
    """What a panel sets side by side; ``reference`` is where its dashed line stands."""

    title: str
    axis: str
    found: list[Compared]
    reference: float | None = None
    said: list[str] = field(default_factory=list)
    span: tuple[float, float] | None = None


def comparative(first: Source, second: Source) -> Sheet | Missing:
    """Return the comparison of two runs; panels for which neither has data are left out, and that is said."""
    both = (first, second)
    names = _names(both)
    panels, without = _panels(both, names)
    if not panels:
        return Missing(STEM, f"The runs have nothing to compare: without {text.listed(without, 9)}.")
    rows = [panels] if len(panels) < 3 else [panels[:2], panels[2:]]
    title = f"Comparison of {names[0]} and {names[1]}"
    return Sheet(
        stem=STEM,
        title=title,
        rows=rows,
        width=DOUBLE,
        notes=[*_notes(both, names), "Lines: 95 % intervals."],
        keys=[
            Key(name + (" (MODELLED energy)" if one.run.modelled else ""), colour, shape)
            for one, name, (shape, colour) in zip(both, names, SERIES, strict=True)
        ],
        left_out=[f"without {text.listed(without, 9)}"] if without else [],
    )


def _names(both: Sequence[Source]) -> list[str]:
    """Return what tells the runs apart: their models, or their names where the model is the same."""
    models = [one.about for one in both]
    if models[0] != models[1]:
        return models
    runs = [one.run.name for one in both]
    return runs if runs[0] != runs[1] else [f"{name} ({number})" for number, name in enumerate(runs, 1)]


def _notes(both: Sequence[Source], names: Sequence[str]) -> list[str]:
    """Return each run's caveats, once where they hold for both."""
    found: dict[str, list[str]] = {}
    for one, name in zip(both, names, strict=True):
        for caveat in caveats(one.run):
            found.setdefault(caveat, []).append(name)
    return [caveat if len(owners) > 1 else f"{owners[0]}: {caveat}" for caveat, owners in found.items()]


def _panels(both: Sequence[Source], names: Sequence[str]) -> tuple[list[Panel], list[str]]:
    """Return the panels for which a run has data, and those that none or one of them has none for."""
    panels, without = [], []
    for subject in _subjects(both, names):
        lacking = [name for name in names if not any(one.series == name for one in subject.found)]
        if lacking:
            what = subject.title.partition(",")[0].lower()
            without.append(what if len(lacking) == len(names) else f"{what} of {lacking[0]}")
        if subject.found:
            chart = side_by_side(
                subject.found, names, subject.axis, subject.title, subject.reference, subject.span
            )
            said = [*subject.said, *(f"{name}: no data." for name in lacking)]
            panels.append(Panel(subject.title, chart, said))
    return panels, without


def _subjects(both: Sequence[Source], names: Sequence[str]) -> list[Subject]:
    runs, data = [one.run for one in both], [one.data for one in both]
    benchmarks = [one.benchmark for one in data]
    method = pairs.removal_of(data)
    impacts = pairs.impacts_by_type(data, names, method) if method else []
    at = pairs.shapes(benchmarks)
    bases = {precision_title(one.baseline) for one in benchmarks if one and one.baseline}
    base = bases.pop() if len(bases) == 1 else "baseline"
    word = "Modelled energy" if all(run.modelled for run in runs) else "Energy"
    ratios = pairs.precisions(benchmarks, names, at, lambda cell: cell.energy_ratio)
    speeds = pairs.precisions(benchmarks, names, at, lambda cell: cell.speedup)
    shapes = _shapes_said(at, names)
    removed = f", {method_title(method)}" if method else ""
    return [
        Subject(f"{word} by type", f"Share of the model's {word.lower()} (%)", pairs.energy_shares(runs, names)),
        Subject(f"Impact by type{removed}", "Mean KL (nats)", impacts),
        Subject(
            f"{word} with impact",
            "Spearman, energy with KL",
            pairs.correlations(data, names),
            0.0,
            span=(-1.0, 1.0),
        ),
        Subject(f"{word} by precision", f"{word} relative to own {base}", ratios, 1.0, shapes),
        Subject("Speed-up by precision", f"Speed relative to own {base}", speeds, 1.0, shapes),
    ]


def _shapes_said(at: Sequence[pairs.Shape | None], names: Sequence[str]) -> list[str]:
    """Say at which batch size and length the benchmarks are shown."""
    known = [(name, shape) for name, shape in zip(names, at, strict=True) if shape is not None]
    if len({shape for _, shape in known}) == 1:
        return [f"{shape_text(known[0][1]).capitalize()}."]
    return [f"{name}: {shape_text(shape)}." for name, shape in known]
