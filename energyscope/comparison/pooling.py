"""Several runs of one model under the same settings as one estimate, with the variance between the runs.

Each run's value is y_i = mu + u_i + e_i: e_i is the run's own error, u_i what differs from run to run, with
variance tau^2. The run's standard error is half of its 95 % interval over 1.96; an interval of few windows is
wider for Student's t, and so is this standard error: tau^2 is then smaller, their sum, of which the interval is
made, is not.

tau^2 solves sum w_i (y_i - mu)^2 = k - 1 with w_i = 1 / (se_i^2 + tau^2), and is 0 where there is no solution
(Paule and Mandel, J. Res. Natl. Bur. Stand. 87 (1982), 377-385). The interval is that of Hartung and Knapp
(Statistics in Medicine 20 (2001), 3875-3889) and of Sidik and Jonkman (21 (2002), 3153-3159): mu +- t(k - 1)
sqrt(q / sum w_i), q = sum w_i (y_i - mu)^2 / (k - 1). With this tau^2, q is 1 wherever tau^2 > 0. Where tau^2 is
0, q may be below 1, and 1 is taken for it (Roever, Knapp and Friede, BMC Med. Res. Methodol. 15 (2015), 99): so
the interval is never narrower than the one without a variance between runs.

In the interval: the runs' own errors, and all that differs from run to run: idle power of the minute, temperature,
host, and between boards the calibration of each one's sensor. Not in it: what all runs share. Runs on one board
share its calibration, and of no board is it known how far all sensors of its kind are off. Where some of several
boards have more than one run, those are taken as independent, although they share a calibration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope import format as fmt
from energyscope.comparison.basis import DYNAMIC, MEASURES, TOTAL, Basis, Measure, basis_of
from energyscope.comparison.compare import read_runs
from energyscope.comparison.conditions import (
    BOARD,
    NAMES,
    Condition,
    RunComparison,
    boards_of,
    conditions,
    value_of,
)
from energyscope.comparison.difference import WORK_PER_GENERATED
from energyscope.comparison.whole import GENERATION, compare_generations
from energyscope.errors import UsageError
from energyscope.grouping import group_by
from energyscope.intervals import Interval, not_negative
from energyscope.metering.grades import GRADES, INVALID
from energyscope.metering.interval import NORMAL_QUANTILE, student_t
from energyscope.reasons import Reason, reason
from energyscope.runs.method import passes_of
from energyscope.runs.phases import same_phases
from energyscope.runs.tree import EnergyTree, Node, energy_tree

if TYPE_CHECKING:
    from energyscope.comparison.compare import GivenRun
    from energyscope.runs.store import Run

WHOLE = "whole pass"
_HALVINGS = 100
_MAY_DIFFER = frozenset({BOARD, "driver", "clocks"})  # a board's clock under load is its own
_ALSO = {"model.parameters": "parameters", "workload.tokens": "tokens"}  # for `compare` these are no matter
_SAID = (BOARD, "driver", "environment.torch", "environment.transformers", "clocks")


@dataclass(frozen=True)
class PooledPart:
    """A component, the whole pass, or a token of a generation, over the runs that have a valid value of it (mJ).

    ``value`` is the pooled energy with its 95 % interval, ``between`` the standard deviation between runs; both
    None where fewer than two runs have a value. ``measured`` are those by run; ``reasons`` say why others are left
    out. It stands for ``count`` components where every run measured them together.
    """

    name: str
    kind: str
    count: int
    value: Interval | None
    between: float | None
    measured: Mapping[str, Interval]
    reasons: tuple[Reason, ...] = ()

    @property
    def between_share(self) -> float | None:
        """The standard deviation between runs as a share of the value; None where that is not above 0."""
        if self.value is None or self.between is None or self.value.value <= 0:
            return None
        return self.between / self.value.value

    @property
    def quality(self) -> str | None:
        """The grade that the pooled interval's width has; None where nothing is pooled."""
        if self.value is None:
            return None
        half = fmt.relative(self.value)
        fitting = (name for name, limit in GRADES.items() if half is not None and half <= limit)
        return next(fitting, INVALID)


@dataclass(frozen=True)
class PooledPass:
    """One phase: ``basis`` says whether parts are of all energy or of work (eager runs); largest parts first.

    ``old_eager``: of eager runs that do not all grade their work, all energy is pooled, the host's time in it.
    """

    scene: str | None
    basis: Basis
    old_eager: bool
    whole: PooledPart
    parts: tuple[PooledPart, ...]


