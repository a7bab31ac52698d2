"""The first screen of a run's page, and the end of a run in the terminal: one answer in both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from energyscope import format as fmt
from energyscope.accounting.checks import Checks
from energyscope.adapters import BY_STRUCTURE
from energyscope.changes.savings import WORKLOAD, Change, best, changes, guards_of, winner
from energyscope.intervals import Interval, finite, from_entry
from energyscope.metering.grades import INVALID, grade
from energyscope.reporting.charts.theme import title_of
from energyscope.reporting.page import sentence
from energyscope.reporting.run import parts
from energyscope.reporting.run.changes import change_figure, change_name, precision_figure
from energyscope.reporting.run.energy import block_figure
from energyscope.reporting.run.method import left_out, unfinished
from energyscope.reporting.run.plan import first_plan
from energyscope.reporting.run.power_limit import lower_limit_sentence
from energyscope.reporting.run.quality import needs, rank_figure, ranking
from energyscope.reporting.run.report import (
    DECODE,
    GRAPH,
    Report,
    execution_name,
    precision_name,
    tokens_per_kwh,
)
from energyscope.reporting.run.subject import Headline, subject_of
from energyscope.reporting.run.trust import trust
from energyscope.reporting.section import Figure
from energyscope.reporting.table import Column, Table

_GRADES = "A: known to 1 %, B: to 3 %, C: to 10 %, each with enough windows and no disturbance; else too noisy."
_EXECUTIONS = {
    "eager": "As most people run it: the host launches every kernel, and what that costs is included.",
    "cuda-graph": "The GPU's work was recorded once and is replayed without gaps, without launches by the host.",
}
_MEMORY_BOUND = 30.0  # FLOPs for a byte of traffic, below which reading memory sets the pace of any current GPU
_COMPUTE_BOUND = 300.0  # and above which arithmetic does
_MOSTLY = 0.5
_PER_THOUSAND = "Joules per 1,000 tokens"
STRUCTURE = "No adapter was used: components were found by structure."
RANDOM_WEIGHTS = "The true shape without trained weights: energy depends on values to some degree."


@dataclass(frozen=True)
class Chip:
    """One fact about the run; ``tone`` warns or reassures, ``hint`` explains."""

    text: str
    tone: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Stat:
    """One of the few numbers of the first screen, with its error."""

    label: str
    value: str
    error: str = ""
    hint: str = ""

    @classmethod
    def of(cls, label: str, item: Interval | None, unit: str, hint: str = "") -> Stat:
        """Write a value and its 95 % interval apart."""
        return cls(label, *fmt.value_and_interval(item, unit), hint)


@dataclass(frozen=True)
class Answer:
    """What a reader gets in ten seconds."""

    report: Report

    @cached_property
    def chips(self) -> list[Chip]:
        """What was measured, how and where, with what must not be overlooked."""
        report, device = self.report, self.report.part("device")
        count = max(len(device.get("measured") or []), len(report.part("sensor").get("devices") or []), 1)
        name = str(device.get("name") or device.get("type") or "")
        weights = report.part("model").get("weights")
        executions = dict.fromkeys(workload.execution for workload in report.workloads)
        chips = [
            Chip(f"{count} x {name}" if count > 1 else name),
            Chip(report.precision),
            *(
                Chip(execution_name(execution), hint=_EXECUTIONS.get(execution, ""))
                for execution in executions or [str(report.part("settings").get("execution") or "eager")]
            ),
            Chip(_shape(report)),
        ]
        if report.random:
            chips.append(Chip("random weights", "warn", RANDOM_WEIGHTS))
        elif weights:
            chips.append(Chip("model in memory" if weights == "given" else f"{weights} weights"))
        if report.part("model").get("adapter") == BY_STRUCTURE:
            chips.append(Chip("auto", "warn", STRUCTURE))
        if report.modelled:
            watts = "stated watts" if report.watts is None else fmt.quantity(report.watts, "W")
            hint = f"No power sensor was read: every joule is {self.report.time_word} x {watts}."
            chips.append(Chip("MODELLED", "warn", hint))
        if report.triggered:
            hint = "Components were read in passing: what is shorter than a tick has no energy."
            chips.append(Chip("triggered sampling", "warn", hint))
        if self._graded is not None:
            quality, energy = self._graded
            words = fmt.grade(quality, energy)
            tone = "good" if quality in {"A", "B"} else "warn"
            chips.append(Chip(words if quality == INVALID else f"grade {words}", tone, _GRADES))
        return [chip for chip in chips if chip.text]

    @cached_property
    def _graded(self) -> tuple[str, Interval | None] | None:
        """The grade of the number that the sentence rests on, and that number: of two precisions, their ratio."""
        if not self.compares or not self._cell:
            return (self.subject.quality, self.subject.judged) if self.subject else None
        ratio, trials = from_entry(self._cell.get("energy_ratio")), finite(self._cell.get("trials"))
        base = self._first_cells.get(str(self.report.benchmark.get("baseline")), {})
        if self._cell is base or ratio is None or trials is None:
            return str(self._cell.get("quality") or INVALID), from_entry(self._cell.get("energy_mj"))
        disturbances = sorted(guards_of(self._cell) | guards_of(base))
        return grade(fmt.relative(ratio), int(trials), disturbances)[0], ratio

    @cached_property
    def _first_cells(self) -> dict[str, Mapping[str, Any]]:
        """The benchmark's first cell of each precision; the first of all is the last of these."""
        return {str(cell.get("precision")): cell for cell in reversed(self.report.cells)}

    @cached_property
    def _cell(self) -> Mapping[str, Any]:
        """The benchmark's first cell of the precision that wins, else of the baseline, else of any."""
        first, cells = winner(self.report.run), self._first_cells
        cell = cells.get(first.value if first else str(self.report.benchmark.get("baseline")))
        return cell or next(reversed(cells.values()), {})

    @cached_property
    def alerts(self) -> list[dict[str, Any]]:
        """The stages that did not finish."""
        return unfinished(self.report)

    @cached_property
    def subject(self) -> Headline | None:
        """What the answer is about; None where nothing has an energy."""
        return subject_of(self.report)

    @cached_property
    def changes(self) -> list[Change]:
        """Everything that was measured beside the run's own setting."""
        return changes(self.report.run)

    @cached_property
    def compares(self) -> bool:
        """Whether the question is which precision: a classifier at several, or nothing but a benchmark."""
        several = len({cell.get("precision") for cell in self.report.cells}) > 1
        classifies = self.report.part("model").get("metric") == "accuracy"
        return several and (classifies or self.report.main is None)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The numbers of the sentence, and which sentence they make."""
        if self.compares:
            return self._of_precisions()
        subject, workload = self.subject, self.report.main
        if subject is None and self.report.run.plan:
            return {"case": "plan", **self._plan_facts()}
        if subject is None:
            stages = self.alerts or left_out(self.report)
            return {"case": "nothing", "unfinished": stages, "modelled": self.report.modelled}
        kinds, share = parts.costliest(workload.tree, work=subject.splits) if workload else ([], None)
        checks = workload.checks if workload else Checks()
        idle = subject.idle if subject.splits else None
        waits = idle is not None and idle.value > _MOSTLY * subject.energy.value
        return {
            "case": "waits" if waits else "blocks",
            "host": workload.host_bound if workload else None,
            "subject": subject.name,
            "energy": subject.energy,
            "work": subject.work,
            "idle": subject.idle,
            "time": subject.time,
            "traced": subject.traced,
            "blocks": [title_of(kind) for kind in kinds],
            "share": share,
            "apart": {
                title_of(kind): check for kind in kinds if (check := checks.kinds.get(kind)) and check.disagrees
            },
            "outside": checks.leaves if checks.add_up_wrongly else None,
            "checked": checks.name,
            "of_work": subject.splits,
            "by_work": subject.by_work,
            "modelled": self.report.modelled,
        }

    @cached_property
    def sentence(self) -> str:
        """The number that matters and its largest part; where no energy is measured, what the predictions need."""
        return self._needs or self._takes

    @cached_property
    def _needs(self) -> str:
        modelled = self.report.modelled and self.facts["case"] in {"blocks", "waits"}
        return sentence("run/needs.txt.j2", needs=needs(self.report) if modelled else None)

    @cached_property
    def _takes(self) -> str:
        return sentence(f"run/{'plan' if self.facts['case'] == 'plan' else 'answer'}.txt.j2", facts=self.facts)

    @cached_property
    def idle(self) -> str:
        """What idle energy adds to the work that the sentence is about; empty where it is about all energy."""
        return sentence("run/idle.txt.j2", facts=self.facts)

    @cached_property
    def cause(self) -> str:
        """Why it takes so much and what to do; first what it takes, where the sentence is about something else."""
        workload = self.report.main
        judged = self.subject.phase if self.subject and not self.compares else None
        remedy = best(self.changes, judged)
        workloads = (change for change in self.changes if change.what in WORKLOAD and change.phase == judged)
        batch = next((change for change in workloads if change.recommended), None)
        phase = self.subject.phase if self.subject else None
        faster = (change for change in self.changes if change.phase == phase and change.verdict == "saves")
        quickest = next((change for change in faster if not change.degrades and _faster(change)), None)
        flops, executed, moved = (
            workload.number(name) if workload else None for name in ("flops", "executed_flops", "bytes")
        )
        flops = executed or flops
        cause = sentence(
            "run/cause.txt.j2",
            case=self.facts["case"],
            modelled=self.report.modelled,
            graph=(workload is not None and workload.execution == GRAPH) or self.report.on_cpu,
            watts=self.report.watts,
            intensity=flops / moved if flops is not None and moved else None,
            moved=moved,
            memory_bound=_MEMORY_BOUND,
            compute_bound=_COMPUTE_BOUND,
            weights=finite(self.report.part("model").get("size_bytes")),
            remedy=_named(remedy),
            batch=None if batch is None or batch is remedy else _named(batch),
            measured=any(judged in {None, change.phase} for change in self.changes),
            quickest=_named(quickest) if self.report.modelled else None,
            facts=self.facts,
        )
        return f"{self._takes} {cause}".strip() if self._needs else cause

    @cached_property
    def stats(self) -> list[Stat]:
        """Four or five numbers with their errors."""
        if self.compares:
            return self._precision_stats()
        subject = self.subject
        if subject is None:
            return []
        per_thousand = subject.per_token.scaled(1000) if subject.per_token else None
        if subject.by_work:
            stats = [Stat.of(f"Work per {subject.unit}", subject.work, "mJ", "Energy beyond idle power x time.")]
            if per_thousand:  # images have no tokens
                stats.append(Stat.of("Work per 1,000 tokens", per_thousand, "mJ"))
            stats.append(
                Stat.of(f"Idle energy per {subject.unit}", subject.idle, "mJ", "Idle power x time on this host.")
            )
        else:
            stats = [Stat.of(self._energy_per(subject.unit), subject.energy, "mJ")]
            if per_thousand and not self.report.modelled:
                per_kwh = tokens_per_kwh(subject.per_token)
                stats += [Stat.of(_PER_THOUSAND, per_thousand, "mJ"), Stat.of("Tokens per kWh", per_kwh, "amount")]
        time = Stat.of(subject.time_name, subject.time, "us")
        return (
            [time, *stats] if self.report.modelled else [*stats, time, Stat.of("Mean power", subject.power, "W")]
        )

    def _energy_per(self, unit: str) -> str:
        return f"{'Modelled energy' if self.report.modelled else 'Energy'} per {unit}"

    @cached_property
    def figures(self) -> list[Figure]:
        """Energy by block, what would change it, and what the predictions need."""
        energy = block_figure(self.report) or precision_figure(self.report)
        return [figure for figure in (energy, change_figure(self.report), rank_figure(self.report)) if figure]

    @cached_property
    def ranking(self) -> str:
        """What is safe to quantize or to remove, whatever is known of its energy."""
        return sentence("run/ranking.txt.j2", ranking=ranking(self.report))

    @cached_property
    def trust(self) -> str:
        """How far the numbers can be trusted, in one line."""
        noise = self._benchmark_noise()
        return sentence(
            "run/trust_line.txt.j2",
            trust=None if self.compares and noise else trust(self.report),
            traced=self.subject is not None and self.subject.traced,
            benchmark=noise if self.compares else None,
            time=self.report.time_word,
            alone=fmt.relative(self.subject.energy if self.subject else self._planned),
            modelled=self.report.modelled,
            watts=self.report.watts,
        )

    @property
    def breakdown(self) -> Table:
        """The energy of the costliest workload by block."""
        if self.report.main is None:
            return Table([Column("part", "Part")], [])
        main = self.report.main
        return parts.with_checks(
            parts.blocks(main.tree, modelled=self.report.modelled, checks=main.checks), main.checks
        )

    def record(self) -> dict[str, Any]:
        """Return the answer for a machine."""
        texts = {"sentence": self.sentence, "idle": self.idle, "cause": self.cause}
        return {
            **texts,
            "ranking": self.ranking,
            "trust": self.trust,
            "power_limit": lower_limit_sentence(self.report),
        }

    @property
    def _planned(self) -> Interval | None:
        """What the plan, or else a choice beside it, was measured to take of what the model takes as it is."""
        plan = first_plan(self.report)
        return plan.measured or next(plan.compared(), None) if plan else None

    def _plan_facts(self) -> dict[str, Any]:
        plan = first_plan(self.report)
        return plan.facts() if plan else {}

    def _of_precisions(self) -> dict[str, Any]:
        document, first = self.report.benchmark, winner(self.report.run)
        baseline = precision_name(document.get("baseline"))
        metric = next((str(score.get("metric")) for score in document.get("predictions") or []), None)
        if first is None:
            precision = self._cell.get("precision")
            return {
                "case": "no-winner" if precision == document.get("baseline") else "no-baseline",
                "baseline": baseline,
                "name": precision_name(precision),
                "energy": from_entry(self._cell.get("energy_mj")),
                "modelled": self.report.modelled,
                "metric": metric,
            }
        return {
            "case": "winner",
            "name": precision_name(first.value),
            "factor": 1 / first.energy.value,
            "baseline": baseline,
            "metric": first.metric or metric,
            "degrades": first.degrades,
            "modelled": self.report.modelled,
            "random": self.report.random,
            "change": first,
            "level": [precision_name(change.value) for change in self._level_with(first)],
        }

    def _level_with(self, first: Change) -> list[Change]:
        """Return the other precisions whose interval overlaps the winner's."""
        high = first.energy.high
        others = [change for change in self.changes if change.what == "precision" and change.value != first.value]
        return [
            other for other in others if high is not None and (low := other.energy.low) is not None and low <= high
        ]

    def _precision_stats(self) -> list[Stat]:
        document, cell = self.report.benchmark, self._cell
        name = precision_name(cell.get("precision"))
        per = self._energy_per("inference" if finite(cell.get("batch_size")) == 1 else "batch")
        energy, base = from_entry(cell.get("energy_mj")), str(document.get("baseline"))
        tokens = (finite(cell.get("batch_size")) or 0) * (finite(cell.get("sequence_length")) or 0)
        per_token = energy.scaled(1 / tokens) if energy and tokens else None
        stats = [Stat.of(f"{per}, {name}", energy, "mJ")]
        if winner(self.report.run):
            base_energy = from_entry(self._first_cells.get(base, {}).get("energy_mj"))
            stats.append(Stat.of(f"{per}, {precision_name(base)}", base_energy, "mJ"))
        stats += [
            Stat.of(f"{_PER_THOUSAND}, {name}", per_token.scaled(1000) if per_token else None, "mJ"),
            Stat.of(f"Tokens per kWh, {name}", tokens_per_kwh(per_token), "amount"),
            Stat.of(f"Latency, {name}", from_entry(cell.get("latency_s"), 1e6), "us"),
        ]
        scores = document.get("predictions") or []
        for score in [entry for entry in scores if entry.get("precision") == str(cell.get("precision"))][:1]:
            metric = str(score.get("metric"))
            unit = "share" if metric == "accuracy" else ""
            stats[4:] = [Stat.of(metric.capitalize(), from_entry(score.get("value")), unit)]
        return stats

    def _benchmark_noise(self) -> dict[str, Any] | None:
        cells = self.report.cells
        halves = [half for cell in cells if (half := fmt.relative(from_entry(cell.get("energy_mj")))) is not None]
        if not halves:
            return None
        return {
            "best": min(halves),
            "worst": max(halves),
            "trials": max(int(finite(cell.get("trials")) or 0) for cell in cells),
            "judged": bool(self.report.benchmark.get("predictions")),
            "modelled": self.report.modelled,
        }


def _faster(change: Change) -> bool:
    return change.time is not None and change.time.high is not None and change.time.high < 1


def _named(change: Change | None) -> dict[str, Any] | None:
    return None if change is None else {"name": change_name(change), "saved": change.saved.value, "change": change}


def _shape(report: Report) -> str:
    shape = report.cells[0] if report.main is None and report.cells else report.part("workload")
    batch, length = shape.get("batch_size"), shape.get("sequence_length")
    if not batch:
        return ""
    if report.workloads and all(workload.phase == DECODE for workload in report.workloads):
        return f"batch {batch}, {report.workloads[0].context or 0:,} tokens in the cache"
    return f"batch {batch} x {length:,} tokens" if length else f"batch {batch}"
