"""What the page of a run is about: the run, and the workloads that it measured, costliest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from energyscope import format as fmt
from energyscope.accounting.checks import Checks, checks
from energyscope.intervals import Interval, finite
from energyscope.metering.grades import INVALID
from energyscope.reporting.run import parts
from energyscope.reporting.section import Page
from energyscope.runs.method import execution_of
from energyscope.runs.store import Run
from energyscope.runs.tree import EAGER, EnergyTree, energy_tree, tokens_of

PREFILL, DECODE = "prefill", "decode"
GRAPH = "cuda-graph"
EXECUTIONS = {EAGER: "eager", GRAPH: "CUDA graph", "torch-compile": "torch.compile"}


@dataclass(frozen=True)
class MeasuredWorkload:
    """A measured pass over a prompt, or a decode step, in one execution.

    Energies are in mJ and times in us of one pass or step, which reads (prefill) or makes (decode) ``tokens``.
    ``weight`` is how often an inference takes it; ``document`` is run.json of this workload alone.
    """

    name: str
    phase: str
    context: int | None
    execution: str
    label: str
    tokens: float | None
    weight: float
    tree: EnergyTree
    document: Mapping[str, Any]

    @property
    def energy(self) -> Interval | None:
        """The measured energy of the whole model."""
        return self.tree.model_energy

    @property
    def work(self) -> Interval | None:
        """Its energy beyond idle power x time; None where that is not known or, unless judged by it, no part."""
        work, energy = self.tree.root.dynamic if self.tree.root else None, self.energy
        if work is None or energy is None:
            return None
        return work if self.tree.by_work or 0 <= work.value <= energy.value else None

    @property
    def idle(self) -> Interval | None:
        """Idle power x its time."""
        return None if self.work is None or self.tree.root is None else self.tree.root.static

    @property
    def judged(self) -> Interval | None:
        """What its grade is of, and its sentences are about: its work (run eagerly), or all its energy."""
        return self.tree.judged(self.tree.root) if self.tree.root else None

    @property
    def grade(self) -> str:
        """The grade of what it is judged by."""
        return self.tree.quality(self.tree.root) if self.tree.root else INVALID

    def number(self, column: str) -> float | None:
        """Return a column of the whole model's row; None where it is missing."""
        return self.tree.root.number(column) if self.tree.root else None

    @property
    def quality(self) -> str:
        """The grade of the whole model's energy."""
        return str(self.tree.root.row.get("quality")) if self.tree.root else INVALID

    @property
    def detailed(self) -> bool:
        """Whether its components were measured, and not the model alone."""
        return len(self.tree.nodes) > 1

    @property
    def host_bound(self) -> bool | None:
        """Whether launching from the host sets the model's pace; None where that is not known."""
        return None if self.tree.root is None else self.tree.root.flag("host_bound")

    @property
    def per_token(self) -> Interval | None:
        """Energy (mJ) for each token that it reads or makes."""
        return self.energy.scaled(1 / self.tokens) if self.energy and self.tokens else None

    @property
    def in_model(self) -> bool:
        """Whether components were timed in the model's passes, so that they add up to it by construction."""
        return bool((self.document.get("scene") or {}).get("in_model"))

    @cached_property
    def checks(self) -> Checks:
        """What leaves and overhead add up to, and whether the model without each kind agrees with its replay."""
        known = checks(self.document, self.execution)
        differential = self.document.get("differential") or {}
        return known if known.leaves or known.kinds else parts.checks_of_table(self.tree, differential)

    @property
    def cost(self) -> float:
        """What it takes in one inference, mJ."""
        return self.weight * (self.energy.value if self.energy else 0.0)


