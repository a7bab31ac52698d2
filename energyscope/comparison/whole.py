"""How whole models differ: at one moment, for a unit of work, in a traced generation, and in a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from energyscope.comparison.conditions import BATCH, LENGTH, Condition, Document, Standing, conditions
from energyscope.comparison.difference import (
    IDLE,
    LATENCY,
    PER_INFERENCE,
    PER_PASS,
    PER_STEP,
    PER_TOKEN,
    POWER,
    TOKENS_PER_JOULE,
    WORK,
    Difference,
    Quantity,
    compared,
    quantities,
)
from energyscope.intervals import Interval, finite, given, interval, not_negative
from energyscope.reasons import Reason  # noqa: F401 - a field of `Standing` is annotated with it
from energyscope.runs.tree import Node, tokens_of

if TYPE_CHECKING:
    from energyscope.runs.store import Run

Entry = Mapping[str, Any]
Documents = tuple[Document, Document]
Roots = tuple[Node | None, Node | None]
Shape = tuple[str, int, int]  # precision, batch size, length
SCORES = ("accuracy", "perplexity")  # other metrics only say of how much
_UNITS = (("token", "mJ", 1.0), ("parameter", "nJ", 1e6), ("FLOP", "pJ", 1e9))
_TRACED = {"prompt_tokens": "prompt tokens", "new_tokens": "new tokens", "batch_size": "batch size",
           "kv_cache": "KV cache"}  # fmt: skip
_CACHE = "generation.kv_cache"  # the question, and no obstacle


def _key(path: str, factor: float = 1.0, *, signed: bool = False) -> Callable[[Entry], Interval | None]:
    """Return what reads an entry of a document; what is not ``signed`` has no limit below 0."""

    def read(document: Entry) -> Interval | None:
        for key in path.split("."):
            document = document.get(key) or {}
        found = given(document)
        found = found.scaled(factor) if found else None
        return found if signed else not_negative(found)

    return read


def _column(name: str) -> Callable[[Node], Interval | None]:
    return lambda node: interval(node.row.get(name))


def _modelled_time(node: Node) -> Interval | None:
    """Return a node's time in us; modelled energy is time multiplied by watts, so its interval is the time's."""
    time_us, energy = node.number("time_us"), node.energy
    if time_us is None or energy is None or energy.value <= 0:
        return interval(time_us)
    return energy.scaled(time_us / energy.value)


_GENERATION: tuple[Quantity, ...] = (
    (PER_TOKEN, "mJ", _key("rates.joules_per_generated_token", 1e3), False),
    ("energy per prompt token", "mJ", _key("rates.joules_per_prompt_token", 1e3), False),
    ("time to first token", "us", _key("rates.time_to_first_token_s", 1e6), False),
    ("time per output token", "us", _key("rates.time_per_output_token_s", 1e6), False),
    (TOKENS_PER_JOULE, "tokens/J", _key("rates.tokens_per_joule"), False),
    ("generate's loop per step", "mJ", _key("loop.per_token.energy_mj", signed=True), False),
)
_CELL: tuple[Quantity, ...] = (
    (PER_INFERENCE, "mJ", _key("energy_mj"), True),
    (WORK, "mJ", _key("dynamic_energy_mj", signed=True), True),  # above idle may be unresolved
    (LATENCY, "us", _key("latency_s", 1e6), False),
    ("p95 latency", "us", _key("p95_latency_s", 1e6), False),
    (POWER, "W", _key("power_w"), True),
    (TOKENS_PER_JOULE, "tokens/J", _key("tokens_per_joule"), True),
)


def whole(documents: Documents, roots: Roots, standing: Standing, *, step: bool) -> list[Difference]:
    """Return what the whole model takes, and how well it predicts; stated power is not compared."""
    modelled = all((document.get("sensor") or {}).get("modelled") for document in documents)
    table: list[Quantity] = [
        (PER_STEP if step else PER_PASS, "mJ", lambda node: node.energy, True),
        (IDLE, "mJ", _column("static_mj"), True),
        (WORK, "mJ", _column("dynamic_mj"), True),
        (LATENCY, "us", _modelled_time if modelled else _column("time_us"), False),
        (POWER, "W", _column("power_w"), False),
    ]
    found = quantities(table[:-1] if modelled else table, roots, standing.names(), _invalid(roots))
    one, two = (evaluation_of(document).get("baseline") or {} for document in documents)
    for metric in SCORES:
        if metric in one or metric in two:
            values = interval(one.get(metric)), interval(two.get(metric))
            found.append(compared(metric, "", values, _unlike(documents)))
    return found


def normalised(documents: Documents, roots: Roots, standing: Standing) -> Iterator[Difference]:
    """Yield the whole model's energy per token (mJ), per parameter (nJ) and per FLOP (pJ).

    Runs of other batch sizes or lengths are compared per token and per FLOP, not per parameter: a parameter's
    energy grows with what is fed.
    """
    found = [per_work(document, root) for document, root in zip(documents, roots, strict=True)]
    for name, unit, _ in _UNITS:
        names = standing.names(() if name == "parameter" else (BATCH, LENGTH))
        item = compared(f"energy per {name}", unit, (found[0][name], found[1][name]), names, _invalid(roots))
        if not item.missing:
            yield item


def per_work(document: Document, root: Node | None) -> dict[str, Interval | None]:
    """Return the energy of a pass per token (mJ), per parameter (nJ) and per FLOP (pJ)."""
    amounts = {
        "token": tokens_of(document, root),
        "parameter": finite((document.get("model") or {}).get("parameters")),
        "FLOP": root.number("flops") if root else None,
    }
    energy = root.energy if root else None
    return {
        name: energy.scaled(factor / amount) if energy and (amount := amounts[name]) else None
        for name, _, factor in _UNITS
    }


def evaluation_of(document: Document) -> Entry:
    """Return what run.json says of the evaluation of a run's model."""
    return (document.get("workload") or {}).get("evaluation") or {}


