"""How runs differ: generations, whole models and components, each difference with an interval and a verdict.

The first run is the baseline. Components are aligned by name where both runs have the same components,
by kind (each added up over its components) where they do not: another model, or another granularity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from energyscope.comparison.basis import (
    DYNAMIC,
    MEASURES,
    SHARE_OF_WORK,
    Basis,  # noqa: F401 - a field of `RunComparison` is annotated with it
)
from energyscope.comparison.boards import BoardFactor  # noqa: F401 - a field of `RunComparison` is annotated with it
from energyscope.comparison.conditions import (
    BOARD,
    Condition,  # noqa: F401 - fields of `RunComparison` are annotated with it
    RunComparison,
    conditions,
    unfinished,
    warnings,
)
from energyscope.comparison.difference import LEADS, Difference
from energyscope.comparison.gate import Energy
from energyscope.comparison.parts import Alignment, by_depth, compare_parts
from energyscope.comparison.whole import (
    BenchmarkComparison,
    GenerationComparison,
    compare_benchmarks,
    compare_generations,
    normalised,
    whole,
)
from energyscope.errors import UsageError
from energyscope.grouping import group_by
from energyscope.reasons import Reason, reason
from energyscope.runs.method import execution_of, passes_of
from energyscope.runs.phases import has_two_executions, same_phases, unmatched
from energyscope.runs.tree import EnergyTree, energy_tree

if TYPE_CHECKING:
    from energyscope.runs.store import Run
    from energyscope.serving.run import ServingRun

    GivenRun = Run | str | Path
AnyRun = TypeVar("AnyRun", "Run", "ServingRun")


@dataclass(frozen=True)
class PairComparison(RunComparison):
    """The baseline against one other run, in one phase of an inference.

    ``scene`` is what the baseline calls it (``decode@1024``) and ``other_scene`` what the other run does; None
    where a run names no phases. ``unmeasured`` names what neither run has of the whole model; it is not in
    ``whole``. ``normalised`` is the whole model's energy for a unit of work; ``depth`` are layers by relative
    depth where components are not aligned. Where ``basis`` is ``dynamic``, ``parts``, ``normalised`` and ``depth``
    are of work, and ``shares`` are the parts' shares of the model's work: the calibration of a board's sensor is
    no part of them, so another board is not in their way.
    """

    whole: tuple[Difference, ...] = ()
    alignment: Alignment = "component"
    parts: tuple[Difference, ...] = ()
    scene: str | None = None
    other_scene: str | None = None
    unmeasured: tuple[str, ...] = ()
    normalised: tuple[Difference, ...] = ()
    depth: tuple[Difference, ...] = ()
    shares: tuple[Difference, ...] = ()

    @property
    def largest(self) -> list[Difference]:
        """The parts by the size of their change, of all that were measured together; those without one last."""
        return sorted(self.parts, key=lambda part: -abs(part.together.value) if part.together else 1.0)


@dataclass(frozen=True)
class Comparison:
    """A baseline run against every other run.

    ``unfinished`` are stages of runs that are not done, ``warnings`` those of all runs. There is one of
    ``generations`` for every other run that traced one as the baseline did, and one of ``benchmarks`` for every
    other run that has one as well.
    """

    baseline: str
    unfinished: tuple[dict[str, str], ...]
    warnings: tuple[dict[str, Any], ...]
    generations: tuple[GenerationComparison, ...]
    pairs: tuple[PairComparison, ...]
    benchmarks: tuple[BenchmarkComparison, ...] = ()
    _runs: ClassVar[tuple[Run, ...]] = ()  # of each comparison, by `compare`: no part of its record

    def _repr_html_(self) -> str | None:
        """Show the answer where a notebook shows the comparison."""
        from energyscope.reporting.comparison.notebook import comparison_screen

        return comparison_screen(self) if self.runs else None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, with unique names, the baseline first."""
        return self._runs

    def energies(self) -> Iterator[Energy]:
        """Yield the energies by which whole models are compared."""
        tables: list[tuple[RunComparison, str, Sequence[Difference]]]
        tables = [(pair, pair.scene or pair.other_scene or "", pair.whole) for pair in self.pairs]
        tables += [(generation, "", generation.rows) for generation in self.generations]
        for benchmark in self.benchmarks:
            for cell in benchmark.cells:
                at = f"{cell.precision}, batch {cell.batch_size} x {cell.sequence_length} tokens"
                tables.append((benchmark, at, cell.rows))
        for of, at, rows in tables:
            yield from ((of.other, at, item) for item in rows if item.name in LEADS[of.basis])


