"""Can these numbers be trusted: do the parts add up, does replay agree with the model, drift, and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from energyscope import format as fmt
from energyscope.accounting.checks import AGREES, CHEAPER, COSTLIER, Checks, KindCheck
from energyscope.accounting.closure import CLOSED, OVER, UNCERTAIN, UNDER, state, too_wide
from energyscope.grouping import group_by
from energyscope.intervals import Interval, finite, interval
from energyscope.metering.grades import GRADES
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.run.generation import agreements
from energyscope.reporting.run.parts import NOISY, costliest
from energyscope.reporting.run.report import RUN, MeasuredWorkload, Report, grades
from energyscope.reporting.run.subject import subject_of
from energyscope.reporting.section import Content
from energyscope.reporting.table import Column, Table
from energyscope.runs.tree import Node, sum_column, sum_energy

Level = Literal["yes", "mostly", "partly", "no"]
WELL, ILL, UNKNOWN = "\u2713", "!", "?"
_MARKS = {CLOSED: WELL, UNDER: ILL, OVER: ILL}


@dataclass(frozen=True)
class Trust:
    """A verdict in one word, and the facts behind it.

    ``total`` is the relative half-width of the whole model's energy, or ``of_work`` alone (`EnergyTree.by_work`),
    ``checks`` what leaves and overhead add up to, ``judged`` the costliest blocks by what the model without them
    says of their share (``agrees``, ``disagrees``, ``unclear``, ``unknown``: not measured), ``noisy`` the share of
    measured values that are too noisy. ``detailed``: components were measured, and not the model alone.
    """

    level: Level
    modelled: bool
    watts: float | None
    total: float | None
    detailed: bool
    checks: Checks
    in_model: bool
    judged: Mapping[str, list[str]]
    noisy: float
    drifted: float | None
    of_work: bool


def trust(report: Report) -> Trust | None:
    """Judge the run by its costliest workload; None where nothing was profiled."""
    workload = report.main
    if workload is None:
        return None
    total, checks = fmt.relative(workload.judged), workload.checks
    judged = {} if workload.in_model else _judged(report, workload)
    counts = grades(workload.tree)
    noisy = counts["invalid"] / max(sum(counts.values()), 1)
    drift = workload.document.get("drift") or {}
    drifted = finite(drift.get("change")) if drift.get("significant") else None
    level: Level = "yes"
    confirmed = checks.state == CLOSED and set(judged) <= {AGREES}
    if total is None or total > GRADES["B"] or not confirmed or drifted or noisy > 0.25:
        level = "mostly"
    if total is None or total > NOISY or checks.add_up_wrongly or "disagrees" in judged or noisy > 0.5:
        level = "partly"
    return Trust(
        level="no" if report.modelled else level,
        modelled=report.modelled,
        watts=report.watts,
        total=total,
        detailed=workload.detailed,
        checks=checks,
        in_model=workload.in_model,
        judged=judged,
        noisy=noisy,
        drifted=drifted,
        of_work=workload.tree.by_work,
    )


def _judged(report: Report, workload: MeasuredWorkload) -> dict[str, list[str]]:
    """Return the costliest blocks, which the answer names, by what the model without them says."""
    subject = subject_of(report)
    kinds, _ = costliest(workload.tree, work=subject is not None and subject.splits)

    def verdict(kind: str) -> str:
        check = workload.checks.kinds.get(kind)
        return "unknown" if check is None else "disagrees" if check.disagrees else check.verdict

    return {name: [title_of(kind) for kind in group] for name, group in group_by(kinds, verdict).items()}


@RUN.section(7, "trust", "Trust")
def section(report: Report) -> Content | None:
    """Return the matrix of workloads and checks, and the tables behind it."""
    if not report.workloads:
        return None
    matrix = [
        {
            "workload": workload.label,
            "adds_up": by_construction or _marked(*(adds_up_of(workload) or (None, None))),
            "leaves": by_construction or _marked(workload.checks.leaves, workload.checks.state),
            "replay": _replay(workload),
            "drift": _drift(workload.document.get("drift") or {}),
            "noise": _noise(workload),
        }
        for workload in report.workloads
        for by_construction in ("by construction" if workload.in_model else None,)
    ]
    columns = [
        Column("workload", "Workload"),
        Column("leaves", "Leaves add up to", hint="smallest components and all overhead, of the measured model"),
        Column("adds_up", "Parts add up to", hint="layers, other parts and overhead, of its energy", rank=1),
        Column(
            "replay", "Replay", hint="whether kinds take in replay what the model saves without them, within 7 %"
        ),
        Column("drift", "Drift", hint="change of the whole model's energy over the run"),
        Column(
            "noise",
            "Noise",
            hint="95 % half-width of the whole model (eager: its work), and values known to no better than 10 %",
        ),
    ]
    tables = {"trust": Table(columns, matrix, "Checks")}
    for workload in report.workloads:
        tables[f"adds-up-{workload.name}"] = _levels(workload)
        tables[f"replay-{workload.name}"] = _kinds(workload)
        tables[f"passes-{workload.name}"] = _passes(workload)
        tables[f"methods-{workload.name}"] = _methods(workload, report)
    tables |= {"agreement": agreements(report), "devices": _devices(report)}
    warnings = report.document.get("warnings") or []
    return Content({"trust": trust(report), "workloads": report.workloads, "warnings": warnings}, tables=tables)


def adds_up_of(workload: MeasuredWorkload, level: str = "model") -> tuple[Interval, str] | None:
    """Return what the parts of a level add up to, as a share of it, and the state of that."""
    entry = (workload.document.get("closure") or {}).get(level)
    if not isinstance(entry, Mapping):
        return None
    if (share := _interval(entry, str(entry.get("decides") or "energy"))) is None:
        return None
    verdict = str(entry.get("state") or state(entry, workload.execution))
    return share, UNCERTAIN if verdict == CLOSED and too_wide(share.low, share.high) else verdict


def _marked(share: Interval | None, verdict: str | None) -> str:
    return fmt.UNKNOWN if share is None else f"{_MARKS.get(str(verdict), UNKNOWN)} {fmt.measured(share, 'share')}"


def _interval(entry: Mapping[str, Any], name: str) -> Interval | None:
    return interval(entry.get(name), entry.get(f"{name}_low"), entry.get(f"{name}_high"))


def _levels(workload: MeasuredWorkload) -> Table:
    columns = [
        Column("level", "Level"),
        Column("energy", "Energy", "share"),
        Column("time", "Time", "share", rank=1),
        Column("dynamic", "Work", "share", rank=2),
        Column("static", "Idle", "share", rank=3),
        Column(
            "state", "Verdict", hint="of leaves run eagerly: by work, since their idle time is not the model's"
        ),
    ]
    words = {CLOSED: "adds up", UNDER: "too little", OVER: "too much", UNCERTAIN: "unclear"}
    rows = []
    for level, entry in (workload.document.get("closure") or {}).items():
        adds_up = adds_up_of(workload, level)
        if adds_up is not None:
            shares = {name: _interval(entry, name) for name in ("energy", "time", "dynamic", "static")}
            rows.append({"level": title_of(level), **shares, "state": words.get(adds_up[1], adds_up[1])})
    return Table(columns, rows, "What the parts of each level add up to")


def _replayed(workload: MeasuredWorkload) -> list[dict[str, Any]]:
    """Return each kind's replayed energy beside what the model saves without it, the largest first."""
    rows: list[dict[str, Any]] = []
    for kind, entry in (workload.document.get("differential") or {}).items():
        saved = interval(entry.get("energy_mj"), entry.get("low"), entry.get("high"))
        if saved is None:
            continue
        check = workload.checks.kinds.get(kind) or KindCheck(None, None)
        rows.append(
            {
                "kind": kind,
                "part": title_of(kind),
                "saved": saved,
                "replayed": finite(entry.get("replayed_mj")),
                "saved_share": check.saved,
                "replayed_share": check.replayed,
                "verdict": check.verdict,
                "grade": entry.get("quality"),
                "reasons": entry.get("reasons"),
            }
        )
    return sorted(rows, key=lambda row: -row["saved"].value)


