"""What would change it: every alternative, execution and precision that was measured, the largest saving first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from energyscope import format as fmt
from energyscope.changes.acceptance import LOOKUP
from energyscope.changes.savings import LINEARS, PLAN, Change, changes
from energyscope.intervals import Interval, finite, from_entry, not_negative
from energyscope.reporting.charts.bars import bars
from energyscope.reporting.charts.plane import Axis, curves, plane
from energyscope.reporting.charts.theme import COSTS, SAVES, UNCLEAR, title_of
from energyscope.reporting.run.parts import blocks, columns, is_noisy
from energyscope.reporting.run.plan_names import choice_name
from energyscope.reporting.run.power_limit import lower_limit_sentence
from energyscope.reporting.run.report import (
    EXECUTIONS,
    GRAPH,
    RUN,
    MeasuredWorkload,
    Report,
    execution_name,
    precision_name,
)
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Row, Table
from energyscope.runs.tree import EAGER

_COLOURS = {"saves": SAVES, "costs": COSTS, "unclear": UNCLEAR}
_MOST_BARS = 9
_SAME_PREDICTIONS = frozenset({"batch_size", "execution", "kv_cache", "attention", LOOKUP})
_PANELS = (
    ("latency", "Latency"),
    ("speedup", "Speed-up"),
    ("energy", "Energy"),
    ("throughput", "Throughput"),
    ("quality", "Quality"),
    ("size", "Model size"),
)


@RUN.section(3, "changes", "Changes", "--stages alternatives,benchmark")
def section(report: Report) -> Content | None:
    """Return everything that was measured beside the run's own setting, in one table."""
    measured = changes(report.run)
    precisions = benchmark_table(report)
    contexts = _contexts(report)
    if not measured and not precisions and not contexts:
        return None
    tables = {
        "changes": change_table(measured, report),
        "benchmark": precisions,
        "lookup": _lookup(report),
        "contexts": contexts,
        "skipped": _skipped(report),
    }
    figures = [figure for figure in (*_panels(precisions), _executions(report)) if figure.views]
    data = {
        "notes": [*(report.alternatives.get("notes") or []), *(report.benchmark.get("notes") or [])],
        "panels": [figure.name for figure in figures],
        "no_quality": report.benchmark.get("predictions_reason"),
        "power_limit": lower_limit_sentence(report),
    }
    return Content(data, figures, tables)


def change_name(change: Change) -> str:
    """Return what a change is, as it is called in sentences: ``a CUDA graph``, ``a batch of 64``, ``BF16``."""
    if change.what == "execution":
        return {EAGER: "eager execution", GRAPH: "a CUDA graph"}.get(change.value, execution_name(change.value))
    if change.what == "precision":
        return precision_name(change.value)
    if change.what == PLAN:
        return f"the plan ({', '.join(map(precision_name, change.precisions))})"
    if change.what == LINEARS:
        return choice_name(change.value)
    names = {
        "batch_size": f"a batch of {change.value}",
        "kv_cache": f"a {change.value} KV cache",
        "attention": "unfused attention" if change.value == EAGER else f"{change.value} attention",
        LOOKUP: f"prompt lookup of {change.value} tokens",
    }
    return names.get(change.what, f"{change.what.replace('_', ' ')} {change.value}")


def change_table(measured: list[Change], report: Report) -> Table:
    """Return changes with the energy that they save, what they do to time and quality, and how sure that is."""
    saved = "Energy saved (MODELLED)" if report.modelled else "Energy saved"
    columns = [
        Column("change", "Change"),
        Column("phase", "Phase"),
        Column("saved", saved, "share", "of the same work; 95 % interval"),
        Column("time", "Time", "ratio", "of a step or pass, against the run's own", rank=1),
        Column("quality", "Quality", hint="change of accuracy or perplexity against the baseline", rank=2),
        Column("confidence", "Confidence", hint="clear: the interval excludes no change"),
        Column("setup", "Set up once", "s", rank=4),
    ]
    rows = [
        {
            "change": capital(change_name(change)),
            "phase": change.phase if report.generates or change.phase == "decode" else "forward pass",
            "saved": change.saved,
            "time": change.time,
            "quality": _quality(change),
            "confidence": confidence(change),
            "setup": change.setup_s,
            "colour": _COLOURS[change.verdict],
            "noisy": change.verdict == "unclear",
            "label": fmt.measured(change.saved, "share"),
            "verdict": change.verdict,
        }
        for change in measured
    ]
    return Table(columns, rows, "What would change it")