@dataclass(frozen=True)
class Report:
    """A run as its page shows it."""

    run: Run

    @property
    def document(self) -> dict[str, Any]:
        """What run.json holds."""
        return self.run.document

    def part(self, name: str) -> Mapping[str, Any]:
        """Return a part of run.json; an empty one where it is missing or null."""
        part = self.document.get(name)
        return part if isinstance(part, Mapping) else {}

    @property
    def benchmark(self) -> Mapping[str, Any]:
        """What benchmark.json holds; empty where there is none."""
        return self.run.benchmark or {}

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells of the benchmark."""
        return self.benchmark.get("cells") or []

    @property
    def alternatives(self) -> Mapping[str, Any]:
        """What alternatives.json holds; empty where there is none."""
        return self.run.alternatives or {}

    @property
    def generation(self) -> Mapping[str, Any]:
        """What generation.json holds; empty where there is none."""
        return self.run.generation or {}

    @property
    def correlation(self) -> Mapping[str, Any]:
        """What correlation.json holds; empty where there is none."""
        return self.run.correlation or {}

    @property
    def watts(self) -> float | None:
        """The stated power of a modelled run, W."""
        return finite(self.part("sensor").get("watts"))

    @property
    def modelled(self) -> bool:
        """Whether its joules are time x stated watts."""
        return self.run.modelled

    @property
    def time_word(self) -> str:
        """What the time of a modelled run is: the processor time of one thread, or that of the host's clock."""
        return "processor time" if self.part("environment").get("clock") == "processor" else "time"

    @property
    def on_cpu(self) -> bool:
        """Whether the model ran on the CPU, where no CUDA graph can hold its work."""
        return self.part("device").get("type") == "cpu"

    @property
    def energy_title(self) -> str:
        """The title of a column of its energies."""
        return "Energy (MODELLED)" if self.modelled else "Energy"

    @property
    def random(self) -> bool:
        """Whether the model has no trained weights."""
        return self.part("model").get("weights") == "random"

    @property
    def precision(self) -> str:
        """What the run was measured in; where there is a benchmark alone, all of its precisions."""
        if self.main is None and self.cells:
            return ", ".join(dict.fromkeys(precision_name(cell.get("precision")) for cell in self.cells))
        return precision_name(self.part("model").get("precision") or self.part("settings").get("precision") or "")

    @property
    def writes(self) -> bool:
        """Whether the model writes text, so that a generation can be explained."""
        return self.part("model").get("task") == "next-token"

    @property
    def triggered(self) -> bool:
        """Whether components were read in passing, and never replayed."""
        return self.part("settings").get("sampling") == "triggered"

    @cached_property
    def every_workload(self) -> list[MeasuredWorkload]:
        """All workloads that were measured, the costliest first."""
        if self.run.energy is None or self.run.energy.empty:
            return []
        parts = [(entry, self.run.scene(str(entry["name"]))) for entry in self.run.scenes] or [({}, self.run)]
        measured = [(entry, run) for entry, run in parts if run.energy is not None and not run.energy.empty]
        generates = any(entry.get("phase") == DECODE for entry, _ in measured)
        twice = len({execution_of(run.document) for _, run in measured}) > 1
        workloads = [self._workload(entry, run, generates=generates, twice=twice) for entry, run in measured]
        return sorted(workloads, key=lambda workload: -workload.cost)

    @cached_property
    def workloads(self) -> list[MeasuredWorkload]:
        """Those whose components were measured; else the whole model alone."""
        return [workload for workload in self.every_workload if workload.detailed] or self.every_workload[:1]

    @property
    def main(self) -> MeasuredWorkload | None:
        """The costliest workload."""
        return self.workloads[0] if self.workloads else None

    @cached_property
    def generates(self) -> bool:
        """Whether it explains a generation: it has decode steps, alone or in a trace."""
        rows = self.alternatives.get("rows") or []
        phases = [workload.phase for workload in self.every_workload]
        phases += [str(row.get("phase")) for row in rows if isinstance(row, Mapping)]
        return self.run.generation is not None or DECODE in phases

    @property
    def by_work(self) -> bool:
        """Whether every workload that was measured is judged by its work."""
        return bool(self.every_workload) and all(workload.tree.by_work for workload in self.every_workload)

    @property
    def phase_dimension(self) -> list[tuple[str, str]]:
        """The switch between workloads: values, and labels with what each takes; empty where there is one."""
        if len(self.workloads) < 2:
            return []
        return [(workload.name, _with_size(workload)) for workload in self.workloads]

    @cached_property
    def part_dimension(self) -> list[tuple[str, str]]:
        """The switch between all energy, work and idle; empty where these are not known, or only work is shown.

        What the costliest workload is judged by comes first.
        """
        if self.by_work or not self.workloads or not all(_splits(workload.tree) for workload in self.workloads):
            return []
        options = [("energy", "all"), ("work", "work"), ("idle", "idle")]
        return options[1:] + options[:1] if self.workloads[0].tree.by_work else options

    def _workload(self, entry: Mapping[str, Any], run: Run, *, generates: bool, twice: bool) -> MeasuredWorkload:
        assert run.energy is not None  # noqa: S101 - the callers' runs have a table
        tree = energy_tree(run.energy)
        row = tree.root.row if tree.root else tree.nodes[0].row
        phase, context = str(row.get("phase")), finite(row.get("context_length"))
        execution = str(row.get("execution") or execution_of(run.document))
        new = finite(self.part("settings").get("new_tokens")) or 1.0
        label = _label(phase, context, finite(row.get("batch_size")), generates=generates)
        return MeasuredWorkload(
            name=str(entry.get("name") or phase),
            phase=phase,
            context=int(context) if context else None,
            execution=execution,
            label=f"{label}, {EXECUTIONS.get(execution, execution)}" if twice else label,
            tokens=tokens_of(run.document, tree.root),
            weight=new if phase == DECODE else 1.0,
            tree=tree,
            document=run.document,
        )