def compare(*runs: GivenRun | Iterable[GivenRun]) -> Comparison:
    """Compare runs, or those at paths or of names, with the first of them: given one by one, or in a list.

    Raises:
        UsageError: fewer than two runs were given.
        RunError: one cannot be read.

    """
    baseline, *others = loaded = read_runs("compare", runs)
    generations = (compare_generations(baseline, other) for other in others)
    benchmarks = (compare_benchmarks(baseline, other) for other in others)
    comparison = Comparison(
        baseline=baseline.name,
        unfinished=tuple(unfinished(loaded)),
        warnings=tuple(warnings(loaded)),
        generations=tuple(generation for generation in generations if generation is not None),
        pairs=tuple(pair for other in others for pair in _pairs(baseline, other)),
        benchmarks=tuple(benchmark for benchmark in benchmarks if benchmark is not None),
    )
    object.__setattr__(comparison, "_runs", tuple(loaded))
    return comparison


def read_runs(command: str, given: Iterable[GivenRun | Iterable[GivenRun]]) -> list[Run]:
    """Return two runs or more with unique names for a command, those read that are given by their paths or names.

    Raises:
        UsageError: there are fewer, or one is something else.
        RunError: one cannot be read.

    """
    from energyscope.runs.store import Run, load_run

    lists = (item if isinstance(item, Iterable) and not isinstance(item, str) else (item,) for item in given)
    runs = list(chain.from_iterable(lists))
    if len(runs) < 2:
        raise UsageError(f"{command} needs at least two runs: energyscope {command} RUN RUN")
    loaded = [load_run(run) if isinstance(run, str | Path) else run for run in runs]
    for run in loaded:
        if not isinstance(run, Run):
            raise UsageError(f"{run!r} is no run: give {command} runs, or their paths or names")
    return with_unique_names(loaded)


def with_unique_names(runs: Sequence[AnyRun]) -> list[AnyRun]:
    """Return the runs with the names of their directories, which a user may have changed, made unique.

    Where two are alike they are named with the directory above if that differs, else with a number.
    """
    places = {run.path: run.path.resolve() for run in runs}
    by_name = group_by(runs, lambda run: places[run.path].name)
    names = []
    for run in runs:
        place = places[run.path]
        alike = by_name[place.name]
        apart = len({places[other.path].parent.name for other in alike}) > 1
        names.append(f"{place.parent.name}/{place.name}" if apart else place.name)
    totals, seen = Counter(names), Counter[str]()
    renamed = []
    for run, name in zip(runs, names, strict=True):
        seen[name] += 1
        unique = f"{name} ({seen[name]})" if totals[name] > 1 else name
        renamed.append(run if unique == run.name else replace(run, document={**run.document, "name": unique}))
    return renamed


def _pairs(baseline: Run, other: Run) -> Iterator[PairComparison]:
    """Compare two runs in every phase of the inference that both profiled, or as they are where there is none."""
    common = same_phases(baseline, other) or [(None, None)]
    remarks = list(_unpaired(baseline, other, common))
    for names in common:
        first, second = (
            run if name is None else run.scene(name) for run, name in zip((baseline, other), names, strict=True)
        )
        if has_two_executions(baseline) or has_two_executions(other):
            remarks.append(reason("same-execution", execution=execution_of(first.document)))
        pair = _pair(first, second)
        yield replace(pair, scene=names[0], other_scene=names[1], remarks=(*remarks, *pair.remarks))
        remarks = []


def _unpaired(baseline: Run, other: Run, common: Sequence[tuple[str | None, str | None]]) -> Iterator[Reason]:
    """Yield which phases of each run the other one does not have."""
    for run, names in zip((baseline, other), zip(*common, strict=True), strict=True):
        if phases := unmatched(run, names):
            yield reason("moments-alone", run=run.name, moments=phases)


def _pair(baseline: Run, other: Run) -> PairComparison:
    documents = baseline.document, other.document
    step = passes_of(baseline.document)[0] == "decode"
    comparison = conditions(baseline, other, "step" if step else "pass")
    first, second = _tree(baseline), _tree(other)
    roots = first.root if first else None, second.root if second else None
    items = whole(documents, roots, comparison, step=step)
    pair = PairComparison(
        **vars(comparison),
        whole=tuple(item for item in items if not item.missing),
        unmeasured=tuple(item.name for item in items if item.missing),
        normalised=tuple(normalised(documents, roots, comparison)),
    )
    if first is None or second is None:
        return pair
    trees, measure = (first, second), MEASURES[comparison.basis]
    alignment, parts = compare_parts(trees, comparison.names(), measure)
    depth = by_depth(trees, comparison.names(), measure) if alignment == "kind" else ()
    if comparison.basis == DYNAMIC:
        _, shares = compare_parts(trees, comparison.names((BOARD,)), SHARE_OF_WORK)
        pair = replace(pair, shares=shares)
    return replace(pair, alignment=alignment, parts=parts, depth=depth)


def _tree(run: Run) -> EnergyTree | None:
    return None if run.energy is None or run.energy.empty else energy_tree(run.energy)