def capital(name: str) -> str:
    """Return a change's name as a line begins with it."""
    return name if name in EXECUTIONS.values() else name[:1].upper() + name[1:]  # torch.compile is a name


def change_figure(report: Report) -> Figure | None:
    """Return the bars of what each change saves, one view for each phase that has any."""
    measured = changes(report.run)
    every = change_table(measured, report)
    states: list[tuple[str | None, dict[str, str]]] = [
        (workload.phase, {"phase": workload.name}) for workload in report.workloads
    ]
    views = []
    for phase, state in states or [(None, {})]:
        rows = [row for row, change in zip(every.rows, measured, strict=True) if phase in {None, change.phase}]
        if len({row["phase"] for row in rows}) > 1:  # one plan for several workloads, of which none has a profile
            rows = [{**row, "change": f"{row['change']} ({row['phase']})"} for row in rows]
        if rows:
            table = replace(every, rows=rows[:_MOST_BARS])
            views.append(View(bars(table, "change", "saved"), table, state))
    compared = report.benchmark.get("baseline") or ((report.run.plan or {}).get("precisions") or [None])[0]
    baseline = precision_name(compared) if compared and report.main is None else "this run"
    caption = f"Percent of energy saved against {baseline}, same work; left of zero: costs more. Hollow: unclear."
    return Figure("changes-saved", "What would change it", views, caption) if views else None


def precision_figure(report: Report) -> Figure | None:
    """Return the energy of an inference in each precision, of the benchmark's first batch size and length."""
    table = benchmark_table(report)
    if not table:
        return None
    columns = [table.column(key) for key in ("name", "energy", "ratio", "latency", "quality", "grade")]
    first = replace(_first_shape(table), columns=columns)
    caption = "Energy of one batch; whiskers: 95 % intervals; hollow: known to no better than 10 %."
    return Figure.of("precisions", "Energy by precision", bars(first, "name", "energy"), first, caption)


def _quality(change: Change) -> str:
    if change.what not in {"precision", PLAN, LINEARS}:
        return "same" if change.what in _SAME_PREDICTIONS else fmt.UNKNOWN
    if change.quality is None:
        return "not measured"
    sign = "+" if change.quality.value > 0 else ""
    unit = "share" if change.metric == "accuracy" else ""
    words = {True: "worse", False: "unchanged", None: "no loss shown"}[change.degrades]
    return f"{words} ({change.metric} {sign}{fmt.quantity(change.quality.value, unit)})"


def confidence(change: Change) -> str:
    """Return how sure a change is, in a word."""
    if change.modelled:
        return "MODELLED"
    if change.disturbed:
        return "disturbed"
    return "unclear, includes 0" if change.verdict == "unclear" else "clear"


def benchmark_table(report: Report) -> Table:
    """Return the benchmark: every precision at every batch size and length."""
    scores, models = (
        {str(entry.get("precision")): entry for entry in report.benchmark.get(key) or []}
        for key in ("predictions", "models")
    )
    metric = next((str(score.get("metric")) for score in scores.values()), "accuracy")
    columns = [
        Column("name", "Precision"),
        Column("shape", "Batch x tokens", rank=2),
        Column("energy", report.energy_title, "mJ", "of one inference"),
        Column("ratio", "Energy / baseline", "ratio", rank=1),
        Column("latency", "Latency", "us"),
        Column("speedup", "Speed-up", "ratio", rank=3),
        Column("throughput", "Throughput", "/s", "sequences a second", rank=4),
        Column("power", "Power", "W", rank=5),
        Column("quality", metric.capitalize(), "share" if metric == "accuracy" else ""),
        Column("difference", "Change", "change" if metric == "accuracy" else "", rank=6),
        Column("kl", "KL", "", "divergence of the outputs from the baseline's, nats", rank=8),
        Column("size", "Size", "bytes", rank=3),
        Column("memory", "Peak memory", "bytes", rank=7),
        Column("tokens_per_j", "Tokens/J", "", rank=6),
        Column("edp", "Energy x delay", "mJ s", rank=9),
        Column("p95", "p95 latency", "us", rank=9),
        Column("trials", "Trials", "count", rank=9),
        Column("grade", "Grade", "grade", rank=1),
        Column("reasons", "Reasons", "reasons", rank=9),
    ]
    rows = [_cell(cell, scores, models) for cell in report.cells]
    return Table(columns, rows, "Precisions of the whole model")


