"""The figure of two runs: shares of energy, impact, correlation, and what each precision buys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from energyscope.reporting import text
from energyscope.reporting.charts.comparison import SERIES, Compared, side_by_side
from energyscope.reporting.data.benchmark import BenchmarkCell, precision_title
from energyscope.reporting.data.benchmark_words import NOT_THE_KERNELS, shape_text
from energyscope.reporting.data.impact_words import method_title
from energyscope.reporting.publication import pairs
from energyscope.reporting.publication.sheet import DOUBLE, Key, Missing, Panel, Sheet
from energyscope.reporting.publication.source import Source, caveats
from energyscope.runs.intervals import Interval

STEM = "comparative_analysis"


@dataclass(frozen=True)
class Subject:
    """What a panel sets side by side, in which row; ``reference`` is where its dashed line stands.

    ``span`` are the ends of the axis; ``from_zero`` lets it begin at 0, so that panels of one kind start alike.
    """

    title: str
    axis: str
    found: list[Compared]
    row: int
    reference: float | None = None
    said: list[str] = field(default_factory=list)
    span: tuple[float, float] | None = None
    from_zero: bool = True


def comparative(first: Source, second: Source) -> Sheet | Missing:
    """Return the comparison of two runs; panels for which neither has data are left out, and that is said."""
    both = (first, second)
    names = _names(both)
    subjects = _subjects(both, names)
    shown = [subject for subject in subjects if subject.found]
    without = _without(subjects, names)
    if not shown:
        return Missing(STEM, f"The runs have nothing to compare: without {text.listed(without, 9)}.")
    return Sheet(
        stem=STEM,
        title=f"Comparison of {names[0]} and {names[1]}",
        rows=_rows(shown, names),
        width=DOUBLE,
        notes=[*_notes(both, names), *_marks(shown)],
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
        for caveat in [*caveats(one.run), *_foreign(one)]:
            found.setdefault(caveat, []).append(name)
    return [caveat if len(owners) > 1 else f"{owners[0]}: {caveat}" for caveat, owners in found.items()]


def _foreign(one: Source) -> list[str]:
    """Say which precisions' times and energies are not those of their kernels."""
    cells = one.data.benchmark.cells if one.data.benchmark else []
    titles = list(dict.fromkeys(cell.title for cell in cells if cell.foreign))
    return [f"{title}: {NOT_THE_KERNELS}." for title in titles]


def _marks(shown: Sequence[Subject]) -> list[str]:
    """Explain the marks that the panels have."""
    found = [one for subject in shown for one in subject.found]
    said = ["Lines: 95 % intervals."] if any(one.value.known for one in found) else []
    if any(one.invalid for one in found):
        said.append("Hollow: energy below grade C.")
    meant = {0.0: "no correlation", 1.0: "as the baseline"}
    references = {subject.reference for subject in shown}
    if lines := [meaning for at, meaning in meant.items() if at in references]:
        said.append(f"Dashed: {text.listed(lines)}.")
    return [" ".join(said)] if said else []


def _lacking(subject: Subject, names: Sequence[str]) -> list[str]:
    return [name for name in names if not any(one.series == name for one in subject.found)]


def _without(subjects: Sequence[Subject], names: Sequence[str]) -> list[str]:
    """Return the subjects for which both runs or one of them have no data."""
    found = []
    for subject in subjects:
        if lacking := _lacking(subject, names):
            what = subject.title.partition(",")[0].lower()
            found.append(what if len(lacking) == len(names) else f"{what} of {lacking[0]}")
    return found


def _rows(shown: Sequence[Subject], names: Sequence[str]) -> list[list[Panel]]:
    """Return the panels, those of one row beside each other; few panels are one row."""
    if len(shown) < 3:
        return [[_panel(subject, names) for subject in shown]]
    rows = sorted({subject.row for subject in shown})
    return [[_panel(subject, names) for subject in shown if subject.row == row] for row in rows]


def _panel(subject: Subject, names: Sequence[str]) -> Panel:
    chart = side_by_side(
        subject.found, names, subject.axis, subject.title, subject.reference, subject.span,
        from_zero=subject.from_zero,
    )  # fmt: skip
    return Panel(
        subject.title, chart, [*subject.said, *(f"{name}: no data." for name in _lacking(subject, names))]
    )


def _subjects(both: Sequence[Source], names: Sequence[str]) -> list[Subject]:
    runs, data = [one.run for one in both], [one.data for one in both]
    benchmarks = [one.benchmark for one in data]
    method = pairs.removal_of(data)
    impacts = pairs.impacts_by_type(data, names, method) if method else []
    at = pairs.shapes(benchmarks)
    bases = {precision_title(one.baseline) for one in benchmarks if one and one.baseline}
    base = bases.pop() if len(bases) == 1 else "baseline"
    word = "Modelled energy" if all(run.modelled for run in runs) else "Energy"
    said = _shapes_said(at, names)
    removed = f", {method_title(method)}" if method else ""

    cells = partial(pairs.precisions, benchmarks, names, at)
    latencies, time = _scaled(cells(_microseconds), "us")
    energies, joules = _scaled(cells(lambda cell: cell.energy_mj, energy=True), "mJ")
    speeds = cells(lambda cell: cell.speedup, baseline=False)
    ratios = cells(lambda cell: cell.energy_ratio, baseline=False, energy=True)
    share = f"Share of the model's {word.lower()} (%)"
    return [
        Subject(f"{word} by type", share, pairs.energy_shares(runs, names), 0),
        Subject(f"Impact by type{removed}", "Mean KL (nats)", impacts, 0),
        Subject("Latency by precision", f"Latency per inference ({time})", latencies, 1, None, said),
        Subject(f"{word} by precision", f"{word} per inference ({joules})", energies, 1, None, said),
        Subject("Speed-up by precision", f"Speed relative to own {base}", speeds, 2, 1.0, said),
        Subject(f"Relative {word.lower()}", f"{word} relative to own {base}", ratios, 2, 1.0, said),
        Subject(
            f"{word} with impact", "Spearman, energy with KL", pairs.correlations(data, names), 3, 0.0,
            span=(-1.0, 1.0),
        ),
    ]  # fmt: skip


def _microseconds(cell: BenchmarkCell) -> Interval | None:
    return None if cell.latency_s is None else cell.latency_s.scaled(1e6)


def _scaled(found: list[Compared], unit: str) -> tuple[list[Compared], str]:
    """Return values in the unit in which the middle one is best read, and that unit: models may lie far apart."""
    values = sorted(one.value.value for one in found)
    divisor, name = text.scale_of(values[len(values) // 2] if values else 1.0, unit)
    return [replace(one, value=one.value.scaled(1 / divisor)) for one in found], name


def _shapes_said(at: Sequence[pairs.Shape | None], names: Sequence[str]) -> list[str]:
    """Say at which batch size and length the benchmarks are shown."""
    known = [(name, shape) for name, shape in zip(names, at, strict=True) if shape is not None]
    if len({shape for _, shape in known}) == 1:
        return [f"{shape_text(known[0][1]).capitalize()}."]
    return [f"{name}: {shape_text(shape)}." for name, shape in known]
