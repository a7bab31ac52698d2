"""A whole generation: its phases, power over time, what each token takes, and whether the parts agree with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from energyscope.accounting.closure import AGREEMENT, too_wide
from energyscope.intervals import Interval, difference, finite, from_entry, ratio, total, total_of_same
from energyscope.reporting.charts.plane import Axis, curves, spans
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.charts.tree import strip
from energyscope.reporting.run import host
from energyscope.reporting.run.parts import share_of
from energyscope.reporting.run.power_trace import power_over_time
from energyscope.reporting.run.report import DECODE, PREFILL, RUN, MeasuredWorkload, Report
from energyscope.reporting.section import Content, Figure
from energyscope.reporting.table import Column, Row, Table
from energyscope.runs.tree import EAGER, sum_energy

LOAD = "load"
US_PER_S = 1e6
_GROUPS = {
    "attention.core": "attention core",
    "attention.cache": "KV cache",
    "attention.query": "projections",
    "attention.key": "projections",
    "attention.value": "projections",
    "attention.qkv": "projections",
    "attention.output": "projections",
    "experts": "mlp",
    "router": "mlp",
}


@RUN.section(2, "generation", "Generation", "--phase both", lambda report: report.writes)
def section(report: Report) -> Content | None:
    """Return phases, power, tokens and contexts; None where the run explains no generation."""
    growth = _growth(report)
    if report.run.generation is None and not growth:
        return None
    phases = phase_table(report)
    parts, power = _parts(report, phases), power_over_time(report.run.trace, report.generation)
    tokens = _tokens(report.generation)
    figures = []
    if len(parts.rows) > 1:
        caption = "Width: energy. Below a phase: the model's passes and generate's own loop."
        chart = strip(parts, "energy")
        figures.append(Figure.of("generation-phases", "Phases of one generation", chart, parts, caption))
    if power:
        chart = spans(power, "begin", "end", "power", series="phase")
        figures.append(Figure.of("generation-power", power.title, chart, power, "Mean power between readings."))
    if tokens:
        chart = curves(tokens, Axis("token"), Axis("energy", zero=True), series="of")
        caption = "Decode steps in groups; band: 95 % interval."
        figures.append(Figure.of("generation-tokens", tokens.title, chart, tokens, caption))
    if growth:
        chart = curves(growth, Axis("context", log=True), Axis("energy", zero=True), series="group")
        caption = "Energy of a step by what takes it."
        figures.append(Figure.of("generation-context", growth.title, chart, growth, caption))
    data = {"settings": report.generation.get("settings") or {}, "slope": _slope(report)}
    data["host"] = host.of_generation(report)
    return Content(data, figures, {"phases": phases})


def rates(report: Report) -> dict[str, Interval | None]:
    """Return the rates of the traced generation, in the units of generation.json."""
    return {name: from_entry(value) for name, value in (report.generation.get("rates") or {}).items()}


def phase_table(report: Report) -> Table:
    """Return the phases with their sum, in mJ and us; the load, which happens once, is in no sum."""
    columns = [
        Column("part", "Phase"),
        Column("energy", report.energy_title, "mJ"),
        Column("share", "Share", "share", "of a generation without the load", rank=1),
        Column("work", "Work", "mJ", "beyond idle power x time", rank=2),
        Column("idle", "Idle", "mJ", "idle power x time", rank=3),
        Column("time", "Time", "us"),
        Column("power", "Power", "W", rank=4),
        Column("tokens", "Tokens", "count", rank=5),
        Column("per_token", "Energy per token", "mJ", rank=1),
        Column(
            "method",
            "How",
            rank=6,
            hint="traced between two marks, repeated for a window, or by regression on ticks",
        ),
        Column("reason", "Why not", "reasons", rank=7),
    ]
    rows = [_phase(entry) for entry in report.generation.get("phases") or []]
    summed = [row for row in rows if row["kind"] != LOAD and row["energy"] is not None]
    if {PREFILL, DECODE} <= {row["kind"] for row in summed}:
        energy = total_of_same([row["energy"] for row in summed])
        for row in summed:
            row["share"] = share_of(Interval(row["energy"].value), Interval(energy.value))
        times = [row["time"] for row in summed if row["time"] is not None]
        rows.append(
            {
                "part": "generation",
                "kind": "model",
                "energy": energy,
                "share": Interval(1.0),
                "work": _sum(summed, "work"),
                "idle": _sum(summed, "idle"),
                "time": total_of_same(times) if len(times) == len(summed) else None,
            }
        )
    return Table(columns, rows, "Phases of one generation")


def _phase(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "part": str(entry.get("phase")),
        "kind": str(entry.get("phase")),
        "energy": from_entry(entry.get("energy_j"), 1e3),
        "work": _milli(entry.get("dynamic_j")),
        "idle": _milli(entry.get("static_j")),
        "time": from_entry(entry.get("seconds"), 1e6),
        "power": from_entry(entry.get("power_w")),
        "tokens": entry.get("tokens"),
        "per_token": from_entry(entry.get("joules_per_token"), 1e3),
        "method": entry.get("method"),
        "reason": entry.get("reason"),
    }


def _milli(joules: object) -> float | None:
    number = finite(joules)
    return None if number is None else number * 1e3


def _sum(rows: Sequence[Row], key: str) -> float | None:
    values = [row[key] for row in rows if row[key] is not None]
    return sum(values) if len(values) == len(rows) else None


def _parts(report: Report, phases: Table) -> Table:
    """Return the generation, its phases, and below them the model's passes, the loop and what is unexplained."""
    columns = [Column("part", "Part"), Column("energy", "Energy", "mJ"), Column("share", "Share", "share")]
    whole = next((row for row in phases.rows if row["part"] == "generation"), None)
    if whole is None:
        return Table(columns, [])
    rows: list[dict[str, Any]] = [{**whole, "depth": 0}]
    comparisons = {row["phase"]: row for row in _comparisons(report)}
    for row in phases.rows:
        if row is whole or row["kind"] == LOAD or row["energy"] is None:
            continue
        rows.append({**row, "depth": 1})
        parts = comparisons.get(row["kind"])
        if parts is not None:
            model, loop = (parts[name].scaled(parts["times"]) for name in ("model", "loop"))
            rest = difference(row["energy"], total([model, loop]))
            rows += [
                {
                    "part": part,
                    "kind": kind,
                    "energy": energy,
                    "share": share_of(energy, whole["energy"]),
                    "depth": 2,
                    "rest": kind == "unexplained",
                }
                for kind, part, energy in (
                    ("model", "model's passes", model),
                    ("loop", "generate's loop", loop),
                    ("unexplained", "unexplained", rest),
                )
            ]
    return Table(columns, rows, "A generation and its parts")


