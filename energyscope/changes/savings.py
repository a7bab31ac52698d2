"""What would change a run's energy, and by how much: everything that the run measured beside its own setting.

A change is the ratio of its energy to that of the run's own setting, of the same work. It saves or costs energy
where the 95 % interval of that ratio excludes 1; else it is unclear. Pure functions over a run's files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.grouping import group_by
from energyscope.intervals import Interval, finite, from_entry, interval, ratio
from energyscope.metering.grades import INVALID, QUALITIES
from energyscope.reasons import read, split
from energyscope.runs.method import execution_of
from energyscope.runs.phases import PhaseName
from energyscope.runs.store import Run

Verdict = Literal["saves", "costs", "unclear"]
Row = Mapping[str, Any]

NEGLIGIBLE = 0.005  # loss of accuracy, or relative rise of perplexity, that nobody would notice
FEWEST_WINDOWS = 3  # of an alternative from which something may be concluded
PLAN, LINEARS = "plan", "linears"  # of a plan: itself, and one precision for all of them
WORKLOAD = frozenset({"batch_size"})  # changes of the model's input, which not everybody can make
_DISTURBANCES = frozenset({  # reasons of a row that its interval may not show
    "busy-without-us", "memory-grew", "other-clocks", "other-process", "power-limit-changed", "slowed-by-heat",
})  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One thing that was changed (``what``, to ``value``) and its effect on one phase.

    ``energy`` and ``time`` are ratios to the run's own setting, of the same work (a token, an inference) and of a
    step or pass; ``quality`` is the difference of the ``metric``, ``degrades`` whether that is a loss (None:
    unclear or not measured). ``grade`` is the worse of both energies, ``modelled``: joules are time x watts,
    ``disturbed``: a guard was raised or there are too few windows, so nothing follows. ``precisions`` are those
    that a plan changes linears to.
    """

    what: str
    value: str
    phase: str
    energy: Interval
    time: Interval | None
    grade: str
    modelled: bool
    metric: str | None = None
    quality: Interval | None = None
    degrades: bool | None = None
    setup_s: float | None = None
    disturbed: bool = False
    precisions: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Whether it saves or costs energy, or that is unclear."""
        if self.disturbed or not self.energy.excludes(1.0):
            return "unclear"
        return "saves" if self.energy.value < 1 else "costs"

    @property
    def saved(self) -> Interval:
        """The share of the energy that it saves; negative where it costs more."""
        low, high = (None if limit is None else 1 - limit for limit in (self.energy.high, self.energy.low))
        return Interval(1 - self.energy.value, low, high)

    @property
    def recommended(self) -> bool:
        """Whether it saves measured joules at no loss of quality."""
        return self.verdict == "saves" and not self.modelled and not self.degrades


def changes(run: Run) -> list[Change]:
    """Return every change that a run measured, the largest saving first, what is unclear last."""
    measured = [*_alternatives(run, run.alternatives or {}), *_executions(run), *_precisions(run), *_plan(run)]
    return sorted(measured, key=lambda change: (change.verdict == "unclear", change.energy.value))


def best(changes: Sequence[Change], phase: str | None = None) -> Change | None:
    """Return the recommended change that saves most without changing the workload; else the best of those."""
    recommended = [change for change in changes if change.recommended and phase in {None, change.phase}]
    same_workload = [change for change in recommended if change.what not in WORKLOAD]
    return next(iter(same_workload or recommended), None)


def winner(run: Run) -> Change | None:
    """Return the precision that saves most energy against the benchmark's baseline, at no loss of quality."""
    precisions = _precisions(run, against_baseline=True)
    saving = [change for change in precisions if change.verdict == "saves" and not change.degrades]
    return min(saving, key=lambda change: change.energy.value, default=None)


@dataclass(frozen=True)
class Lever:
    """What a change does once a plan is applied, and what it does without one (None: not measured in this run)."""

    change: Change
    alone: Change | None

    @property
    def dropped(self) -> bool:
        """Whether it saves energy alone and is not shown to with the plan."""
        return self.alone is not None and self.alone.verdict == "saves" and self.change.verdict != "saves"


