"""Which figures there are, of which of the page's charts each is made, and why one cannot be drawn of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope import format as fmt
from energyscope.reasons import Reason, join, read, reason, words
from energyscope.reporting.page import environment
from energyscope.reporting.run import page  # noqa: F401 - registers the sections
from energyscope.reporting.run.changes import change_figure
from energyscope.reporting.run.energy import block_figure, layer_range, type_figure
from energyscope.reporting.run.quality import kind_figures
from energyscope.reporting.run.report import DECODE, RUN, Report, precision_name
from energyscope.reporting.run.statistics import METRICS, impact_coefficients
from energyscope.reporting.section import Figure, View, figures


@dataclass(frozen=True)
class Panel:
    """One chart with its title, ``lines`` between the two, and the plot's ``height`` if it is not the page's."""

    title: str
    chart: Any
    lines: Sequence[str] = ()
    height: float | None = None


@dataclass(frozen=True)
class Sheet:
    """One publication figure: panels in rows, where None is left empty, two columns of a page ``wide`` or one.

    ``reason`` says why it has no rows, or what is left out of it. ``shared``: one legend is that of all panels.
    """

    stem: str
    rows: Sequence[Sequence[Panel | None]] = ()
    notes: Sequence[str] = ()
    reason: str | None = None
    wide: bool = True
    shared: bool = False


@dataclass(frozen=True)
class SheetPlan:
    """A sheet to be: groups of names of the page's figures, each with how many stand side by side.

    Missing ones close up; ``why`` says by name why they are missing. ``stage`` measures the figure, ``otherwise``
    is the code where that has results and yet no chart. ``every`` view is a panel, or the first of each figure.
    Lines of panels are ``pitch`` pixels high, or as high as on the page.
    """

    stem: str
    stage: str
    otherwise: str
    groups: Sequence[tuple[int, Sequence[str]]]
    wide: bool = True
    shared: bool = False
    pitch: float = 0.0
    every: bool = False
    why: Mapping[str, Callable[[Report], str | None]] | None = None

    @property
    def names(self) -> list[str]:
        """The names of all its figures."""
        return [name for _, names in self.groups for name in names]


def _quality(report: Report) -> str | None:
    return report.benchmark.get("predictions_reason")


def _layers(report: Report) -> Reason:
    energies = layer_range(report.main) if report.main else {}
    if energies.get("low") is None:
        return reason("layers-not-measured")
    low, high = (fmt.quantity(energies[key], "mJ") for key in ("low", "high"))
    return reason("equal-layers", low=low, high=high)


_GROWING = ("latency-", "energy-", "")  # the last are tokens per joule
PLANS = (
    SheetPlan(
        "benchmark_overview", "benchmark", "stage-left-nothing",
        [(3, [f"precision-{key}" for key in ("latency", "speedup", "energy", "throughput", "quality", "size")])],
        why={"precision-quality": _quality},
    ),
    SheetPlan(
        "benchmark_sweep", "benchmark", "one-shape",
        [(3, [f"precision-{value}by-{key}" for key in ("batch", "length") for value in _GROWING])],
        shared=True,
    ),
    SheetPlan(
        "speed_accuracy_tradeoff", "benchmark", "one-precision-judged",
        [(2, ["precision-speed", "precision-tradeoff"])],
    ),
    SheetPlan(
        "per_layer_energy_analysis", "profile", "stage-left-nothing",
        [(1, ["energy-types", "energy-blocks", "energy-by-layer", "energy-heatmap"])],
        pitch=20,
        why={"energy-by-layer": _layers},
    ),
    SheetPlan(
        "prediction_impact_by_type", "ablate", "no-impact-by-kind",
        [(3, [f"impact-{metric}" for metric in METRICS])],
        shared=True, pitch=19,
    ),
    SheetPlan("energy_vs_impact_scatter", "correlate", "no-points", [(1, ["quality-quadrants"])], wide=False),
    SheetPlan("energy_impact_correlation_matrix", "correlate", "no-coefficients", [(1, ["quality-matrix"])]),
    SheetPlan("generation_power_trace", "generate", "no-power-trace", [(1, ["generation-power"])]),
    SheetPlan(
        "energy_per_token", "generate", "no-step-energies", [(1, ["generation-phases", "generation-tokens"])],
        why={"generation-tokens": lambda _: reason("no-step-energies")},
    ),
    SheetPlan("attention_by_context", "profile", "one-context", [(1, ["generation-context"])], wide=False),
    SheetPlan("choices", "alternatives", "nothing-changed", [(2, ["changes-saved"])], every=True),
)  # fmt: skip


def sheets(report: Report) -> list[Sheet]:
    """Return every figure of a run, drawn or with the reason why it is not."""
    more = [block_figure(report), type_figure(report), change_figure(report), *kind_figures(report)]
    drawn = {figure.name: figure for figure in (*more, *figures(RUN.shown(report))) if figure}
    return [_sheet(plan, drawn, report) for plan in PLANS]


def _sheet(plan: SheetPlan, drawn: Mapping[str, Figure], report: Report) -> Sheet:
    rows = list(_rows(plan, drawn, report))
    if not rows:
        return Sheet(plan.stem, reason=_missing(plan, report))
    used = [drawn[name] for name in plan.names if name in drawn]
    captions = dict.fromkeys(figure.caption for figure in used if figure.caption)
    left_out = [
        reason(
            "without-panels", panels=[name.partition("-")[2].replace("-", " ")], why=why(report) or "not-measured"
        )
        for name, why in (plan.why or {}).items()
        if name not in drawn
    ]
    shapes = _shapes(report)
    if plan.stem == "benchmark_overview" and len(shapes) > 1:
        left_out.append(reason("first-shape-of", shape=shapes[0], shapes=len(shapes)))
    lines = [*notes(report, joules=plan.stage != "ablate"), *captions]
    return Sheet(plan.stem, rows, lines, join(left_out) or None, plan.wide, plan.shared)


def _rows(plan: SheetPlan, drawn: Mapping[str, Figure], report: Report) -> Iterator[Sequence[Panel | None]]:
    for across, names in plan.groups:
        panels = []
        for figure in (drawn[name] for name in names if name in drawn):
            tables = [view.table for view in figure.views]  # of a phase, all contexts have one
            views = [view for at, view in enumerate(figure.views) if view.table not in tables[:at]]
            panels += [_panel(plan, figure, view, report) for view in (views if plan.every else figure.views[:1])]
        yield from in_rows(panels, across)


def in_rows(panels: Sequence[Panel], most: int) -> Iterator[Sequence[Panel | None]]:
    """Yield panels in rows of at most so many; those of a last, shorter row are no wider than the others."""
    for at in range(0, len(panels), most):
        row = panels[at : at + most]
        yield [*row, *[None] * (most - len(row) if at else 0)]


def _panel(plan: SheetPlan, figure: Figure, view: View, report: Report) -> Panel:
    phase = dict(report.phase_dimension).get(str(view.when.get("phase")))
    if phase and plan.every:
        phase = str(view.table.rows[0].get("phase") or phase)
    title = f"{figure.title}: {phase}" if phase else figure.title
    lines = _coefficients(report) if figure.name == "quality-quadrants" else ()
    parts = {row["part"] for row in view.table.rows if "part" in row}
    return Panel(title, view.chart, lines, plan.pitch * len(parts) or None)


def _coefficients(report: Report) -> list[str]:
    entries = [
        entry for entry in impact_coefficients(report.correlation) if entry["method"] in {"spearman", "pearson"}
    ]
    known = [
        f"{str(entry['method']).capitalize()} {fmt.measured(entry['value'])}, n = {entry['n']}"
        for entry in entries
        if entry["value"] is not None
    ]
    return known or list(dict.fromkeys(f"No coefficient: {words(entry['reason'])}" for entry in entries))


def notes(report: Report, *, joules: bool = True) -> list[str]:
    """Return what has to stand on every figure of a run; ``joules`` tells whether it shows energy."""
    models = report.benchmark.get("models") or []
    kernels = [
        (precision_name(model.get("precision")), note)
        for model in (models if joules else [])
        for note in model.get("notes") or []
        if read(str(note)).code == "not-its-kernels"
    ]
    text = environment(escape=False).get_template("print/notes.txt.j2").render(
        joules=joules,
        modelled=report.modelled,
        watts=report.watts,
        random=report.random,
        triggered=report.triggered,
        kernels=kernels,
    )  # fmt: skip
    return text.split("\n")[:-1] if text else []


def _missing(plan: SheetPlan, report: Report) -> str:
    """Return why a figure cannot be drawn: its stage has no result, what that says, or the plan's own reason."""
    run, main = report.run, report.main
    results = {
        "benchmark": run.benchmark,
        "profile": report.workloads,
        "ablate": run.impact is not None and not run.impact.empty,
        "correlate": run.correlation,
        "generate": run.generation,
        "alternatives": run.alternatives,
    }
    if not results[plan.stage]:
        return _ended(report.part("stages").get(plan.stage), plan.stage)
    matrix = report.correlation.get("matrix") or {}
    reasons = {
        "speed_accuracy_tradeoff": _quality(report),
        "energy_impact_correlation_matrix": next(iter((matrix.get("reasons") or {}).values()), None),
        "attention_by_context": reason("no-decode-steps") if main is None or main.phase != DECODE else None,
    }
    values = {"stage": plan.stage} if plan.otherwise == "stage-left-nothing" else {}
    return reasons.get(plan.stem) or reason(plan.otherwise, **values)


def _ended(entry: Mapping[str, Any] | None, stage: str) -> Reason:
    state, why = (entry or {}).get("state"), (entry or {}).get("reason")
    if state is None:
        return reason("stage-not-run", stage=stage)
    if state == "done" and why is None:
        return reason("stage-left-nothing", stage=stage)
    return reason("stage-ended", stage=stage, state=str(state), why=why or "not-said")


def _shapes(report: Report) -> list[str]:
    return list(
        dict.fromkeys(f"{cell.get('batch_size')} x {cell.get('sequence_length')}" for cell in report.cells)
    )