def _cell(cell: Mapping[str, Any], scores: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    def read(key: str, scale: float = 1.0) -> Interval | None:
        return not_negative(from_entry(cell.get(key), scale))

    name, energy = str(cell.get("precision")), read("energy_mj")
    score, model = scores.get(name) or {}, models.get(name) or {}
    size, memory = finite(model.get("model_size_mb")), finite(cell.get("peak_allocated_gb"))
    return {
        "name": precision_name(name),
        "kind": name,
        "shape": f"{cell.get('batch_size')} x {cell.get('sequence_length')}",
        "energy": energy,
        "ratio": read("energy_ratio") or Interval(1.0),
        "latency": read("latency_s", 1e6),
        "speedup": read("speedup") or Interval(1.0),
        "throughput": read("throughput"),
        "power": read("power_w"),
        "quality": from_entry(score.get("value")),
        "difference": from_entry(score.get("difference")),
        "kl": from_entry(score.get("kl")),
        "size": None if size is None else size * 1e6,
        "memory": None if memory is None else memory * 1e9,
        "tokens_per_j": read("tokens_per_joule"),
        "edp": read("energy_delay_product_js", 1e3),
        "p95": read("p95_latency_s", 1e6),
        "trials": cell.get("trials"),
        "grade": cell.get("quality"),
        "reasons": cell.get("reasons"),
        "noisy": energy is None or is_noisy(energy),
        "batch": cell.get("batch_size"),
        "length": cell.get("sequence_length"),
    }


def _panels(table: Table) -> Iterator[Figure]:
    """Yield the six panels of the benchmark, the trade-off, and growth where several shapes were measured."""
    if not table:
        return
    first = _first_shape(table)
    shape = first.rows[0]["shape"]
    for key, title in _PANELS:
        rows = [{**row, "noisy": _noisy(row[key])} for row in first.rows if row.get(key) is not None]
        if rows:
            panel = Table([table.column(column) for column in ("name", key, "grade")], rows)
            heading = panel.column(key).title if key in {"quality", "energy"} else title
            caption = f"At {shape} tokens. Whiskers: 95 % intervals. Hollow: known to no better than 10 %."
            yield Figure.of(f"precision-{key}", heading, bars(panel, "name", key), panel, caption)
    judged = Table(table.columns, [row for row in first.rows if row["quality"] is not None])
    for name, key in (("tradeoff", "energy"), ("speed", "latency")) if len(judged.rows) > 1 else ():
        title = f"{table.column(key).title} against {table.column('quality').title.lower()}"
        chart = plane(judged, Axis(key), Axis("quality"), series="name", name="name")
        caption = f"At {shape} tokens. Lines: 95 % intervals. Hollow: energy known to no better than 10 %."
        yield Figure.of(f"precision-{name}", title, chart, judged, caption)
    yield from _growth(table)


def _first_shape(table: Table) -> Table:
    return replace(table, rows=[row for row in table.rows if row["shape"] == table.rows[0]["shape"]])


def _noisy(value: object) -> bool:
    return isinstance(value, Interval) and fmt.relative(value) is not None and is_noisy(value)


def _growth(table: Table) -> Iterator[Figure]:
    """Yield tokens per joule, energy and latency over batch sizes at the first length, and the other way round."""
    for key, other, title in (("batch", "length", "batch size"), ("length", "batch", "length")):
        rows = sorted((row for row in table.rows if row[other] == table.rows[0][other]), key=lambda row: row[key])
        line = Table([*table.columns, Column(key, title.capitalize(), "count")], rows)
        if len({row[key] for row in rows}) < 2:
            continue
        for name, value in (("", "tokens_per_j"), ("energy-", "energy"), ("latency-", "latency")):
            chart = curves(line, Axis(key, log=True), Axis(value, log=value != "tokens_per_j"), series="name")
            at = f"{rows[0][other]} tokens" if other == "length" else f"a batch of {rows[0][other]}"
            heading = f"{table.column(value).title} by {title}"
            caption = f"Over {title} at {at}. Band: 95 % interval."
            yield Figure.of(f"precision-{name}by-{key}", heading, chart, line, caption)


def _executions(report: Report) -> Figure:
    """Return all energy of each block in both executions, of the workloads that were measured in both."""
    by_pass: dict[tuple[str, int | None], list[MeasuredWorkload]] = {}
    for workload in report.workloads:
        by_pass.setdefault((workload.phase, workload.context), []).append(workload)
    views = []
    for workloads in by_pass.values():
        tables = {workload.execution: blocks(workload.tree, modelled=report.modelled) for workload in workloads}
        if len(tables) < 2:
            continue
        first = next(iter(tables.values()))
        rows = [
            {
                **row,
                "part": title_of(row["kind"]),
                "series": execution_name(execution),
                "execution": execution,
                "noisy": is_noisy(row["energy"]),
            }
            for kind in [row["kind"] for row in first.rows if not row.get("rest")]
            for execution, table in tables.items()
            for row in table.rows
            if row["kind"] == kind
        ]
        part, *others = columns(modelled=report.modelled)
        both = Table([part, Column("series", "Execution"), *others], rows)
        chart = bars(both, "part", "energy", work="work", series="execution")
        views += [View(chart, both, {"phase": workload.name}) for workload in workloads]
    caption = "Solid: work; pale: idle power; whiskers: 95 % intervals."
    return Figure("launching", "What launching costs, by block", views, caption)


def _contexts(report: Report) -> Table:
    """Return a step or pass at other contexts, which are other work."""
    rows = [
        {
            "context": row.get("context_length"),
            "phase": row.get("phase"),
            "time": from_entry(row.get("time_us")),
            "energy": from_entry(row.get("joules_per_token"), 1e3),
            "grade": row.get("quality"),
        }
        for row in report.alternatives.get("rows") or []
        if row.get("what") in {"context_length", "base"} and row.get("phase") == "decode"
    ]
    columns = [
        Column("phase", "Phase"),
        Column("context", "Tokens of context", "count"),
        Column("energy", "Energy per token", "mJ"),
        Column("time", "Time of a step or pass", "us"),
        Column("grade", "Grade", "grade"),
    ]
    rows.sort(key=lambda row: row["context"] or 0)
    several = len({row["context"] for row in rows}) > 1
    return Table(columns, rows if several else [], "The same step at other contexts")


def _lookup(report: Report) -> Table:
    """Return what prompt lookup gets accepted, and what verifying it takes."""
    rows: list[Row] = [
        {
            "proposed": row.get("proposed"),
            "accepted": from_entry(accepted.get("tokens_per_step")),
            "share": accepted.get("proposed_share"),
            "energy": from_entry(row.get("energy_mj")),
            "token": from_entry(row.get("joules_per_token"), 1e3),
            "texts": f"{accepted.get('same')} of {accepted.get('texts')}",
            "gap": accepted.get("largest_gap"),
        }
        for row in report.alternatives.get("rows") or []
        if (accepted := row.get("acceptance"))
    ]
    columns = [
        Column("proposed", "Tokens proposed", "count", "a step"),
        Column("accepted", "Tokens a step", "", "that it makes: 1, and what is accepted of the proposed ones"),
        Column("share", "Steps with a proposal", "share"),
        Column("energy", "Energy of such a step", "mJ"),
        Column("token", "Energy per token", "mJ", "of all steps"),
        Column("texts", "Same texts", hint="as without prompt lookup, greedily"),
        Column("gap", "Largest gap", "", "nats between the tokens where texts begin to differ: rounding"),
    ]
    return Table(columns, rows, "Prompt lookup")


def _skipped(report: Report) -> Table:
    rows: list[Row] = [
        {**entry, "what": f"{entry.get('what')} {entry.get('value')}".replace("_", " ")}
        for entry in report.alternatives.get("skipped") or []
    ]
    rows += [
        {"what": precision_name(entry.get("precision")), "reason": entry.get("reason")}
        for entry in report.benchmark.get("skipped") or []
    ]
    columns = [Column("what", "Not measured"), Column("phase", "Phase"), Column("reason", "Why", "reasons")]
    return Table(columns, rows, "What could not be measured")
