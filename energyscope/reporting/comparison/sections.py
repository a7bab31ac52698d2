"""The sections of a comparison's page, in the order in which they stand on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from energyscope import format as fmt
from energyscope.comparison.basis import DYNAMIC, MEASURES, TOTAL, Basis
from energyscope.comparison.conditions import EXECUTION, NAMES, PRECISION, Document, value_of
from energyscope.comparison.difference import LATENCY, LEADS, POWER
from energyscope.comparison.parts import layers_of, mostly_invalid
from energyscope.comparison.whole import SCORES, cells_of, evaluation_of, per_work, predictions_of
from energyscope.intervals import from_entry, interval, not_negative
from energyscope.reasons import Reason, reason
from energyscope.reporting.charts.bars import bars
from energyscope.reporting.charts.plane import Axis, curves, plane
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.comparison import differences
from energyscope.reporting.comparison.answer import ComparisonAnswer, energy_title, precision_rows
from energyscope.reporting.comparison.differences import capital
from energyscope.reporting.comparison.source import COMPARE, Against, ComparedRuns, SameWorkload
from energyscope.reporting.run.energy import layer_range
from energyscope.reporting.run.parts import blocks
from energyscope.reporting.run.report import PREFILL, Report, execution_name, precision_name
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Row, Table

_WORK = (("token", "Per token", "mJ"), ("parameter", "Per parameter", "nJ"), ("FLOP", "Per FLOP", "pJ"))


@COMPARE.section(1, "runs", "All runs")
def all_runs(source: ComparedRuns) -> Content | None:
    """Return the energy, or work, of every run per token, parameter and FLOP, where there are more than two."""
    known = [
        (against.names[1], against.workloads[0], against.first_comparison.names())
        for against in source.others
        if against.workloads
    ]
    if not source.switch or not known:
        return None
    others = [(name, workload.sides[1], why) for name, workload, why in known]
    workloads = [(source.names[0], known[0][1].sides[0], ()), *others]
    basis = _basis(source)
    apart = len({workload.label for _, workload, _ in workloads}) > 1
    rows = [
        {
            "run": f"{name}, {workload.label.lower()}" if apart else name,
            "workload": workload.label,
            **per_work(workload.document, workload.tree.root, basis),
            "noisy": bool(why) or workload.quality == "invalid",
            "verdict": f"{differences.NOT_COMPARABLE}: other {fmt.listed(why)}" if why else "comparable",
        }
        for name, workload, why in workloads
    ]
    columns = [Column("run", "Run"), Column("workload", "Workload")]
    columns += [Column(key, title, unit) for key, title, unit in _WORK]
    lacking = [str(row["run"]) for row in rows if row["FLOP"] is None]
    notes = [f"Per FLOP: {reason('no-energy-per-flop').words} of {fmt.listed(lacking)}."] if lacking else []
    columns.append(Column("verdict", "With the baseline"))
    title = f"{energy_title(basis)} per token, parameter and FLOP"
    table = Table(columns, rows, title, notes)
    keys = [key for key, _, _ in _WORK if any(row[key] for row in rows)]
    views = [View(bars(table, "run", key, colour="run"), table, {"per": key}) for key in keys]
    caption = "As measured; whiskers: 95 % intervals. Hollow: not comparable with the baseline."
    units = [(key, f"per {key}") for key in keys]
    return Content({"units": units}, [Figure("runs-work", table.title, views, caption)])


def _basis(source: ComparedRuns) -> Basis:
    """Return what all runs can be shown by together: their work, where any two are compared by that."""
    bases = {against.first_comparison.basis for against in source.others}
    return DYNAMIC if DYNAMIC in bases else TOTAL


@COMPARE.section(2, "energy", "Energy")
def energy(source: ComparedRuns) -> Content | None:
    """Return the whole model and its blocks, and what share of the model each block takes."""
    tables, shares = {}, []
    for against in source.others:
        if not against.workloads and against.rows:
            tables[f"energy-{against.key}-0"] = ComparisonAnswer(against).whole()
        for place, workload in enumerate(against.workloads):
            items = [*workload.pair.whole, *workload.pair.normalised, *workload.blocks]
            rows = [differences.row(item) for item in items]
            rows += [
                differences.row(item, name=f"{capital(title_of(kind))}, share of work")
                for kind, item in workload.shares.items()
            ]
            tables[f"energy-{against.key}-{place}"] = differences.table(against, rows, "Whole model and blocks")
            if workload.blocks:
                table, when = _shares(against, place), {"other": against.key, against.dimension: str(place)}
                shares.append(View(bars(table, "part", "share", series="run"), table, when))
    what = energy_title(_basis(source)).lower()
    caption = f"Of each run's own measured {what}; nothing is scaled. Hollow: too noisy."
    figures = [Figure("energy-shares", "Shares of the model", shares, caption)]
    return Content({}, figures, tables) if tables else None


def _shares(against: Against, place: int) -> Table:
    workload = against.workloads[place]
    rows = list(_work_shares(against.names, workload)) if workload.shares else [
        {**row, "part": capital(title_of(row["kind"])), "run": name}
        for name, side in zip(against.names, workload.sides, strict=True)
        for row in blocks(side.tree, modelled=False).rows
    ]  # fmt: skip
    order = [row["part"] for row in rows]
    columns = [Column("part", "Block"), Column("run", "Run"), Column("share", "Share", "share"),
               Column("energy", energy_title(workload.basis), "mJ")]  # fmt: skip
    return Table(columns, sorted(rows, key=lambda row: order.index(row["part"])), "Shares of the model")


def _work_shares(names: tuple[str, str], workload: SameWorkload) -> Iterator[Row]:
    """Yield each block's work and its share of the model's, run after run, in the order of blocks."""
    for place, name in enumerate(names):
        for block in workload.blocks:
            item = workload.shares[str(block.kind)]
            share, work = (item.baseline, item.other)[place], (block.baseline, block.other)[place]
            if share is not None:
                part = capital(title_of(str(block.kind)))
                yield {"part": part, "kind": block.kind, "run": name, "share": share, "energy": work,
                       "noisy": item.invalid}  # fmt: skip


@COMPARE.section(3, "generation", "Generation")
def generation(source: ComparedRuns) -> Content | None:
    """Return the traced generations, and energy and time at every workload."""
    tables = {}
    for against in source.others:
        rows = [differences.row(item) for item in (against.generation.rows if against.generation else ())]
        if rows or len(against.shared_workloads) > 1:
            rows += [
                differences.row(
                    item,
                    name=f"{'Time' if item.name == LATENCY else energy_title(workload.basis)}, {workload.label}",
                )
                for workload in against.shared_workloads
                for item in workload.pair.whole
                if item.name in {LATENCY, *LEADS[workload.basis]}
            ]
            tables[f"generation-{against.key}"] = differences.table(against, rows, "Generation, by phase")
    return Content({}, [], tables) if tables else None


@COMPARE.section(4, "precisions", "Precisions")
def precisions(source: ComparedRuns) -> Content | None:
    """Return benchmarks of the same shape, and energy against quality over all runs."""
    measured = [against for against in source.others if against.cells]
    tables = {f"precisions-{against.key}": _cells(against) for against in measured}
    views = [
        view
        for against in measured
        if against.workloads
        for view in differences.ratios(_cells(against), {"other": against.key}, kinds=True)
    ]
    planes = [figure for metric in SCORES for figure in _plane(source, metric)]
    what = energy_title(measured[0].cells_basis if measured else TOTAL)
    ratios = Figure("precisions-ratio", f"{what} ratio by precision", views, "Hollow: not shown.")
    return Content({}, [ratios, *planes], tables) if tables or planes else None


def _cells(against: Against) -> Table:
    rows = precision_rows(against)
    for row in rows:
        items = {item.name: item for item in row["cell"].rows}
        row |= {key: items[name].relative for key, name in (("time", LATENCY), ("power", POWER)) if name in items}
        row["quality"] = next((items[name].change for name in SCORES if name in items), None)
        row["kernels"] = "other" if row["cell"].implementations else None
    more = [
        Column("time", "Time ratio", "ratio"),
        Column("power", "Power ratio", "ratio"),
        Column("quality", "Quality", "", "difference of accuracy or perplexity"),
        Column("kernels", "Kernels", "text", "whether the runs computed the precision by other ones"),
    ]
    alone = against.benchmark.alone if against.benchmark else ()
    shape = "In {run} alone: {precision}, {batch_size} x {sequence_length} tokens."
    notes = [shape.format(**{**cell, "precision": precision_name(cell["precision"])}) for cell in alone]
    table = differences.table(against, rows, f"{energy_title(against.cells_basis)} of one inference", "Precision")
    return Table([*table.columns, *more], rows, table.title, notes)


def _plane(source: ComparedRuns, metric: str) -> Iterator[Figure]:
    """Yield energy, or work, per token against a metric, with a line through what no other point beats in both."""
    rows = candidates(source, metric)
    if len({row["run"] for row in rows}) < 2:
        return
    what = energy_title(_basis(source))
    word = " (MODELLED)" if any(report.modelled for report in source.reports) else ""
    columns = [
        Column("run", "Run"),
        Column("at", "Precision"),
        Column("energy", f"{what} per token{word}", "mJ"),
        Column("score", metric.capitalize(), "share" if metric == "accuracy" else ""),
        Column("best", "Not beaten"),
    ]
    table = Table(columns, rows, f"{what} against {metric}")
    best = sorted((row for row in rows if row["best"]), key=lambda row: row["energy"].value)
    front = Table(columns, [{**row, "run": "not beaten", "dashed": True} for row in best if len(best) > 1])
    chart = plane(table, Axis("energy"), Axis("score"), series="run", name="at", lines=front)
    caption = "Dashed: no other one beats these in both, by their values. Hollow: not comparable."
    yield Figure.of(f"precisions-{metric}", table.title, chart, table, caption)


def candidates(source: ComparedRuns, metric: str) -> list[dict[str, Any]]:
    """Return all that has energy and a score on the baseline's evaluation data, and whether another beats it.

    Work takes the place of energy where runs are compared by that.
    """
    basis = _basis(source)
    obstacles = [(), *(against.first_comparison.names() for against in source.others)]
    data = [[evaluation_of(run.document).get(key) for key in ("source", "examples")] for run in source.runs]
    rows = [
        {**row, "run": name, "noisy": row["noisy"] or bool(why)}
        for name, report, why, own in zip(source.names, source.reports, obstacles, data, strict=True)
        if own == data[0]
        for row in list(_of_benchmark(report, metric, basis)) or list(_of_profile(report, metric, basis))
    ]
    sign = -1.0 if metric == "accuracy" else 1.0
    places = [(row["energy"].value, sign * row["score"].value) for row in rows]
    reliable = [place for place, row in zip(places, rows, strict=True) if not row["noisy"]]
    for place, row in zip(places, rows, strict=True):
        beaten = any(other[0] <= place[0] and other[1] <= place[1] and other != place for other in reliable)
        row["best"] = not beaten and not row["noisy"]
    return rows


def _of_benchmark(report: Report, metric: str, basis: Basis) -> Iterator[dict[str, Any]]:
    scores, column = predictions_of(report.benchmark), "dynamic_energy_mj" if basis == DYNAMIC else "energy_mj"
    for (precision, batch, length), cell in cells_of(report.benchmark).items():
        score = from_entry((scores.get((precision, metric)) or {}).get("value"))
        energy, tokens = not_negative(from_entry(cell.get(column))), batch * length
        if score and energy and tokens:
            per_token, noisy = energy.scaled(1 / tokens), cell.get("quality") == "invalid"
            yield {"at": precision_name(precision), "energy": per_token, "score": score, "noisy": noisy}


def _of_profile(report: Report, metric: str, basis: Basis) -> Iterator[dict[str, Any]]:
    score = interval((evaluation_of(report.document).get("baseline") or {}).get(metric))
    passes = (workload for workload in report.every_workload if workload.phase == PREFILL)
    known = ((workload, per_work(workload.document, workload.tree.root, basis)["token"]) for workload in passes)
    workload, energy = next(((workload, energy) for workload, energy in known if energy), (None, None))
    root = workload.tree.root if workload else None
    if score and root:
        name, noisy = precision_name(report.part("settings").get("precision")), MEASURES[basis].invalid(root)
        yield {"at": name, "energy": energy, "score": score, "noisy": noisy}


@COMPARE.section(5, "layers", "Layers")
def layers(source: ComparedRuns) -> Content | None:
    """Return layers by relative depth, of other models whose layers differ."""
    columns = [
        Column("run", "Run"),
        Column("depth", "Relative depth", "share"),
        Column("energy", f"{energy_title(_basis(source))} of a layer", "mJ"),
    ]
    views = []
    for against in source.others:
        for place, workload in enumerate(against.workloads):
            if workload.pair.depth and any(layer_range(side)["differ"] for side in workload.sides):
                measure = MEASURES[workload.basis]
                rows = [
                    {"run": name, "depth": (index + 0.5) / len(every), "energy": measure.total(nodes),
                     "noisy": mostly_invalid(nodes, measure)}
                    for name, side in zip(against.names, workload.sides, strict=True)
                    for every in [layers_of(side.tree, "layer")]
                    for index, nodes in enumerate(every)
                ]  # fmt: skip
                table = Table(columns, rows, f"{energy_title(workload.basis)} of a layer by relative depth")
                chart = curves(table, Axis("depth"), Axis("energy"), series="run")
                views.append(View(chart, table, {"other": against.key, against.dimension: str(place)}))
    title = f"{energy_title(_basis(source))} of a layer by relative depth"
    figure = Figure("layers-depth", title, views, "Band: 95 % intervals.")
    return Content({}, [figure]) if views else None


@COMPARE.section(6, "table", "All differences")
def every_difference(source: ComparedRuns) -> Content | None:
    """Return every component of every workload, the largest change first."""
    tables: dict[str, Table] = {}
    for against in source.others:
        rows = [
            differences.row(item, shares.get(item.name), name=item.name, of=item.kind, count=item.count,
                            origin=item.origin, workload=workload.label if len(against.workloads) > 1 else None)
            for workload in against.workloads
            for shares in [{share.name: share for share in workload.pair.shares}]
            for item in workload.pair.largest
        ]  # fmt: skip
        table = differences.table(against, rows, "Every component", "Component")
        name, *values = table.columns
        values.insert(3, differences.CHANGE)
        columns = [name, Column("of", "Kind"), Column("workload", "Workload"), *values,
                   Column("count", "Stands for", "count"), Column("origin", "Measured")]  # fmt: skip
        tables |= {f"all-{against.key}": Table(columns, rows, table.title)} if rows else {}
    return Content({}, [], tables) if tables else None


@COMPARE.section(7, "conditions", "Conditions")
def conditions(source: ComparedRuns) -> Content:
    """Return the conditions under which each run was made: those that differ, and those that are the same."""
    documents = dict(zip(source.names, (run.document for run in source.runs), strict=True))
    remarks = {
        against.names[1]: list(dict.fromkeys(remark for pair in against.every() for remark in pair.remarks))
        for against in source.others
    }
    return conditions_of(documents, NAMES, remarks, source.comparison.warnings)


def conditions_of(
    documents: Mapping[str, Document],
    fields: Mapping[str, str],
    remarks: Mapping[str, Sequence[Reason]],
    warnings: Sequence[Mapping[str, Any]],
) -> Content:
    """Return the named fields of runs' documents, by the runs' names: those that differ, and those that do not."""
    columns = [Column("name", "Condition"), *(Column(str(index), name) for index, name in enumerate(documents))]
    rows: dict[bool, list[Row]] = {True: [], False: []}
    for field, name in fields.items():
        values = [value_of(document, field) for document in documents.values()]
        if any(value not in (None, False, []) for value in values):
            cells = {str(index): _written(field, value) for index, value in enumerate(values)}
            rows[len(set(map(str, values))) > 1].append({"name": capital(name), **cells})
    tables = {
        "differ": Table(columns, rows[True], "What differs"),
        "same": Table(columns, rows[False], "What is the same"),
    }
    data = {"remarks": [item for item in remarks.items() if item[1]], "warnings": warnings}
    return Content(data, [], tables)


_WRITTEN: dict[str, Callable[[Any], str]] = {
    EXECUTION: execution_name,
    PRECISION: precision_name,
    "clocks": lambda value: fmt.quantity(value, "count"),
    "model.parameters": lambda value: fmt.quantity(value, "amount"),
}


def _written(field: str, value: Any) -> Any:
    """Write a value of a condition as the rest of the page does."""
    if isinstance(value, list):
        return fmt.listed(list(map(str, value)))
    return _WRITTEN[field](value) if field in _WRITTEN and value is not None else value


@COMPARE.section(8, "method", "Method")
def method(source: ComparedRuns) -> Content:
    """Return how runs are compared."""
    return Content({"modelled": any(report.modelled for report in source.reports)})