@dataclass(frozen=True)
class Pooled:
    """Runs as one estimate: their names, the boards of each (None: no GPU), and what differs, by name.

    ``generation`` has what a token took in traced generations, all energy; empty where not every run has one.
    """

    runs: tuple[str, ...]
    model: str
    device: str
    modelled: bool
    boards: Mapping[str, str | None]
    differing: Mapping[str, tuple[Any, ...]]
    passes: tuple[PooledPass, ...]
    generation: tuple[PooledPart, ...] = ()

    def _repr_html_(self) -> str:
        """Show sentences and table where a notebook shows the estimate."""
        from energyscope.reporting.comparison.notebook import pooled_screen

        return pooled_screen(self)


def pool(*given: GivenRun | Iterable[GivenRun]) -> Pooled:
    """Make one estimate of several runs of one model under the same settings.

    They are given one by one or in a list, also by their paths or names.

    Raises:
        UsageError: fewer than two runs, one of them twice, or other settings than those of the first.
        RunError: one cannot be read.

    """
    runs = read_runs("pool", given)
    first = runs[0]
    shared = [dict(same_phases(first, other) or [(None, None)]) for other in runs]  # its own names first
    scenes = [name for name in shared[0] if all(name in names for names in shared)]
    if not scenes:
        raise UsageError("the runs have no phase in common: pool takes runs under the same settings")
    in_scenes = [
        (scene, [_of_scene(run, names[scene]) for run, names in zip(runs, shared, strict=True)])
        for scene in scenes
    ]
    for _, of_scene in in_scenes:
        for other in of_scene[1:]:
            _refuse_unlike(of_scene[0], other)
    if len(set(map(_measured, runs))) < len(runs):
        raise UsageError("a run is given twice, or beside a copy: it adds nothing to itself; name each once")
    values = {field: tuple(value_of(run.document, field) for run in runs) for field in (*_SAID, "created")}
    return Pooled(
        runs=tuple(run.name for run in runs),
        model=str(value_of(first.document, "model.name")),
        device=str(value_of(first.document, "device.name")),
        modelled=first.modelled,
        boards={run.name: boards_of(run.document) for run in runs},
        differing={NAMES[field]: given for field, given in values.items() if len(set(given)) > 1},
        passes=tuple(_pass(scene, of_scene) for scene, of_scene in in_scenes),
        generation=tuple(_generation(runs)),
    )


def random_effects(values: Sequence[Interval]) -> tuple[Interval, float]:
    """Return the mean of values with its 95 % interval, and the standard deviation between them.

    Each of the two or more has limits that lie apart.
    """
    size = max(abs(item.value) for item in values) or 1.0
    means = [item.value / size for item in values]
    variances = [((item.above + item.below) / 2 / NORMAL_QUANTILE / size) ** 2 for item in values]
    freedom = len(values) - 1

    def fit(between: float) -> tuple[float, float, float]:
        weights = [1 / (variance + between) for variance in variances]
        total = sum(weights)
        mean = sum(weight * value for weight, value in zip(weights, means, strict=True)) / total
        return mean, total, sum(weight * (value - mean) ** 2 for weight, value in zip(weights, means, strict=True))

    between = 0.0
    if fit(0.0)[2] > freedom:
        middle = sum(means) / len(means)
        low, high = 0.0, sum((value - middle) ** 2 for value in means) / freedom  # where it is freedom at most
        for _ in range(_HALVINGS):
            between = (low + high) / 2
            low, high = (between, high) if fit(between)[2] > freedom else (low, between)
    mean, total, squares = fit(between)
    half = student_t(freedom) * math.sqrt(max(squares / freedom, 1.0) / total)
    return Interval(mean * size, (mean - half) * size, (mean + half) * size), math.sqrt(between) * size


def _measured(run: Run) -> tuple[Any, ...]:
    """Return what two runs never have in common: when they were made, with all energies."""
    energies = () if run.energy is None else tuple(run.energy["energy_mj"].fillna(0.0))
    return run.document.get("created"), energies


def _of_scene(run: Run, scene: str | None) -> Run:
    return run if scene is None else run.scene(scene)


