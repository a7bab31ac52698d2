"""How runs differ: whole models and components, each difference with an interval and a verdict.

The first run is the baseline. Components are aligned by name where both runs have the same components,
by kind (each added up over its components) where they do not: another model, or another granularity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from energyscope.errors import UsageError
from energyscope.runs.intervals import Interval, difference, interval, ratio
from energyscope.runs.tree import EnergyTree, Node, energy_tree, sum_energy

if TYPE_CHECKING:
    from energyscope.runs.store import Run

Verdict = Literal["less", "more", "no difference shown", "not comparable"]
Alignment = Literal["component", "kind"]

# (what is said, section of run.json, key): joules measured under different ones differ for that reason alone
_CONDITIONS = (
    ("GPU board", "device", "uuid"),
    ("device", "device", "name"),
    ("driver", "environment", "driver"),
    ("power limit", "device", "power_limit_w"),
    ("sampling", "settings", "sampling"),
    ("phase", "settings", "phase"),
    ("meter", "sensor", "meter"),
    ("stated watts", "sensor", "watts"),
    ("batch size", "workload", "batch_size"),
    ("sequence length", "workload", "sequence_length"),
)
# Joules may be compared across these: what they change is the question.
_VARIED = (
    ("execution", "settings", "execution"),
    ("model", "model", "name"),
    ("weights", "model", "weights"),
    ("precision", "settings", "precision"),
    ("KV cache", "scene", "kv_cache"),
)
_OF_DECODE = frozenset({"phase", "sequence length"})  # conditions that say nothing of a decode step: its name does
_MEANINGS = {"execution": ", so a difference holds what launching from the host costs"}
_ASSUMED = {"sampling": "replay", "execution": "eager"}  # of runs made before there was a choice


@dataclass(frozen=True)
class Difference:
    """One quantity of the baseline and of another run.

    ``change`` is other - baseline in the quantity's unit, ``relative`` the ratio other / baseline; both
    None where a value is missing. ``reason`` says why there is no verdict of less or more.
    """

    name: str
    unit: str
    baseline: Interval | None
    other: Interval | None
    change: Interval | None
    relative: Interval | None
    verdict: Verdict
    reason: str | None = None
    kind: str | None = None


@dataclass(frozen=True)
class PairComparison:
    """The baseline against one other run. ``obstacles`` make joules not comparable, ``notes`` do not.

    ``scene`` is the moment of the inference that both profiled (``decode@1024``), None of runs without a choice.
    """

    baseline: str
    other: str
    obstacles: tuple[str, ...]
    notes: tuple[str, ...]
    whole: tuple[Difference, ...]
    alignment: Alignment
    parts: tuple[Difference, ...]
    scene: str | None = None

    @property
    def largest(self) -> list[Difference]:
        """The parts by the size of their change, largest first; those without one last."""
        return sorted(self.parts, key=lambda part: -abs(part.change.value) if part.change else 1.0)


@dataclass(frozen=True)
class Comparison:
    """A baseline run against every other run."""

    baseline: str
    pairs: tuple[PairComparison, ...]


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare runs with the first of them.

    Raises:
        UsageError: fewer than two runs were given.

    """
    if len(runs) < 2:
        raise UsageError("compare needs at least two runs: energyscope compare RUN RUN")
    baseline, *others = runs
    return Comparison(baseline.name, tuple(pair for other in others for pair in _pairs(baseline, other)))


def _pairs(baseline: Run, other: Run) -> Iterator[PairComparison]:
    """Compare two runs in every moment of the inference that both profiled, or as they are where there is none."""
    named = [one["name"] for one in other.scenes]
    common = [one["name"] for one in baseline.scenes if one["name"] in named]
    if not common:
        yield _pair(baseline, other)
    for name in common:
        ignored = _OF_DECODE if name.startswith("decode") else frozenset[str]()
        yield replace(_pair(baseline.scene(name), other.scene(name), ignored), scene=name)


def _pair(baseline: Run, other: Run, ignored: frozenset[str] = frozenset()) -> PairComparison:
    obstacles, notes = _conditions(baseline.document, other.document, ignored)
    trees = (_tree(baseline), _tree(other))
    alignment, parts = _parts(*trees, obstacles)
    whole = (*_whole(*trees, obstacles), *_quality(baseline, other))
    return PairComparison(
        baseline=baseline.name,
        other=other.name,
        obstacles=obstacles,
        notes=notes,
        whole=whole,
        alignment=alignment,
        parts=parts,
    )


def _tree(run: Run) -> EnergyTree | None:
    return None if run.energy is None or run.energy.empty else energy_tree(run.energy)


