"""What the answer of a run is about: a generated token, a pass, or an inference, and what one of them takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from energyscope import format as fmt
from energyscope.intervals import Interval, finite, from_entry, interval
from energyscope.metering.grades import INVALID, grade
from energyscope.reporting.run.generation import phase_table, rates
from energyscope.reporting.run.report import DECODE, PREFILL, MeasuredWorkload, Report


@dataclass(frozen=True)
class Headline:
    """What the sentence is of (``A generated token``), and its ``unit`` (``generated token``).

    Energies are in mJ and the time in us, all of one unit. ``quality`` is the grade of the energy, or of the work
    alone where it is ``by_work`` (`EnergyTree.by_work`), and ``per_token`` is of the same. ``traced`` says that
    the numbers are of a generation that was traced whole.
    """

    name: str
    unit: str
    phase: str
    energy: Interval
    quality: str
    work: Interval | None = None
    idle: Interval | None = None
    per_token: Interval | None = None
    time: Interval | None = None
    time_name: str = "Latency"
    power: Interval | None = None
    traced: bool = False
    by_work: bool = False

    @property
    def judged(self) -> Interval | None:
        """What the sentence is about and its grade is of: the work alone, or all energy."""
        return self.work if self.by_work else self.energy

    @property
    def splits(self) -> bool:
        """Whether its work and its idle power are known."""
        return self.work is not None and self.idle is not None


def subject_of(report: Report) -> Headline | None:
    """Return what the answer is about: the costliest workload, else what has an energy; None where nothing has.

    A generated token is taken from the traced generation where there is one: it holds what launching and
    ``generate`` itself take. Where work is graded, it is the work of the step that was measured by itself.
    """
    workload, headline = report.main, None
    if workload is not None and workload.phase != DECODE:
        headline = _pass(report, workload)
    elif workload is not None:
        headline = (None if workload.tree.by_work else _traced(report)) or _step(workload)
    return headline or _traced(report) or _alternative(report) or _inference(report)


def shape_name(batch: object, length: float | None) -> str:
    """Return what a pass reads, ``128 tokens``, ``8 x 128 tokens``, or examples of images; empty if not known."""
    if not batch:
        return ""
    if not length:
        return "one example" if batch == 1 else f"{batch} examples"
    return f"{length:,.0f} tokens" if batch == 1 else f"{batch} x {length:,.0f} tokens"


def _traced(report: Report) -> Headline | None:
    row = next((row for row in phase_table(report).rows if row["kind"] == DECODE), None)
    tokens = finite(row.get("tokens")) if row else None
    if row is None or not tokens or row["per_token"] is None:
        return None
    settings = report.generation.get("settings") or {}
    seconds = rates(report).get("time_per_output_token_s")
    work, idle = (None if row[key] is None else Interval(row[key] / tokens) for key in ("work", "idle"))
    return Headline(
        name="A generated token",
        unit="generated token",
        phase=DECODE,
        energy=row["per_token"],
        quality=grade(fmt.relative(row["per_token"]), int(finite(settings.get("generations")) or 0))[0],
        work=work,
        idle=idle,
        per_token=row["per_token"],
        time=seconds.scaled(1e6) if seconds else None,
        time_name="Time per token",
        power=row["power"],
        traced=True,
    )


def _step(workload: MeasuredWorkload) -> Headline | None:
    """Return a token of a decode step that was measured by itself."""
    energy, batch = workload.per_token, workload.tokens or 1
    if energy is None:
        return None
    work, idle, judged = (
        item and item.scaled(1 / batch) for item in (workload.work, workload.idle, workload.judged)
    )
    at = f" at {workload.context:,} tokens of context" if workload.context else ""
    return Headline(
        name=f"A generated token{at}",
        unit="generated token",
        phase=DECODE,
        energy=energy,
        quality=workload.grade,
        work=work,
        idle=idle,
        per_token=judged,
        time=interval(workload.number("time_us")),
        time_name="Time per token",
        power=interval(workload.number("power_w")),
        by_work=workload.tree.by_work,
    )


def _pass(report: Report, workload: MeasuredWorkload) -> Headline | None:
    judged = workload.judged
    if workload.energy is None:
        return None
    shape = report.part("workload")
    read = shape_name(shape.get("batch_size"), finite(shape.get("sequence_length")))
    if written := finite(shape.get("decoder_length")):
        read += f" and {written:,.0f} decoder tokens"
    return Headline(
        name=f"A pass over {read}" if read else "A pass",
        unit="prefill" if report.generates else "forward pass",
        phase=workload.phase,
        energy=workload.energy,
        quality=workload.grade,
        work=workload.work,
        idle=workload.idle,
        per_token=judged.scaled(1 / workload.tokens) if judged and workload.tokens else None,
        time=_latency(report, workload),
        power=interval(workload.number("power_w")),
        by_work=workload.tree.by_work,
    )


def _latency(report: Report, workload: MeasuredWorkload) -> Interval | None:
    """Return the time of a pass; modelled energy is time x watts, so its interval is the time's."""
    time = interval(workload.number("time_us"))
    if time is None or not report.modelled or workload.energy is None or workload.energy.value <= 0:
        return time
    return workload.energy.scaled(time.value / workload.energy.value)


def _alternative(report: Report) -> Headline | None:
    """Return the setting that alternatives are measured against: a generated token, else a pass."""
    rows = [row for row in report.alternatives.get("rows") or [] if isinstance(row, Mapping)]
    bases: dict[Any, Mapping[str, Any]] = {row.get("phase"): row for row in rows if row.get("what") == "base"}
    row = bases.get(DECODE) or bases.get(PREFILL) or {}
    decodes = bool(bases.get(DECODE))
    setting = report.alternatives.get("base") or {}
    energy, per_token = from_entry(row.get("energy_mj")), from_entry(row.get("joules_per_token"), 1e3)
    if energy is None or (decodes and per_token is None):
        return None
    context = finite(row.get("context_length"))
    at = f" at {context:,.0f} tokens of context" if context else ""
    read = shape_name(row.get("batch_size"), finite(setting.get("prompt_tokens")))
    return Headline(
        name=f"A generated token{at}" if decodes else f"A pass over {read}",
        unit="generated token" if decodes else "prefill",
        phase=DECODE if decodes else PREFILL,
        energy=per_token if decodes and per_token else energy,
        quality=str(row.get("quality") or INVALID),
        per_token=per_token,
        time=from_entry(row.get("time_us")),
        time_name="Time per token" if decodes else "Latency",
        power=from_entry(row.get("power_w")),
    )


def _inference(report: Report) -> Headline | None:
    """Return the first cell of a benchmark that has an energy."""
    cell: Mapping[str, Any] = next((cell for cell in report.cells if from_entry(cell.get("energy_mj"))), {})
    energy = from_entry(cell.get("energy_mj"))
    if energy is None:
        return None
    batch, length = cell.get("batch_size"), finite(cell.get("sequence_length"))
    tokens = (finite(batch) or 0) * (length or 0)
    return Headline(
        name=f"An inference over {shape_name(batch, length)}",
        unit="inference" if batch == 1 else "batch",
        phase=PREFILL,
        energy=energy,
        quality=str(cell.get("quality") or INVALID),
        per_token=energy.scaled(1 / tokens) if tokens else None,
        time=from_entry(cell.get("latency_s"), 1e6),
        power=from_entry(cell.get("power_w")),
    )