def _replay(workload: MeasuredWorkload) -> str:
    verdicts = [row["verdict"] for row in _replayed(workload)]
    agree = verdicts.count(AGREES)
    apart = verdicts.count(COSTLIER) + verdicts.count(CHEAPER)
    if not verdicts:
        return fmt.UNKNOWN
    if not agree and not apart:
        return f"{UNKNOWN} unclear for {fmt.count(len(verdicts), 'kind')}"
    return f"{WELL if agree >= apart else ILL} agrees for {agree} of {fmt.count(agree + apart, 'kind')}"


def _kinds(workload: MeasuredWorkload) -> Table:
    of = f"of the model's {workload.checks.name}"
    columns = [
        Column("part", "Kind"),
        Column("saved", "In the model", "mJ", "what the model saves without the kind", rank=1),
        Column("replayed", "In replay", "mJ", rank=1),
        Column("saved_share", "Share in the model", "share", of),
        Column("replayed_share", "Share in replay", "share", of),
        Column("verdict", "Verdict", hint="differs: intervals of the shares are apart by more than 7 %"),
        Column("grade", "Grade", "grade", "of what the model saves"),
        Column("reasons", "Reasons", "reasons", rank=2),
    ]
    return Table(columns, _replayed(workload), "Replay against the model, by kind")


