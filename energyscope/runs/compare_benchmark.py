"""How the benchmarks of two runs differ: the same precision, batch size and length of each, beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.runs.compare_conditions import OF_DECODE, conditions, said_of
from energyscope.runs.compare_difference import Difference, compared, said_invalid
from energyscope.runs.intervals import Interval, interval, not_negative

if TYPE_CHECKING:
    from energyscope.runs.store import Run

Entry = Mapping[str, Any]
Shape = tuple[str, int, int]  # precision, batch size, length

ENERGY = "energy per inference"
_OF_A_BENCHMARK = OF_DECODE | {"batch size", "sampling", "precision"}  # a benchmark's cells have their own
_MAY_BE_NEGATIVE = "dynamic_energy_mj"  # what is above idle may be unresolved
# (what is said, unit, key of a cell, factor to that unit, whether the energy's grade is its grade)
_QUANTITIES = (
    (ENERGY, "mJ", "energy_mj", 1.0, True),
    ("dynamic energy", "mJ", _MAY_BE_NEGATIVE, 1.0, True),
    ("latency", "us", "latency_s", 1e6, False),
    ("p95 latency", "us", "p95_latency_s", 1e6, False),
    ("mean power", "W", "power_w", 1.0, True),
    ("tokens per joule", "tokens/J", "tokens_per_joule", 1.0, True),
)


@dataclass(frozen=True)
class CellComparison:
    """One precision at one batch size and length; ``implementations`` where the runs used other kernels."""

    precision: str
    batch_size: int
    sequence_length: int
    rows: tuple[Difference, ...]
    implementations: str | None = None


@dataclass(frozen=True)
class BenchmarkComparison:
    """The benchmark of the baseline against that of another run. ``alone`` names cells that only one run has."""

    baseline: str
    other: str
    obstacles: tuple[str, ...]
    notes: tuple[str, ...]
    cells: tuple[CellComparison, ...]
    alone: tuple[str, ...]


def compare_benchmarks(baseline: Run, other: Run) -> BenchmarkComparison | None:
    """Compare two benchmarks cell by cell; None where a run has none."""
    first, second = baseline.benchmark, other.benchmark
    if first is None or second is None:
        return None
    obstacles, notes = conditions(baseline.document, other.document, _OF_A_BENCHMARK, phase="prefill")
    modelled = any(bool((run.document.get("sensor") or {}).get("modelled")) for run in (baseline, other))
    ours, theirs = cells_of(first), cells_of(second)
    shared = []
    for shape in (one for one in ours if one in theirs):
        rows = (
            *_rows(ours[shape], theirs[shape], obstacles, modelled=modelled),
            *_quality(baseline, other, shape[0]),
        )
        shared.append(CellComparison(*shape, rows, _implementations(first, second, shape[0])))
    alone = [
        f"{said_of_shape(shape)} ({name})"
        for name, mine, others in ((baseline.name, ours, theirs), (other.name, theirs, ours))
        for shape in mine
        if shape not in others
    ]
    return BenchmarkComparison(baseline.name, other.name, obstacles, notes, tuple(shared), tuple(alone))


def cells_of(benchmark: Entry) -> dict[Shape, Entry]:
    """Return a benchmark's cells by precision, batch size and length."""
    return {
        (str(cell.get("precision")), int(cell.get("batch_size") or 0), int(cell.get("sequence_length") or 0)): cell
        for cell in benchmark.get("cells") or ()
    }


def said_of_shape(shape: Shape) -> str:
    """Write a cell's precision and shape, such as ``"fp16, batch 32 x 128 tokens"``."""
    precision, batch, length = shape
    return f"{precision}, batch {batch} x {length} tokens"


def given(entry: Entry | None, factor: float = 1.0) -> Interval | None:
    """Read a value with its limits."""
    found = interval(entry.get("value"), entry.get("low"), entry.get("high")) if entry else None
    return found.scaled(factor) if found else None


def predictions_of(benchmark: Entry) -> dict[tuple[str, str], Entry]:
    """Return what was predicted how well, by precision and metric."""
    return {(str(one.get("precision")), str(one.get("metric"))): one for one in benchmark.get("predictions") or ()}


def _rows(first: Entry, second: Entry, obstacles: tuple[str, ...], *, modelled: bool) -> Iterator[Difference]:
    grades = said_invalid(*(cell.get("quality") == "invalid" for cell in (first, second)))
    for label, unit, key, factor, graded in _QUANTITIES:
        if modelled and key == "power_w":
            continue  # it is as stated, not measured
        one, two = (given(cell.get(key), factor) for cell in (first, second))
        if key != _MAY_BE_NEGATIVE:
            one, two = not_negative(one), not_negative(two)
        item = compared(label, unit, one, two, obstacles, grades if graded else None)
        if not item.missing:
            yield item


def _quality(baseline: Run, other: Run, precision: str) -> Iterator[Difference]:
    """Yield accuracy or perplexity of one precision; what was evaluated must be the same, not the board."""
    sources = [((run.document.get("workload") or {}).get("evaluation") or {}).get("source")
               for run in (baseline, other)]  # fmt: skip
    ours, theirs = (predictions_of(run.benchmark or {}) for run in (baseline, other))
    for key, first in ours.items():
        second = theirs.get(key)
        if key[0] != precision or second is None:
            continue
        asked = (("evaluation data", *sources), ("examples", first.get("examples"), second.get("examples")))
        differ = tuple(
            f"{label}: {said_of(one)} against {said_of(two)}" for label, one, two in asked if one != two
        )
        yield compared(key[1], "", given(first.get("value")), given(second.get("value")), differ)


def _implementations(first: Entry, second: Entry, precision: str) -> str | None:
    """Say where a precision is not computed by the same kernels."""
    used = [
        next((str(one.get("implementation")) for one in benchmark.get("models") or ()
              if one.get("precision") == precision), None)
        for benchmark in (first, second)
    ]  # fmt: skip
    return None if used[0] == used[1] else f"{said_of(used[0])} against {said_of(used[1])}"