def _comparisons(report: Report) -> Iterator[dict[str, Any]]:
    """Yield for prefill and decode the model's own pass and the loop of one step, beside what was traced of it.

    Beside an encoder only the decode: a prefill of the trace is the encoder and a decoder's first token there, and
    no pass of a profile is that.

    Where the host sets the pace, most of an energy is idle power x time, and that pace drifts between two
    measurements; the work, beyond it, does not: ``work_ratio`` is parts / traced of the work alone.
    """
    document = report.generation
    settings, loop = document.get("settings") or {}, document.get("loop") or {}
    prompt, new = finite(settings.get("prompt_tokens")), finite(settings.get("new_tokens"))
    traced = {str(entry.get("phase")): entry for entry in document.get("phases") or []}
    per_step, per_call = (loop.get(name) or {} for name in ("per_token", "per_call"))
    if new is None:
        return
    prefill, decode = None, _step(document)
    if prompt is not None and not settings.get("beside_encoder"):
        prefill = _pass_at(report, PREFILL, prompt)
        decode = decode or _pass_at(report, DECODE, prompt + new // 2)
    for phase, times, model, loops in (
        (PREFILL, 1.0, prefill, [per_step, per_call]),
        (DECODE, new - 1, decode, [per_step]),
    ):
        row = _phase(traced.get(phase) or {"phase": phase})
        known = [energy for part in loops if (energy := from_entry(part.get("energy_mj"))) is not None]
        if model is not None and row["energy"] is not None and len(known) == len(loops) and times > 0:
            seconds = [from_entry(part.get("seconds")) for part in loops]
            yield {
                "phase": phase,
                "times": times,
                "model": model.energy,
                "loop": total(known),
                "traced": row["energy"].scaled(1 / times),
                "work_ratio": _work_ratio(model, total(known).value, seconds, row, times),
            }


class _Pass(NamedTuple):
    """The model's own pass or step: its energy, and its energy beyond idle power x time, mJ."""

    energy: Interval
    work: Interval | None


def _step(document: Mapping[str, Any]) -> _Pass | None:
    """Return the step that was measured in turn with the generations."""
    step = document.get("step") or {}
    energy = from_entry(step.get("energy_mj"))
    return None if energy is None else _Pass(energy, from_entry(step.get("dynamic_mj")))


def _pass_at(report: Report, phase: str, context: float) -> _Pass | None:
    """Return the model's pass of a phase at a context, eagerly, as `generate` runs it."""
    for workload in report.every_workload:
        if (workload.phase, workload.context, workload.execution) == (
            phase,
            int(context),
            EAGER,
        ) and workload.energy:
            return _Pass(workload.energy, workload.work)
    return None


def _work_ratio(
    model: _Pass, loop_mj: float, loop_times: Sequence[Interval | None], phase: Mapping[str, Any], times: float
) -> Interval | None:
    """Return parts / traced of the work; the trace's work is known as well as its power is."""
    idle, work, time, power = (phase[name] for name in ("idle", "work", "time", "power"))
    seconds = [part.value for part in loop_times if part is not None]
    if model.work is None or idle is None or work is None or not time or len(seconds) < len(loop_times):
        return None
    if power is None or not power.known or work <= 0:
        return None
    idle_mj_per_s = idle / (time.value / US_PER_S)
    loop_work = loop_mj - idle_mj_per_s * sum(seconds)
    parts = total([model.work, Interval(loop_work, loop_work, loop_work)])
    mj_per_w = time.value / US_PER_S * 1e3
    traced = Interval(work, work - power.below * mj_per_w, work + power.above * mj_per_w).scaled(1 / times)
    return ratio(parts, traced)


def agreements(report: Report) -> Table:
    """Return parts measured by themselves beside the traced phase: the model's pass plus the loop, of one step."""
    columns = [
        Column("part", "Phase"),
        Column("model", "Model's pass", "mJ"),
        Column("loop", "Loop of generate", "mJ"),
        Column("parts", "Together", "mJ"),
        Column("traced", "Traced", "mJ"),
        Column("ratio", "Parts / traced", "ratio"),
        Column(
            "work_ratio",
            "Of the work",
            "ratio",
            "parts / traced beyond idle power: the host's pace leaves it alone",
        ),
        Column("verdict", "Verdict", hint="agrees within 7 %, of the work where that is known"),
    ]
    rows = []
    for row in _comparisons(report):
        parts, work = total([row["model"], row["loop"]]), row["work_ratio"]
        energy = ratio(parts, row["traced"])
        verdict = _verdict(work if work and work.known else energy)
        names = {"part": row["phase"], "kind": row["phase"]}
        rows.append({**names, **row, "parts": parts, "ratio": energy, "verdict": verdict})
    return Table(columns, rows, "Parts against the traced generation, of one step")


def _verdict(parts_by_traced: Interval | None) -> str:
    if parts_by_traced is None or not parts_by_traced.known:
        return "unclear"
    if abs(parts_by_traced.value - 1) <= AGREEMENT:
        return "unclear" if too_wide(parts_by_traced.low, parts_by_traced.high) else "agrees"
    return "differs" if parts_by_traced.excludes(1.0) else "unclear"


def _tokens(document: Mapping[str, Any]) -> Table:
    columns = [
        Column("steps", "Tokens"),
        Column("energy", "Energy of a step", "mJ"),
        Column("time", "Time of a step", "us"),
        Column("power", "Power", "W"),
        Column("token", "Generated token", "count"),
    ]
    rows = []
    for entry in document.get("steps") or []:
        energy, first, last = (
            from_entry(entry.get("energy_mj")),
            finite(entry.get("first")),
            finite(entry.get("last")),
        )
        if energy is not None and first is not None and last is not None:
            rows.append(
                {
                    "steps": f"{first + 1:.0f} to {last + 1:.0f}",
                    "token": (first + last) / 2 + 1,
                    "energy": energy,
                    "time": from_entry(entry.get("seconds"), 1e6),
                    "power": from_entry(entry.get("power_w")),
                    "of": DECODE,
                    "kind": DECODE,
                }
            )
    return Table(columns, rows, "Energy of each token")


def _growth(report: Report) -> Table:
    """Return a decode step's energy by group of components at each context; empty with fewer than two contexts."""
    columns = [
        Column("context", "Tokens in the cache", "count"),
        Column("group", "Group"),
        Column("energy", "Energy of a step", "mJ"),
    ]
    rows = []
    for workload in _contexts(report):
        by_group: dict[str, list[Any]] = {}
        for node in workload.tree.leaves:
            by_group.setdefault(_GROUPS.get(node.kind, node.kind.partition(".")[0]), []).append(node)
        energies = {name: energy for name, nodes in by_group.items() if (energy := sum_energy(nodes))}
        largest = sorted(energies, key=lambda name: -energies[name].value)[:5]
        rows += [
            {"context": workload.context, "group": title_of(name), "energy": energies[name], "kind": name}
            for name in largest
        ]
        whole = {"context": workload.context, "energy": workload.energy}
        rows.append({**whole, "group": "whole step", "kind": "model"})
    return Table(columns, rows, "A decode step as the context grows")


def _contexts(report: Report) -> list[MeasuredWorkload]:
    """Return the decode steps at several contexts in the main execution, the shortest first; else none."""
    steps = [workload for workload in report.workloads if workload.phase == DECODE and workload.context]
    steps = [workload for workload in steps if report.main and workload.execution == report.main.execution]
    several = len({workload.context for workload in steps}) > 1
    return sorted(steps, key=lambda workload: workload.context or 0) if several else []


def _slope(report: Report) -> dict[str, Any] | None:
    """Return what each further 1,000 tokens of context add to a step, between the shortest and the longest."""
    steps = [workload for workload in _contexts(report) if workload.energy]
    if len(steps) < 2 or steps[0].energy is None or steps[-1].energy is None:
        return None
    added = difference(steps[-1].energy, steps[0].energy)
    span = (steps[-1].context or 0) - (steps[0].context or 0)
    return {
        "per_thousand": added.scaled(1000 / span),
        "shown": added.excludes(0.0),
        "low": steps[0].context,
        "high": steps[-1].context,
    }