def _drift(entry: Mapping[str, Any]) -> str:
    change = interval(entry.get("change"), entry.get("low"), entry.get("high"))
    if change is None:
        return fmt.UNKNOWN
    half = (change.high - change.low) / 2 if change.low is not None and change.high is not None else 0.0
    mark = ILL if entry.get("significant") else UNKNOWN if half > NOISY else WELL
    return f"{mark} {fmt.measured(change, 'change')}"


def _passes(workload: MeasuredWorkload) -> Table:
    columns = [
        Column("index", "Pass", "count"),
        Column("idle_w", "Idle power", "W"),
        Column("anchor_mj", "Whole model", "mJ"),
        Column("clock_mhz", "Clock", "MHz"),
        Column("temperature_c", "Temperature", "\u00b0C"),
    ]
    rows = [item for item in workload.document.get("passes") or [] if isinstance(item, Mapping)]
    return Table(columns, rows, "Passes over the components, the whole model before each")


def _noise(workload: MeasuredWorkload) -> str:
    half, counts = fmt.relative(workload.judged), grades(workload.tree)
    noisy, total = counts["invalid"], sum(counts.values())
    mark = UNKNOWN if half is None else WELL if half <= GRADES["B"] and noisy <= total / 4 else ILL
    whole = "" if half is None else f"{fmt.noise(workload.judged)}; "
    return f"{mark} {whole}{noisy} of {fmt.count(total, 'value')} too noisy"


def _methods(workload: MeasuredWorkload, report: Report) -> Table:
    """Return what attribution by time, and the counter's plain difference, would have said of each kind."""
    columns = [
        Column("part", "Kind"),
        Column("energy", "Measured", "mJ"),
        Column("proportional_mj", "By time", "mJ", "the model's energy shared by time"),
        Column("naive_mj", "Plain difference", "mJ", "the counter read at start and end"),
    ]
    if report.modelled or report.triggered:
        return Table(columns, [])
    rows: list[dict[str, Any]] = []
    for kind in dict.fromkeys(node.kind for node in workload.tree.leaves):
        nodes = [node for node in workload.tree.leaves if node.kind == kind and node.energy is not None]
        sums = {name: sum_column(nodes, name) for name in ("proportional_mj", "naive_mj")}
        if nodes and any(value is not None for value in sums.values()):
            rows.append({"part": title_of(kind), "kind": kind, "energy": sum_energy(nodes), **sums})
    rows.sort(key=lambda row: -row["energy"].value if row["energy"] else 0.0)
    return Table(columns, rows, "What simpler methods would have said")


def _devices(report: Report) -> Table:
    """Return the energy on each of several devices, of the costliest workload."""
    names = [str(device.get("device")) for device in report.part("sensor").get("devices") or []]
    workload = report.main
    if len(names) < 2 or workload is None or workload.tree.root is None:
        return Table([], [])
    places = [str(device.get("place")) for device in report.part("device").get("spread") or []]
    leaves = [node for node in workload.tree.leaves if node.energy is not None]
    rows = []
    for number, name in enumerate(names):
        place = places[number] if len(places) == len(names) else None
        elsewhere = [node for node in leaves if place and place not in str(node.row.get("device")).split("+")]
        energy, waiting = (_sum_on(nodes, number) for nodes in ([workload.tree.root], elsewhere))
        rows.append({"device": name, "place": place, "energy": energy, "waiting": waiting})
    columns = [
        Column("device", "Device", "code"),
        Column("place", "Place", "code"),
        Column("energy", "Energy", "mJ"),
        Column("waiting", "While others work", "mJ", "energy while components of other devices ran"),
    ]
    return Table(columns, rows, f"Energy by device: {workload.label}")


def _sum_on(nodes: Sequence[Node], device: int) -> float | None:
    """Add up what nodes take on one device; None where one of them does not say, since a part is no sum."""
    energies = [str(node.row.get("devices_mj") or "").split(";") for node in nodes]
    known = [value for by in energies if device < len(by) and (value := finite(by[device])) is not None]
    return sum(known) if nodes and len(known) == len(nodes) else None
