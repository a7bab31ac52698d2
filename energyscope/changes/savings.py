"""What would change a run's energy, and by how much: everything that the run measured beside its own setting.

A change is told by the ratio of its energy to that of the run's own setting, of the same work. It saves or costs
where the 95 % interval of that ratio excludes 1; else it is unclear. Pure functions over what a run holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from energyscope.intervals import Interval, finite, given, interval, ratio
from energyscope.metering.grades import INVALID, QUALITIES
from energyscope.reasons import read, split
from energyscope.runs.method import execution_of
from energyscope.runs.moments import Moment
from energyscope.runs.store import Run

Verdict = Literal["saves", "costs", "unclear"]
Row = Mapping[str, Any]

NEGLIGIBLE = 0.005  # loss of accuracy, or relative rise of perplexity, that nobody would notice
FEWEST_WINDOWS = 3  # of an alternative that something may be concluded from
WORKLOAD = frozenset({"batch_size"})  # changes of what the model is given, which not everybody can make
_DISTURBANCES = frozenset({  # among the reasons of a row: what its interval need not show
    "busy-without-us", "memory-grew", "other-clocks", "other-process", "power-limit-changed", "slowed-by-heat",
})  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One thing that was changed (``what``, to ``value``) and what it does to one phase.

    ``energy`` and ``time`` are ratios to the run's own setting, of the same work (a token, an inference) and of a
    step or pass; ``quality`` is the difference of the ``metric``, ``degrades`` whether that is a loss (None:
    unclear or not measured). ``grade`` is the worse of both energies, ``modelled``: joules are time x watts,
    ``disturbed``: a guard was raised or there are too few windows, so nothing follows.
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

    @property
    def verdict(self) -> Verdict:
        """Whether it saves or costs energy, or that is unclear."""
        if self.disturbed or not self.energy.excludes(1.0):
            return "unclear"
        return "saves" if self.energy.value < 1 else "costs"

    @property
    def saved(self) -> Interval:
        """The share of the energy that it saves; negative where it costs more."""
        item = self.energy
        return Interval(
            1 - item.value,
            None if item.high is None else 1 - item.high,
            None if item.low is None else 1 - item.low,
        )

    @property
    def recommended(self) -> bool:
        """Whether measurements support it: it saves measured joules, at no loss of quality."""
        return self.verdict == "saves" and not self.modelled and not self.degrades


def changes(run: Run) -> list[Change]:
    """Return every change that a run measured, the largest saving first, what is unclear last."""
    measured = [*_alternatives(run), *_executions(run), *_precisions(run)]
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


def _alternatives(run: Run) -> Iterator[Change]:
    """Yield the alternatives of each phase, but other contexts, which are other work."""
    document = run.alternatives or {}
    rows = [row for row in document.get("rows") or [] if isinstance(row, Mapping)]
    bases = {row.get("phase"): row for row in rows if row.get("what") == "base"}
    for row in rows:
        base, energy = bases.get(row.get("phase")), given(row.get("ratio"))
        if base is None or row is base or energy is None or row.get("what") == "context_length":
            continue
        times = [given(setting.get("time_us")) for setting in (row, base)]
        yield Change(
            what=str(row.get("what")),
            value=str(row.get("value")),
            phase=str(row.get("phase")),
            energy=energy,
            time=ratio(times[0], times[1]) if times[0] and times[1] else None,
            grade=_worse(row.get("quality"), base.get("quality")),
            modelled=bool(document.get("modelled", run.modelled)),
            setup_s=finite(row.get("setup_s")),
            disturbed=any(_disturbed(setting, setting.get("guards", True)) for setting in (row, base)),
        )


def _disturbed(row: Row, guards: object) -> bool:
    """Tell whether a row is below grade C for more than the scatter of its windows or trials."""
    if row.get("quality") != INVALID:
        return False
    count = finite(row.get("windows", row.get("trials"))) or 0
    return bool(guards) or count < FEWEST_WINDOWS


def _guards(row: Row) -> set[str | None]:
    """Return the disturbances among the reasons of a row that does not list its guards."""
    reasons = split(row.get("reasons"))
    causes = [read(reason.values["what"]) if reason.code == "on-device" else reason for reason in reasons]
    return {cause.code for cause in causes if cause.code in _DISTURBANCES}


def _executions(run: Run) -> Iterator[Change]:
    """Yield the further execution of each phase and context that was measured in two."""
    roots: dict[tuple[str, int | None], dict[str, Row]] = {}
    for entry in run.scenes:
        name = str(entry["name"])
        energy = run.scene(name).energy
        model = None if energy is None else energy[energy["level"] == "model"]
        if model is not None and not model.empty:
            step = Moment.of(name)
            execution = str(entry.get("execution") or execution_of(run.document))
            roots.setdefault((step.phase, step.context), {})[execution] = {
                str(key): value for key, value in model.iloc[0].items()
            }
    measured = {
        (str(row.get("phase")), str(row.get("value"))) for row in (run.alternatives or {}).get("rows") or []
    }
    for (phase, _), rows in roots.items():
        base, *others = rows.values()
        for execution, row in zip(list(rows)[1:], others, strict=True):
            energies = [_energy(root) for root in (row, base)]
            change = ratio(energies[0], energies[1]) if energies[0] and energies[1] else None
            if change is None or (phase, execution) in measured:
                continue
            times = [interval(root.get("time_us")) for root in (row, base)]
            yield Change(
                what="execution",
                value=execution,
                phase=phase,
                energy=change,
                time=ratio(times[0], times[1]) if times[0] and times[1] else None,
                grade=_worse(row.get("quality"), base.get("quality")),
                modelled=run.modelled,
                disturbed=any(_disturbed(root, _guards(root)) for root in (row, base)),
            )


def _precisions(run: Run, *, against_baseline: bool = False) -> Iterator[Change]:
    """Yield the benchmark's other precisions at its first batch size and length, against the run's own."""
    document = run.benchmark or {}
    cells = list(document.get("cells") or [])
    shapes = [(cell.get("batch_size"), cell.get("sequence_length")) for cell in cells]
    cells = [cell for cell, shape in zip(cells, shapes, strict=True) if shape == shapes[0]]
    baseline = document.get("baseline")
    asked = (run.document.get("settings") or {}).get("precision")
    own = (run.document.get("model") or {}).get("precision") or asked
    named = {str(cell.get("precision")): cell for cell in cells}
    base = named.get(str(own)) if not against_baseline else None
    base = base or named.get(str(baseline))
    judged = {str(prediction.get("precision")): prediction for prediction in document.get("predictions") or []}
    for name, cell in named.items():
        if base is None or cell is base:
            continue
        paired = base.get("precision") == baseline
        pair = given(cell.get("energy_mj")), given(base.get("energy_mj"))
        apart = ratio(pair[0], pair[1]) if pair[0] and pair[1] else None
        energy = given(cell.get("energy_ratio")) if paired else apart
        if energy is None:
            continue
        times = given(cell.get("latency_s")), given(base.get("latency_s"))
        prediction = judged.get(name) or {}
        quality = given(prediction.get("difference")) if paired else None
        metric = prediction.get("metric")
        yield Change(
            what="precision",
            value=name,
            phase="prefill",
            energy=energy,
            time=ratio(times[0], times[1]) if times[0] and times[1] else None,
            grade=_worse(cell.get("quality"), base.get("quality")),
            modelled=run.modelled,
            metric=metric,
            quality=quality,
            degrades=_degrades(metric, quality, given(prediction.get("value"))),
            disturbed=any(_disturbed(compared, _guards(compared)) for compared in (cell, base)),
        )


def _degrades(metric: object, difference: Interval | None, value: Interval | None) -> bool | None:
    """Tell whether a difference is a loss of more than `NEGLIGIBLE`; None where that is unclear."""
    if difference is None or value is None or difference.low is None or difference.high is None:
        return None
    sign, scale = (-1.0, 1.0) if metric == "accuracy" else (1.0, value.value - difference.value)
    least, most = sorted((sign * difference.low / scale, sign * difference.high / scale))
    return True if least > NEGLIGIBLE else False if most <= NEGLIGIBLE else None


def _energy(row: Row) -> Interval | None:
    return interval(row.get("energy_mj"), row.get("energy_ci_low_mj"), row.get("energy_ci_high_mj"))


def _worse(*grades: object) -> str:
    return max((str(grade) if grade in QUALITIES else INVALID for grade in grades), key=QUALITIES.index)