def _refuse_unlike(first: Run, other: Run) -> None:
    step = passes_of(first.document)[0] == "decode"
    found: list[RunComparison] = [conditions(first, other, "step" if step else "pass")]
    if (generations := compare_generations(first, other)) is not None:
        found.append(generations)
    unlike = list(
        dict.fromkeys(
            item for one in found for item in (*one.obstacles, *one.notes) if item.field not in _MAY_DIFFER
        )
    )
    for field, name in _ALSO.items():
        values = [value_of(run.document, field) for run in (first, other)]
        if values[0] != values[1]:
            unlike.append(Condition(field, name, *values))
    if unlike:
        what = ", ".join(f"{item.name} ({item.baseline}, {item.other})" for item in unlike)
        raise UsageError(
            f"{first.name} and {other.name} differ in {what}: pool takes runs under the same settings; "
            "`energyscope compare` shows how others differ"
        )


def _generation(runs: Sequence[Run]) -> Iterator[PooledPart]:
    """Yield the energies of a token in generations, where every run has one; the host's too where it was read."""
    documents = {run.name: run.generation for run in runs if run.generation is not None}
    if len(documents) < len(runs):
        return
    for name, unit, read, _ in GENERATION:
        values = {run: (read(document), False) for run, document in documents.items()}
        known = any(value is not None for value, _ in values.values())
        if unit == "mJ" and name != WORK_PER_GENERATED and known:  # work has no interval
            yield _pooled(name, "generation", 1, values)


def _pass(scene: str | None, runs: Sequence[Run]) -> PooledPass:
    trees = {run.name: _tree(run) for run in runs}
    eager = basis_of([run.document for run in runs]) == DYNAMIC
    basis = DYNAMIC if eager and all(tree.by_work for tree in trees.values()) else TOTAL
    measure = MEASURES[basis]
    whole = _pooled_nodes(WHOLE, {name: tree.root for name, tree in trees.items()}, 1, measure)
    parts = sorted(_parts(trees, measure), key=_size, reverse=True)
    return PooledPass(scene, basis, eager and basis == TOTAL, whole, tuple(parts))


def _tree(run: Run) -> EnergyTree:
    if run.energy is None or run.energy.empty:
        raise UsageError(f"{run.name} has no energies of components: `energyscope run` with the stage profile")
    return energy_tree(run.energy)


def _parts(trees: Mapping[str, EnergyTree], measure: Measure) -> Iterator[PooledPart]:
    """Yield the components; those that share one measurement in every run are one."""
    by_run = {
        run: {node.name: node for node in tree.nodes if node is not tree.root} for run, tree in trees.items()
    }
    names = dict.fromkeys(name for nodes in by_run.values() for name in nodes)
    rows = [{run: nodes.get(name) for run, nodes in by_run.items()} for name in names]
    for group in group_by(rows, lambda row: tuple(node and node.source for node in row.values())).values():
        nodes = [node for node in group[0].values() if node is not None]
        sources = {node.source for node in nodes}
        name = nodes[0].name if len(group) == 1 else nodes[0].source if len(sources) == 1 else nodes[0].group
        yield _pooled_nodes(name, group[0], len(group), measure)


def _pooled_nodes(name: str, nodes: Mapping[str, Node | None], count: int, measure: Measure) -> PooledPart:
    kind = next((node.kind for node in nodes.values() if node is not None), "")
    values = {
        run: (None, False) if node is None else (measure.of(node), measure.invalid(node))
        for run, node in nodes.items()
    }
    return _pooled(name, kind, count, values)


def _pooled(name: str, kind: str, count: int, values: Mapping[str, tuple[Interval | None, bool]]) -> PooledPart:
    """Pool the runs that have a valid value with an interval, and say why others are left out.

    ``values`` are by run, each with whether it is graded invalid.
    """
    measured, left = {}, dict[str, list[str]]()
    for run, (item, invalid) in values.items():
        if item is None:
            left.setdefault("not-measured-in", []).append(run)
        elif not item.known or item.above + item.below <= 0:
            left.setdefault("interval-unknown-in", []).append(run)
        elif invalid:
            left.setdefault("too-noisy", []).append(run)
        else:
            measured[run] = item
    reasons = [reason(code, whose=runs) for code, runs in left.items()]
    value = between = None
    if len(measured) > 1:
        value, between = random_effects(list(measured.values()))
        if all(item.low is not None and item.low >= 0 for item in measured.values()):  # not of a difference, then
            value = not_negative(value)
    return PooledPart(name, kind, count, value, between, measured, tuple(reasons))


def _size(part: PooledPart) -> float:
    known = part.value or next(iter(part.measured.values()), None)
    return known.value * part.count if known else -math.inf