def _conditions(
    first: dict[str, Any], second: dict[str, Any], ignored: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    asked = [one for one in _CONDITIONS if one[0] not in ignored]
    obstacles = [f"{label}: {one} against {two}" for label, one, two in _unlike(first, second, asked)]
    both_modelled = all((document.get("sensor") or {}).get("modelled") for document in (first, second))
    notes = ["both are MODELLED: a difference of joules is a difference of time"] if both_modelled else []
    for label, one, two in _unlike(first, second, _VARIED):
        notes.append(f"{label}: {one} against {two}{_MEANINGS.get(label, '')}")
    return tuple(obstacles), tuple(notes)


def _unlike(
    first: dict[str, Any], second: dict[str, Any], conditions: Iterable[tuple[str, str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield the conditions that differ, with what each run says."""
    for label, section, key in conditions:
        one, two = (_condition(document, section, key) for document in (first, second))
        if one != two:
            yield label, _said(one), _said(two)


def _condition(document: dict[str, Any], section: str, key: str) -> Any:
    value = (document.get(section) or {}).get(key)
    return _ASSUMED.get(key) if value is None else value


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)


def _whole(
    first: EnergyTree | None, second: EnergyTree | None, obstacles: tuple[str, ...]
) -> tuple[Difference, ...]:
    one, two = (tree.root if tree else None for tree in (first, second))
    energy = _difference("energy per forward pass", "mJ", _energy(one), _energy(two), obstacles)
    columns = (
        ("static energy", "mJ", "static_mj"),
        ("dynamic energy", "mJ", "dynamic_mj"),
        ("latency", "us", "time_us"),
        ("mean power", "W", "power_w"),
    )
    rest = [
        _difference(label, unit, _column(one, column), _column(two, column), obstacles)
        for label, unit, column in columns
    ]
    return (energy, *rest)


def _energy(node: Node | None) -> Interval | None:
    return node.energy if node else None


def _column(node: Node | None, column: str) -> Interval | None:
    return interval(node.row.get(column)) if node else None


def _quality(baseline: Run, other: Run) -> list[Difference]:
    """Compare accuracy or perplexity; what was evaluated must be the same, the board need not be."""
    evaluations = [(run.document.get("workload") or {}).get("evaluation") or {} for run in (baseline, other)]
    scores = [evaluation.get("baseline") or {} for evaluation in evaluations]
    differ = [
        f"{label}: {_said(evaluations[0].get(key))} against {_said(evaluations[1].get(key))}"
        for label, key in (("evaluation data", "source"), ("examples", "examples"))
        if evaluations[0].get(key) != evaluations[1].get(key)
    ]
    return [
        _difference(metric, "", interval(scores[0].get(metric)), interval(scores[1].get(metric)), tuple(differ))
        for metric in dict.fromkeys([*scores[0], *scores[1]])
    ]


def _parts(
    first: EnergyTree | None, second: EnergyTree | None, obstacles: tuple[str, ...]
) -> tuple[Alignment, tuple[Difference, ...]]:
    if first is None or second is None:
        return "component", ()
    names = [{node.name: node for node in tree.nodes if node is not tree.root} for tree in (first, second)]
    if names[0].keys() == names[1].keys():
        return "component", tuple(
            replace(_difference(name, "mJ", node.energy, names[1][name].energy, obstacles), kind=node.kind)
            for name, node in names[0].items()
        )
    return "kind", tuple(_by_kind(first, second, obstacles))


def _topmost(tree: EnergyTree, kind: str) -> list[Node]:
    """Return the nodes of a kind that lie in no other node of it: a parent has its children's energy in it."""
    names = {node.name for node in tree.nodes if node.kind == kind}
    parents = {node.name: node.parent for node in tree.nodes}

    def inside(name: str | None) -> bool:
        while name is not None:
            if name in names:
                return True
            name = parents.get(name)
        return False

    return [node for node in tree.nodes if node.kind == kind and not inside(node.parent)]


def _by_kind(first: EnergyTree, second: EnergyTree, obstacles: tuple[str, ...]) -> list[Difference]:
    kinds = dict.fromkeys(node.kind for tree in (first, second) for node in tree.nodes if node is not tree.root)
    found = []
    for kind in kinds:
        one, two = (sum_energy(_topmost(tree, kind)) for tree in (first, second))
        found.append(replace(_difference(kind, "mJ", one, two, obstacles), kind=kind))
    return found


def _difference(
    name: str, unit: str, baseline: Interval | None, other: Interval | None, obstacles: tuple[str, ...]
) -> Difference:
    if baseline is None or other is None:
        missing = "neither run has it" if baseline is other else "only one of the runs has it"
        return Difference(name, unit, baseline, other, None, None, "not comparable", missing)
    change, relative = difference(other, baseline), ratio(other, baseline)
    verdict, reason = _verdict(change, obstacles)
    return Difference(name, unit, baseline, other, change, relative, verdict, reason)


def _verdict(change: Interval, obstacles: tuple[str, ...]) -> tuple[Verdict, str | None]:
    if obstacles:
        return "not comparable", "; ".join(obstacles)
    if not change.known:
        return "no difference shown", "no interval is known for it"
    if not change.excludes(0.0):
        return "no difference shown", "the interval of the difference includes zero"
    return ("more" if change.value > 0 else "less"), None
