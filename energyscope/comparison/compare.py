"""How runs differ: generations, whole models and components, each difference with an interval and a verdict.

The first run is the baseline. Components are aligned by name where both runs have the same components,
by kind (each added up over its components) where they do not: another model, or another granularity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from energyscope.comparison.conditions import (
    Condition,  # noqa: F401 - fields of `Standing` are annotated with it
    Standing,
    conditions,
    unfinished,
    warnings,
)
from energyscope.comparison.difference import Difference
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
from energyscope.reasons import Reason, reason
from energyscope.runs.method import execution_of, passes_of
from energyscope.runs.moments import in_both, same_moments, unpaired
from energyscope.runs.tree import EnergyTree, energy_tree

if TYPE_CHECKING:
    from energyscope.runs.store import Run


@dataclass(frozen=True)
class PairComparison(Standing):
    """The baseline against one other run, at one moment of an inference.

    ``scene`` is what the baseline calls it (``decode@1024``) and ``other_scene`` what the other run does; None
    where a run names no moments. ``unmeasured`` names what neither run has of the whole model; it is not in
    ``whole``. ``normalised`` is the whole model's energy for a unit of work; ``depth`` are layers by relative
    depth where components are not aligned.
    """

    whole: tuple[Difference, ...] = ()
    alignment: Alignment = "component"
    parts: tuple[Difference, ...] = ()
    scene: str | None = None
    other_scene: str | None = None
    unmeasured: tuple[str, ...] = ()
    normalised: tuple[Difference, ...] = ()
    depth: tuple[Difference, ...] = ()

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


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare runs with the first of them.

    Raises:
        UsageError: fewer than two runs were given.

    """
    if len(runs) < 2:
        raise UsageError("compare needs at least two runs: energyscope compare RUN RUN")
    baseline, *others = runs = told_apart(runs)
    generations = (compare_generations(baseline, other) for other in others)
    benchmarks = (compare_benchmarks(baseline, other) for other in others)
    return Comparison(
        baseline=baseline.name,
        unfinished=tuple(unfinished(runs)),
        warnings=tuple(warnings(runs)),
        generations=tuple(generation for generation in generations if generation is not None),
        pairs=tuple(pair for other in others for pair in _pairs(baseline, other)),
        benchmarks=tuple(benchmark for benchmark in benchmarks if benchmark is not None),
    )


def told_apart(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with names of which no two are alike: with the directory that differs, else a number."""
    folders: dict[str, set[str]] = {}
    for run in runs:
        folders.setdefault(run.name, set()).add(run.path.resolve().parent.name)
    names = [
        f"{run.path.resolve().parent.name}/{run.name}" if len(folders[run.name]) > 1 else run.name for run in runs
    ]
    amounts, seen = Counter(names), Counter[str]()
    found = []
    for run, name in zip(runs, names, strict=True):
        seen[name] += 1
        unique = f"{name} ({seen[name]})" if amounts[name] > 1 else name
        found.append(run if unique == run.name else replace(run, document={**run.document, "name": unique}))
    return found


def _pairs(baseline: Run, other: Run) -> Iterator[PairComparison]:
    """Compare two runs in every moment of the inference that both profiled, or as they are where there is none."""
    common = same_moments(baseline, other) or [(None, None)]
    for number, (ours, theirs) in enumerate(common):
        first, second = _moment(baseline, ours), _moment(other, theirs)
        remarks = list(_alone(baseline, other, common)) if number == 0 else []
        if in_both(baseline) or in_both(other):
            remarks.append(reason("same-execution", execution=execution_of(first.document)))
        pair = _pair(first, second)
        yield replace(pair, scene=ours, other_scene=theirs, remarks=(*remarks, *pair.remarks))


def _moment(run: Run, name: str | None) -> Run:
    return run if name is None else run.scene(name)


def _alone(baseline: Run, other: Run, common: Sequence[tuple[str | None, str | None]]) -> Iterator[Reason]:
    """Say which moments of each run the other one has nothing to compare with."""
    for place, run in enumerate((baseline, other)):
        if moments := unpaired(run, [names[place] for names in common]):
            yield reason("moments-alone", run=run.name, moments=moments)


def _pair(baseline: Run, other: Run) -> PairComparison:
    documents = baseline.document, other.document
    step = passes_of(baseline.document)[0] == "decode"
    standing = conditions(baseline, other, "step" if step else "pass")
    trees = _tree(baseline), _tree(other)
    roots = trees[0].root if trees[0] else None, trees[1].root if trees[1] else None
    found = whole(documents, roots, standing, step=step)
    pair = PairComparison(
        **vars(standing),
        whole=tuple(item for item in found if not item.missing),
        unmeasured=tuple(item.name for item in found if item.missing),
        normalised=tuple(normalised(documents, roots, standing)),
    )
    if trees[0] is None or trees[1] is None:
        return pair
    both, names = (trees[0], trees[1]), standing.names()
    alignment, parts = compare_parts(both, names)
    depth = by_depth(both, names) if alignment == "kind" else ()
    return replace(pair, alignment=alignment, parts=parts, depth=depth)


def _tree(run: Run) -> EnergyTree | None:
    return None if run.energy is None or run.energy.empty else energy_tree(run.energy)