def _unlike(documents: Documents) -> list[str]:
    """Return what differs in what two runs were evaluated on: then their scores are not comparable."""
    one, two = map(evaluation_of, documents)
    names = {"source": "evaluation data", "examples": "examples"}
    return [name for key, name in names.items() if one.get(key) != two.get(key)]


def _invalid(roots: Roots) -> tuple[bool, bool]:
    return bool(roots[0] and roots[0].invalid), bool(roots[1] and roots[1].invalid)


@dataclass(frozen=True)
class GenerationComparison(Standing):
    """The traced generation of the baseline against that of another run."""

    rows: tuple[Difference, ...] = ()


def compare_generations(baseline: Run, other: Run) -> GenerationComparison | None:
    """Compare two traced generations; None where a run has none."""
    if baseline.generation is None or other.generation is None:
        return None
    standing = conditions(baseline, other, "generation")
    one, two = (run.get("settings") or {} for run in (baseline.generation, other.generation))
    unlike = [
        Condition(f"generation.{key}", name, one.get(key), two.get(key))
        for key, name in _TRACED.items()
        if one.get(key) != two.get(key)
    ]
    notes = tuple(held for held in unlike if held.field == _CACHE)
    obstacles = tuple(held for held in unlike if held.field != _CACHE)
    standing = replace(standing, obstacles=standing.obstacles + obstacles, notes=standing.notes + notes)
    rows = quantities(_GENERATION, (baseline.generation, other.generation), standing.names(), (False, False))
    return GenerationComparison(**vars(standing), rows=tuple(row for row in rows if not row.missing))


@dataclass(frozen=True)
class CellComparison:
    """One precision at one batch size and length; ``implementations`` where the runs used other kernels."""

    precision: str
    batch_size: int
    sequence_length: int
    rows: tuple[Difference, ...]
    implementations: Condition | None = None


@dataclass(frozen=True)
class BenchmarkComparison(Standing):
    """The benchmark of the baseline against that of another run; ``alone`` are cells of one ``run`` only."""

    cells: tuple[CellComparison, ...] = ()
    alone: tuple[dict[str, Any], ...] = ()


def compare_benchmarks(baseline: Run, other: Run) -> BenchmarkComparison | None:
    """Compare two benchmarks cell by cell; None where a run has none."""
    if baseline.benchmark is None or other.benchmark is None:
        return None
    standing = conditions(baseline, other, "benchmark")
    ours, theirs = cells_of(baseline.benchmark), cells_of(other.benchmark)
    alone = [
        {"run": run.name, **dict(zip(("precision", "batch_size", "sequence_length"), shape, strict=True))}
        for run, mine, others in ((baseline, ours, theirs), (other, theirs, ours))
        for shape in mine
        if shape not in others
    ]
    cells = tuple(
        _cell(shape, (ours[shape], theirs[shape]), (baseline, other), standing)
        for shape in ours
        if shape in theirs
    )
    return BenchmarkComparison(**vars(standing), cells=cells, alone=tuple(alone))


def cells_of(benchmark: Entry) -> dict[Shape, Entry]:
    """Return a benchmark's cells by precision, batch size and length."""
    return {
        (str(cell.get("precision")), int(cell.get("batch_size") or 0), int(cell.get("sequence_length") or 0)): cell
        for cell in benchmark.get("cells") or ()
    }


def predictions_of(benchmark: Entry) -> dict[tuple[str, str], Entry]:
    """Return what was predicted how well, by precision and metric."""
    return {
        (str(prediction.get("precision")), str(prediction.get("metric"))): prediction
        for prediction in benchmark.get("predictions") or ()
    }


def _cell(shape: Shape, cells: tuple[Entry, Entry], runs: tuple[Run, Run], standing: Standing) -> CellComparison:
    modelled = any(run.modelled for run in runs)
    table = [quantity for quantity in _CELL if not (modelled and quantity[0] == POWER)]  # which is as stated
    invalid = cells[0].get("quality") == "invalid", cells[1].get("quality") == "invalid"
    rows = [row for row in quantities(table, cells, standing.names(), invalid) if not row.missing]
    ours, theirs = (predictions_of(run.benchmark or {}) for run in runs)
    for key, first in ours.items():
        if key[0] == shape[0] and (second := theirs.get(key)) is not None:
            names = _unlike((runs[0].document, runs[1].document))
            if first.get("examples") != second.get("examples"):
                names = list(dict.fromkeys([*names, "examples"]))
            rows.append(compared(key[1], "", (given(first.get("value")), given(second.get("value"))), names))
    used = [
        [model.get("implementation") for model in (run.benchmark or {}).get("models") or ()
         if model.get("precision") == shape[0]]
        for run in runs
    ]  # fmt: skip
    kernels = [str(next(iter(names), None)) for names in used]
    other = Condition("benchmark.models.implementation", "kernels", *kernels) if kernels[0] != kernels[1] else None
    return CellComparison(*shape, tuple(rows), other)