def levers(run: Run) -> list[Lever]:
    """Return what was measured with the plan of the first workload applied, the largest saving first."""
    workloads: list[Row] = (run.plan or {}).get("workloads") or []
    document: Row = (workloads[0].get("levers") if workloads else None) or {}
    without: Row = run.alternatives or {}
    same = without.get("base") == document.get("base")
    alone = {_key(change): change for change in _alternatives(run, without)} if same else {}
    measured = sorted(
        _alternatives(run, document), key=lambda change: (change.verdict == "unclear", change.energy.value)
    )
    return [Lever(change, alone.get(_key(change))) for change in measured]


def _key(change: Change) -> tuple[str, str, str]:
    return change.phase, change.what, change.value


def _alternatives(run: Run, document: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the alternatives of each phase, but other contexts, which are other work."""
    rows = [row for row in document.get("rows") or [] if isinstance(row, Mapping)]
    bases = {row.get("phase"): row for row in rows if row.get("what") == "base"}
    for row in rows:
        base, energy = bases.get(row.get("phase")), from_entry(row.get("ratio"))
        if base is None or row is base or energy is None or row.get("what") == "context_length":
            continue
        yield Change(
            what=str(row.get("what")),
            value=str(row.get("value")),
            phase=str(row.get("phase")),
            energy=energy,
            time=_time(row, base),
            grade=_worse(row.get("quality"), base.get("quality")),
            modelled=bool(document.get("modelled", run.modelled)),
            setup_s=finite(row.get("setup_s")),
            disturbed=any(_disturbed(setting, setting.get("guards", True)) for setting in (row, base)),
        )


def _time(row: Row, base: Row) -> Interval | None:
    """Return the ratio of a step's time; of a token's, where a step makes several of one sequence."""
    if row.get("acceptance"):
        return _ratio(from_entry(base.get("tokens_per_s")), from_entry(row.get("tokens_per_s")))
    return _ratio(from_entry(row.get("time_us")), from_entry(base.get("time_us")))


def _disturbed(row: Row, guards: object) -> bool:
    """Return whether a row is below grade C for more than the scatter of its windows or trials."""
    if row.get("quality") != INVALID:
        return False
    count = finite(row.get("windows", row.get("trials"))) or 0
    return bool(guards) or count < FEWEST_WINDOWS


def guards_of(row: Row) -> set[str]:
    """Return the disturbances among the reasons of a row that does not list its guards."""
    reasons = split(row.get("reasons"))
    causes = [read(reason.values["what"]) if reason.code == "on-device" else reason for reason in reasons]
    return {cause.code for cause in causes if cause.code and cause.code in _DISTURBANCES}


def _executions(run: Run) -> Iterator[Change]:
    """Yield the further execution of each phase and context that was measured in two."""
    models: dict[tuple[str, int | None], dict[str, Row]] = {}
    for entry in run.scenes:
        table = run.scene(str(entry["name"])).energy
        model = None if table is None else table[table["level"] == "model"]
        if model is not None and not model.empty:
            step = PhaseName.of(str(entry["name"]))
            execution = str(entry.get("execution") or execution_of(run.document))
            columns = {str(key): value for key, value in model.iloc[0].items()}
            models.setdefault((step.phase, step.context), {})[execution] = columns
    alternatives = (run.alternatives or {}).get("rows") or []
    measured = {(str(row.get("phase")), str(row.get("value"))) for row in alternatives}
    for (phase, _), rows in models.items():
        (_, base), *others = rows.items()
        for execution, row in others:
            energy = _ratio(_energy(row), _energy(base))
            if energy is None or (phase, execution) in measured:
                continue
            yield Change(
                what="execution",
                value=execution,
                phase=phase,
                energy=energy,
                time=_ratio(interval(row.get("time_us")), interval(base.get("time_us"))),
                grade=_worse(row.get("quality"), base.get("quality")),
                modelled=run.modelled,
                disturbed=any(_disturbed(model, guards_of(model)) for model in (row, base)),
            )


def _precisions(run: Run, *, against_baseline: bool = False) -> Iterator[Change]:
    """Yield the benchmark's other precisions at its first batch size and length, against the run's own."""
    document = run.benchmark or {}
    shapes = group_by(
        document.get("cells") or [], lambda cell: (cell.get("batch_size"), cell.get("sequence_length"))
    )
    cells = {str(cell.get("precision")): cell for cell in next(iter(shapes.values()), [])}
    baseline = document.get("baseline")
    requested = (run.document.get("settings") or {}).get("precision")
    own = (run.document.get("model") or {}).get("precision") or requested
    base = cells.get(str(baseline if against_baseline else own)) or cells.get(str(baseline))
    if base is None:
        return
    paired = base.get("precision") == baseline
    predictions = {str(entry.get("precision")): entry for entry in document.get("predictions") or []}
    for name, cell in cells.items():
        energies = from_entry(cell.get("energy_mj")), from_entry(base.get("energy_mj"))
        latencies = from_entry(cell.get("latency_s")), from_entry(base.get("latency_s"))
        energy = from_entry(cell.get("energy_ratio")) if paired else _ratio(*energies)
        if cell is base or energy is None:
            continue
        prediction = predictions.get(name) or {}
        quality = from_entry(prediction.get("difference")) if paired else None
        metric = prediction.get("metric")
        yield Change(
            what="precision",
            value=name,
            phase="prefill",
            energy=energy,
            time=_inverse(from_entry(cell.get("speedup"))) if paired else _ratio(*latencies),
            grade=_worse(cell.get("quality"), base.get("quality")),
            modelled=run.modelled,
            metric=metric,
            quality=quality,
            degrades=_degrades(metric, quality, from_entry(prediction.get("value"))),
            disturbed=any(_disturbed(compared, guards_of(compared)) for compared in (cell, base)),
        )


def _plan(run: Run) -> Iterator[Change]:
    """Yield what may be advised of a plan's choices, each as it was applied against the model as it is."""
    document = run.plan or {}
    batch = finite((run.document.get("settings") or {}).get("batch_size")) or 1
    first: dict[str, Any] = {}  # of each phase, at the run's own batch: others are other work
    for workload in document.get("workloads") or []:
        if workload["batch_size"] == batch:
            first.setdefault(str(workload["phase"]), workload)
    pairs = [
        (phase, choice)
        for phase, workload in first.items()
        for choice in workload["choices"]
        if not choice.get("comparison") or choice["name"] == workload["adopted"]
    ]
    for phase, choice in pairs:
        measured, held_out = choice.get("measured") or {}, choice.get("held_out") or {}
        energy = from_entry(measured.get("energy"))
        if energy is None:
            continue
        baseline, value = finite(held_out.get("baseline")), finite(held_out.get("value"))
        holds = held_out.get("holds")
        yield Change(
            what=PLAN if choice["name"] == PLAN else LINEARS,
            value=str(choice["name"]),
            phase=phase,
            energy=energy,
            time=from_entry(measured.get("time")),
            grade=_worse(choice.get("quality")),
            modelled=bool(document.get("modelled")),
            metric=str((document.get("budget") or {}).get("metric")),
            quality=None if baseline is None or value is None else Interval(value - baseline),
            degrades=None if holds is None else not holds,
            precisions=tuple(name for name in choice["groups"] if name != document["precisions"][0]),
        )


def _inverse(item: Interval | None) -> Interval | None:
    if item is None or not item.value:
        return None
    high, low = (1 / end if end else None for end in (item.low, item.high))
    return Interval(1 / item.value, low, high)


def _ratio(first: Interval | None, second: Interval | None) -> Interval | None:
    return None if first is None or second is None else ratio(first, second)


def _degrades(metric: object, difference: Interval | None, value: Interval | None) -> bool | None:
    """Return whether a difference is a loss of more than `NEGLIGIBLE`; None where that is unclear."""
    if difference is None or value is None or difference.low is None or difference.high is None:
        return None
    sign, scale = (-1.0, 1.0) if metric == "accuracy" else (1.0, value.value - difference.value)
    least, most = sorted((sign * difference.low / scale, sign * difference.high / scale))
    return True if least > NEGLIGIBLE else False if most <= NEGLIGIBLE else None


def _energy(row: Row) -> Interval | None:
    return interval(row.get("energy_mj"), row.get("energy_ci_low_mj"), row.get("energy_ci_high_mj"))


def _worse(*grades: object) -> str:
    return max((str(grade) if grade in QUALITIES else INVALID for grade in grades), key=QUALITIES.index)
