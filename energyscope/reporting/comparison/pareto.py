"""Energy against accuracy or perplexity: which runs and precisions no other one beats in both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from energyscope.reporting import text
from energyscope.reporting.comparison.drawing_plane import Place, plane
from energyscope.reporting.comparison.source import Source
from energyscope.reporting.comparison.words import digits_apart
from energyscope.reporting.figure import Figure, Table
from energyscope.runs.compare_benchmark import cells_of, given, predictions_of, said_of_shape
from energyscope.runs.compare_normalised import tokens_of
from energyscope.runs.intervals import Interval, interval, not_negative
from energyscope.runs.store import Run

_LARGER_IS_BETTER = {"accuracy": True, "perplexity": False}


@dataclass(frozen=True)
class Candidate:
    """A run, or one precision and shape of its benchmark: energy per token (mJ) and how well it predicts."""

    run: str
    name: str
    energy: Interval
    score: Interval
    comparable: bool
    invalid: bool


def pareto_figures(source: Source) -> list[Figure]:
    """Return a chart for each metric that at least two runs measured beside energy."""
    return [figure for metric in _LARGER_IS_BETTER if (figure := _figure(source, metric))]


def candidates(source: Source, metric: str) -> list[Candidate]:
    """Return all that has an energy and a score of this metric on the baseline's evaluation data."""
    found: list[Candidate] = []
    evaluated = _evaluation(source.runs[0])
    for run in source.runs:
        if _evaluation(run) == evaluated:
            found += list(_of_benchmark(source, run, metric)) or list(_of_profile(source, run, metric))
    return found


def frontier(found: list[Candidate], metric: str) -> list[Candidate]:
    """Return the comparable candidates that no other one beats in both, by rising energy."""
    better = 1 if _LARGER_IS_BETTER[metric] else -1
    chosen: list[Candidate] = []
    for one in sorted(found, key=lambda one: (one.energy.value, -better * one.score.value)):
        beaten = chosen and better * one.score.value <= better * chosen[-1].score.value
        if one.comparable and not one.invalid and not beaten:
            chosen.append(one)
    return chosen


def _evaluation(run: Run) -> tuple[object, object]:
    found = (run.document.get("workload") or {}).get("evaluation") or {}
    return found.get("source"), found.get("examples")


def _comparable(source: Source, run: Run) -> bool:
    """Whether the joules of a run stand beside the baseline's: per token, only what is fed may differ."""
    comparison = source.comparison
    obstacles = [one for pair in comparison.pairs if pair.other == run.name for one in pair.obstacles]
    obstacles += [one for pair in comparison.benchmarks if pair.other == run.name for one in pair.obstacles]
    return run is source.runs[0] or all(one.startswith(("batch size:", "sequence length:")) for one in obstacles)


def _of_benchmark(source: Source, run: Run, metric: str) -> Iterator[Candidate]:
    scores = predictions_of(run.benchmark or {})
    for shape, cell in cells_of(run.benchmark or {}).items():
        score = given((scores.get((shape[0], metric)) or {}).get("value"))
        energy, tokens = not_negative(given(cell.get("energy_mj"))), shape[1] * shape[2]
        if score and energy and tokens:
            invalid = cell.get("quality") == "invalid"
            comparable = _comparable(source, run)
            yield Candidate(run.name, said_of_shape(shape), energy.scaled(1 / tokens), score, comparable, invalid)


def _of_profile(source: Source, run: Run, metric: str) -> Iterator[Candidate]:
    evaluation = (run.document.get("workload") or {}).get("evaluation") or {}
    score = interval((evaluation.get("baseline") or {}).get(metric))
    tree = next(
        (tree for (name, scene), tree in source.trees.items() if name == run.name and scene in {None, "prefill"}),
        None,
    )
    root = tree.root if tree else None
    tokens = tokens_of(run.document, root)
    if score and root and root.energy and tokens:
        precision = str((run.document.get("settings") or {}).get("precision") or "")
        energy = root.energy.scaled(1 / tokens)
        yield Candidate(run.name, precision, energy, score, _comparable(source, run), root.invalid)


def _figure(source: Source, metric: str) -> Figure | None:
    found = candidates(source, metric)
    if len({one.run for one in found}) < 2:
        return None
    best = frontier(found, metric)
    factor = 100.0 if metric == "accuracy" else 1.0
    divisor, unit = text.scale_of(max(one.energy.value for one in found), "mJ")
    digits = digits_apart([one.score.value * factor for one in found])
    scores = {id(one): _score(one, metric, digits) for one in found}
    places = [
        Place(one.run, one.energy.scaled(1 / divisor), one.score.scaled(factor), one.name.partition(",")[0],
              f"{text.amount(one.energy, 'mJ')} per token, {scores[id(one)]}",
              weak=one.invalid or not one.comparable, label=one.name.partition(",")[0])
        for one in found
    ]  # fmt: skip
    line = [(one.energy.value / divisor, one.score.value * factor) for one in best]
    summary = f"{source.word_before} per token against {metric}; not beaten: " + text.listed(
        [f"{one.run} {one.name}" for one in best], 8
    )
    shown = {id(one) for one in best}
    rows = [
        [
            one.run,
            one.name,
            text.amount(one.energy, "mJ"),
            scores[id(one)],
            _not_beaten(one, shown=id(one) in shown),
        ]
        for one in found
    ]
    weak = any(place.weak for place in places)
    names = [name for name in source.names if any(one.run == name for one in found)]
    hollow = " Hollow: its joules are not comparable with the baseline's, or below grade C; it takes no part."
    better = "higher" if _LARGER_IS_BETTER[metric] else "lower"
    titles = (f"{source.word_before} per token ({unit})", metric.capitalize() + (" (%)" if factor > 1 else ""))
    return Figure(
        name=f"pareto-{metric}",
        section="pareto",
        title=f"{source.word_before} against {metric}",
        caption=f"Dashed: those that no other one beats in both ({better} {metric} is better), by their values; "
        f"intervals may overlap. All on the same evaluation data.{hollow if weak else ''}",
        summary=summary,
        chart=plane(places, names, titles, summary, frontier=line),
        table=Table(["run", "at", "energy per token [95 %]", metric, "not beaten"], rows),
    )


def _not_beaten(one: Candidate, *, shown: bool) -> str:
    """Say whether no other beats it; one that takes no part is not said to be beaten."""
    if one.invalid or not one.comparable:
        return "not compared"
    return "yes" if shown else "no"


def _score(one: Candidate, metric: str, digits: int) -> str:
    """Write a score with its limits, and with so many digits that other scores do not look equal."""
    score = one.score.scaled(100.0) if metric == "accuracy" else one.score
    unit = " %" if metric == "accuracy" else ""
    limits = f" {text.limits(score, '')}" if score.known else ""
    return f"{text.number(score.value, digits)}{unit}{limits}"
