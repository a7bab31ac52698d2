"""How runs differ: generations, whole models and components, each difference with an interval and a verdict.

The first run is the baseline. Components are aligned by name where both runs have the same components,
by kind (each added up over its components) where they do not: another model, or another granularity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from energyscope.errors import UsageError
from energyscope.runs.compare_benchmark import BenchmarkComparison, CellComparison, compare_benchmarks
from energyscope.runs.compare_conditions import OF_DECODE, both_modelled, conditions, said_of, unfinished, warnings
from energyscope.runs.compare_depth import by_depth
from energyscope.runs.compare_difference import Difference, Verdict, compared, said_invalid
from energyscope.runs.compare_generation import GenerationComparison, compare_generations
from energyscope.runs.compare_names import told_apart
from energyscope.runs.compare_normalised import normalised
from energyscope.runs.compare_parts import Alignment, compare_parts
from energyscope.runs.intervals import Interval, interval
from energyscope.runs.method import execution_of
from energyscope.runs.moments import in_both, same_moments, unpaired
from energyscope.runs.tree import EnergyTree, Node, energy_tree

if TYPE_CHECKING:
    from energyscope.runs.store import Run

__all__ = [
    "Alignment", "BenchmarkComparison", "CellComparison", "Comparison", "Difference", "GenerationComparison",
    "PairComparison", "Verdict", "compare",
]  # fmt: skip

_SCORES = {"accuracy", "perplexity"}


@dataclass(frozen=True)
class PairComparison:
    """The baseline against one other run. ``obstacles`` make joules not comparable, ``notes`` do not.

    ``scene`` is the moment of the inference that both profiled (``decode@1024``), None of runs without a choice;
    ``other_scene`` is the other run's name for it, which differs where a run measured it in two executions.
    ``unmeasured`` names what neither run has of the whole model; it is not in ``whole``. ``normalised`` is the
    whole model's energy for a unit of work; ``depth`` are layers by relative depth where they are not aligned.
    """

    baseline: str
    other: str
    obstacles: tuple[str, ...]
    notes: tuple[str, ...]
    whole: tuple[Difference, ...]
    alignment: Alignment
    parts: tuple[Difference, ...]
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

    ``unfinished`` says which stages of which run are not done, ``warnings`` are those of all runs. There is one of
    ``generations`` for every other run that traced one as the baseline did, and one of ``benchmarks`` for every
    other run that has one as well.
    """

    baseline: str
    unfinished: tuple[str, ...]
    warnings: tuple[str, ...]
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
        unfinished=unfinished(runs),
        warnings=warnings(runs),
        generations=tuple(one for one in generations if one is not None),
        pairs=tuple(pair for other in others for pair in _pairs(baseline, other)),
        benchmarks=tuple(one for one in benchmarks if one is not None),
    )


def _pairs(baseline: Run, other: Run) -> Iterator[PairComparison]:
    """Compare two runs in every moment of the inference that both profiled, or as they are where there is none."""
    common = same_moments(baseline, other)
    if not common:
        yield _pair(baseline, other)
    for number, (ours, theirs) in enumerate(common):
        first, second = baseline.scene(ours), other.scene(theirs)
        pair = _pair(first, second, decode=ours.startswith("decode"))
        notes = [*_same_execution(baseline, other, first), *([] if number else _alone(baseline, other, common))]
        yield replace(pair, scene=ours, other_scene=theirs, notes=(*notes, *pair.notes))


def _same_execution(baseline: Run, other: Run, moment: Run) -> list[str]:
    """Say in which execution a moment is compared, where one of the runs has it in two."""
    return [f"execution of both: {execution_of(moment.document)}"] if in_both(baseline) or in_both(other) else []