RUN: Page[Report] = Page("run")


def _label(phase: str, context: float | None, batch: float | None, *, generates: bool) -> str:
    length = "" if context is None else f"{context:,.0f}"
    sequences = f"{batch:,.0f} x " if batch and batch > 1 else ""
    if phase == DECODE:
        return f"Decode at {length} tokens" if length else "Decode"
    name = "Prefill" if generates else "Forward pass"
    return f"{name}, {sequences}{length} tokens" if length else name


def _with_size(workload: MeasuredWorkload) -> str:
    """Return a workload's label with what it is judged by."""
    if workload.judged is None:
        return workload.label
    size = fmt.quantity(workload.judged.value, "mJ")
    return f"{workload.label} ({size} of work)" if workload.tree.by_work else f"{workload.label} ({size})"


def _splits(tree: EnergyTree) -> bool:
    """Tell whether work and idle energy are known of the model and of every component with an energy."""
    if tree.root is None or (tree.root.number("dynamic_mj") or 0.0) <= 0:
        return False
    return all(node.number("dynamic_mj") is not None for node in tree.nodes if node.energy is not None)


def grades(tree: EnergyTree) -> Counter[str]:
    """Count the grades of measurements; one that stands for several components counts once."""
    return Counter(tree.quality(node) for node in {node.source: node for node in tree.nodes}.values())


def execution_name(execution: object) -> str:
    """Return what an execution is called in a sentence."""
    return EXECUTIONS.get(str(execution), str(execution))


def precision_name(precision: object) -> str:
    """Return what a precision is called, such as ``FP16``."""
    titles = {"fp16-autocast": "FP16 autocast", "int8-static": "INT8 static", "auto": "auto"}
    return titles.get(str(precision), str(precision).upper())


def tokens_per_kwh(per_token: Interval | None) -> Interval | None:
    """Return the tokens that a kilowatt-hour makes, from mJ per token."""
    if per_token is None or per_token.value <= 0:
        return None
    tokens, low, high = 3.6e9 / per_token.value, per_token.low, per_token.high
    return Interval(tokens, 3.6e9 / high, 3.6e9 / low) if low and high and low > 0 else Interval(tokens)