def _alone(baseline: Run, other: Run, common: Sequence[tuple[str, str]]) -> list[str]:
    """Say which moments of each run the other one has nothing to compare with."""
    lone = ((baseline, [ours for ours, _ in common]), (other, [theirs for _, theirs in common]))
    named = [(run.name, unpaired(run, names)) for run, names in lone]
    return [f"in {name} alone, and not compared: {', '.join(moments)}" for name, moments in named if moments]


def _pair(baseline: Run, other: Run, *, decode: bool = False) -> PairComparison:
    ignored = OF_DECODE if decode else frozenset[str]()
    obstacles, notes = conditions(baseline.document, other.document, ignored)
    trees = (_tree(baseline), _tree(other))
    roots = (trees[0].root if trees[0] else None, trees[1].root if trees[1] else None)
    alignment, parts = compare_parts(*trees, obstacles)
    depth = by_depth(trees[0], trees[1], obstacles) if alignment == "kind" and trees[0] and trees[1] else ()
    modelled = both_modelled(baseline.document, other.document)
    whole = [*_whole(*trees, obstacles, decode=decode, modelled=modelled), *_quality(baseline, other)]
    return PairComparison(
        baseline=baseline.name,
        other=other.name,
        obstacles=obstacles,
        notes=notes,
        whole=tuple(item for item in whole if not item.missing),
        alignment=alignment,
        parts=parts,
        unmeasured=tuple(item.name for item in whole if item.missing),
        normalised=normalised((baseline.document, other.document), roots, obstacles),
        depth=depth,
    )


def _tree(run: Run) -> EnergyTree | None:
    return None if run.energy is None or run.energy.empty else energy_tree(run.energy)


def _whole(
    first: EnergyTree | None,
    second: EnergyTree | None,
    obstacles: tuple[str, ...],
    *,
    decode: bool,
    modelled: bool,
) -> Iterator[Difference]:
    """Yield what the whole model takes; of two modelled runs no power, which is not measured but stated."""
    one, two = (tree.root if tree else None for tree in (first, second))
    label = "energy per decode step" if decode else "energy per forward pass"
    invalid = said_invalid(bool(one and one.invalid), bool(two and two.invalid))
    yield compared(label, "mJ", _energy(one), _energy(two), obstacles, invalid)
    for name in ("static", "dynamic"):
        column = f"{name}_mj"
        yield compared(f"{name} energy", "mJ", _column(one, column), _column(two, column), obstacles, invalid)
    yield compared("latency", "us", _latency(one, modelled), _latency(two, modelled), obstacles)
    if not modelled:
        yield compared("mean power", "W", _column(one, "power_w"), _column(two, "power_w"), obstacles)


def _energy(node: Node | None) -> Interval | None:
    return node.energy if node else None


def _column(node: Node | None, column: str) -> Interval | None:
    return interval(node.row.get(column)) if node else None


def _latency(node: Node | None, modelled: bool) -> Interval | None:
    """Return a node's time in us; modelled energy is time multiplied by watts, so its interval is the time's."""
    time_us = _column(node, "time_us")
    if node is None or not modelled or time_us is None or node.energy is None or node.energy.value <= 0:
        return time_us
    return node.energy.scaled(time_us.value / node.energy.value)


def _quality(baseline: Run, other: Run) -> list[Difference]:
    """Compare accuracy or perplexity; what was evaluated must be the same, the board need not be."""
    evaluations = [(run.document.get("workload") or {}).get("evaluation") or {} for run in (baseline, other)]
    scores = [evaluation.get("baseline") or {} for evaluation in evaluations]
    differ = [
        f"{label}: {said_of(evaluations[0].get(key))} against {said_of(evaluations[1].get(key))}"
        for label, key in (("evaluation data", "source"), ("examples", "examples"))
        if evaluations[0].get(key) != evaluations[1].get(key)
    ]
    return [
        compared(metric, "", interval(scores[0].get(metric)), interval(scores[1].get(metric)), tuple(differ))
        for metric in dict.fromkeys([*scores[0], *scores[1]])
        if metric in _SCORES  # the others only say of how much
    ]
