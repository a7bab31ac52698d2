"""How whole models differ: in one phase, for a unit of work, in a traced generation, and in a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from energyscope.comparison.basis import DYNAMIC, MEASURES, Basis
from energyscope.comparison.basis import WORK as WORK_MEASURE
from energyscope.comparison.boards import BoardFactor  # noqa: F401 - a field of `RunComparison` is annotated with it
from energyscope.comparison.conditions import BATCH, LENGTH, Condition, Document, RunComparison, conditions
from energyscope.comparison.difference import (
    HOST,
    HOST_PER_TOKEN,
    IDLE,
    LATENCY,
    LOOP,
    PER_INFERENCE,
    PER_PASS,
    PER_PROMPT_TOKEN,
    PER_STEP,
    PER_TOKEN,
    POWER,
    TOKENS_PER_JOULE,
    WORK,
    WORK_PER_GENERATED,
    Difference,
    Quantity,
    compared,
    quantities,
)
from energyscope.intervals import Interval, finite, from_entry, interval, not_negative
from energyscope.reasons import Reason, reason  # noqa: F401 - a field of `RunComparison` is annotated with `Reason`
from energyscope.runs.tree import Node, tokens_of

if TYPE_CHECKING:
    from energyscope.runs.store import Run

Entry = Mapping[str, Any]
Documents = tuple[Document, Document]
Roots = tuple[Node | None, Node | None]
Shape = tuple[str, int, int]  # precision, batch size, length
SCORES = ("accuracy", "perplexity")  # other metrics only count what was scored
_UNITS = (("token", "mJ", 1.0), ("parameter", "nJ", 1e6), ("FLOP", "pJ", 1e9))
_TRACED = {"prompt_tokens": "prompt tokens", "new_tokens": "new tokens", "batch_size": "batch size",
           "kv_cache": "KV cache"}  # fmt: skip


def _key(path: str, factor: float = 1.0, *, signed: bool = False) -> Callable[[Entry], Interval | None]:
    """Return what reads an entry of a document; what is not ``signed`` has no limit below 0."""

    def read(document: Entry) -> Interval | None:
        for key in path.split("."):
            document = document.get(key) or {}
        item = from_entry(document, factor)
        return item if signed else not_negative(item)

    return read


def _column(name: str) -> Callable[[Node], Interval | None]:
    return lambda node: interval(node.row.get(name))


def _modelled_time(node: Node) -> Interval | None:
    """Return a node's time in us; modelled energy is time multiplied by watts, so its interval is the time's."""
    time_us, energy = node.number("time_us"), node.energy
    if time_us is None or energy is None or energy.value <= 0:
        return interval(time_us)
    return energy.scaled(time_us / energy.value)


def _work_per_token(generation: Entry) -> Interval | None:
    """Return the work (mJ) of decode for each token; a trace has no interval of it."""
    phases = generation.get("phases") or ()
    decode: Entry = next((phase for phase in phases if phase.get("phase") == "decode"), {})
    work, tokens = finite(decode.get("dynamic_j")), finite(decode.get("tokens"))
    return None if work is None or not tokens else Interval(work * 1e3 / tokens)


def _is_invalid(cell: Entry) -> bool:
    return cell.get("quality") == "invalid"


GENERATION: tuple[Quantity, ...] = (
    (PER_TOKEN, "mJ", _key("rates.joules_per_generated_token", 1e3), None),
    (WORK_PER_GENERATED, "mJ", _work_per_token, None),
    (PER_PROMPT_TOKEN, "mJ", _key("rates.joules_per_prompt_token", 1e3), None),
    ("time to first token", "us", _key("rates.time_to_first_token_s", 1e6), None),
    ("time per output token", "us", _key("rates.time_per_output_token_s", 1e6), None),
    (TOKENS_PER_JOULE, "tokens/J", _key("rates.tokens_per_joule"), None),
    (LOOP, "mJ", _key("loop.per_token.energy_mj", signed=True), None),
    (HOST_PER_TOKEN, "mJ", _key("host.joules_per_generated_token", 1e3), None),
)
_CELL: tuple[Quantity, ...] = (
    (PER_INFERENCE, "mJ", _key("energy_mj"), _is_invalid),
    (WORK, "mJ", _key("dynamic_energy_mj", signed=True), _is_invalid),  # above idle may be unresolved
    (LATENCY, "us", _key("latency_s", 1e6), None),
    ("p95 latency", "us", _key("p95_latency_s", 1e6), None),
    (POWER, "W", _key("power_w"), _is_invalid),
    (TOKENS_PER_JOULE, "tokens/J", _key("tokens_per_joule"), _is_invalid),
)


def whole(documents: Documents, roots: Roots, comparison: RunComparison, *, step: bool) -> list[Difference]:
    """Return what the whole model takes, and how well it predicts; stated power is not compared."""
    modelled = all((document.get("sensor") or {}).get("modelled") for document in documents)
    table: list[Quantity] = [
        (PER_STEP if step else PER_PASS, "mJ", lambda node: node.energy, lambda node: node.invalid),
        (IDLE, "mJ", lambda node: node.static, lambda node: node.invalid),
        (WORK, "mJ", WORK_MEASURE.of, WORK_MEASURE.invalid),
        (LATENCY, "us", _modelled_time if modelled else _column("time_us"), None),
        (HOST, "mJ", lambda node: node.host, lambda node: node.row.get("host_quality") == "invalid"),
        (POWER, "W", _column("power_w"), None),
    ]
    asked, drift = table[:-1] if modelled else table, _drift(roots, comparison.basis)
    items = _with_host_of_both(quantities(asked, roots, comparison.names(), comparison.basis, drift))
    first, second = (evaluation_of(document).get("baseline") or {} for document in documents)
    for metric in SCORES:
        if metric in first or metric in second:
            values = interval(first.get(metric)), interval(second.get(metric))
            items.append(compared(metric, "", values, _unlike(documents)))
    return items


def _with_host_of_both(items: list[Difference]) -> list[Difference]:
    """Return the differences without those of the host that only one run counted, or none."""
    return [item for item in items if item.change or item.name not in {HOST, HOST_PER_TOKEN}]


def normalised(documents: Documents, roots: Roots, comparison: RunComparison) -> Iterator[Difference]:
    """Yield the whole model's energy, or work, per token (mJ), per parameter (nJ) and per executed FLOP (pJ).

    Runs of other batch sizes or lengths are compared per token and per FLOP, not per parameter: a parameter's
    energy grows with what is fed. A FLOP is an executed one; where those were not recorded, it has only a reason.
    """
    basis = comparison.basis
    first, second = (per_work(document, root, basis) for document, root in zip(documents, roots, strict=True))
    what, measure = "work" if basis == DYNAMIC else "energy", MEASURES[basis]
    drift = _drift(roots, basis)
    weak, weaker = (bool(root and measure.invalid(root)) for root in roots)
    for name, unit, _ in _UNITS:
        obstacles = comparison.names(() if name == "parameter" else (BATCH, LENGTH))
        values = first[name], second[name]
        item = compared(f"{what} per {name}", unit, values, obstacles, (weak, weaker), drift=drift)
        if not item.missing:
            yield item
        elif name == "FLOP" and any(root and root.number("flops") for root in roots):
            yield replace(item, reason=str(reason("no-energy-per-flop")))


def _drift(roots: Roots, basis: Basis) -> float:
    first, second = roots
    return MEASURES[basis].drift([first], [second]) if first and second else 0.0


def per_work(document: Document, root: Node | None, basis: Basis) -> dict[str, Interval | None]:
    """Return the energy, or work, of a pass per token (mJ), per parameter (nJ) and per executed FLOP (pJ)."""
    amounts = {
        "token": tokens_of(document, root),
        "parameter": finite((document.get("model") or {}).get("parameters")),
        "FLOP": root.number("executed_flops") if root else None,
    }
    energy = MEASURES[basis].of(root) if root else None
    return {
        name: energy.scaled(factor / amount) if energy and (amount := amounts[name]) else None
        for name, _, factor in _UNITS
    }


def evaluation_of(document: Document) -> Entry:
    """Return the evaluation of a run's model, as run.json holds it."""
    return (document.get("workload") or {}).get("evaluation") or {}


def _unlike(documents: Documents) -> list[str]:
    """Return the names of what differs between two evaluations: then their scores are not comparable."""
    first, second = map(evaluation_of, documents)
    names = {"source": "evaluation data", "examples": "examples"}
    return [name for key, name in names.items() if first.get(key) != second.get(key)]


@dataclass(frozen=True)
class GenerationComparison(RunComparison):
    """The traced generation of the baseline against that of another run."""

    rows: tuple[Difference, ...] = ()


def compare_generations(baseline: Run, other: Run) -> GenerationComparison | None:
    """Compare two traced generations; None where a run has none."""
    if baseline.generation is None or other.generation is None:
        return None
    comparison = conditions(baseline, other, "generation")
    first, second = (run.get("settings") or {} for run in (baseline.generation, other.generation))
    obstacles, notes = list(comparison.obstacles), list(comparison.notes)
    for key, name in _TRACED.items():
        if first.get(key) != second.get(key):  # another cache is the question, and no obstacle
            condition = Condition(f"generation.{key}", name, first.get(key), second.get(key))
            (notes if key == "kv_cache" else obstacles).append(condition)
    comparison = replace(comparison, obstacles=tuple(obstacles), notes=tuple(notes))
    generations = baseline.generation, other.generation
    rows = _with_host_of_both(quantities(GENERATION, generations, comparison.names(), comparison.basis))
    return GenerationComparison(**vars(comparison), rows=tuple(row for row in rows if not row.missing))


@dataclass(frozen=True)
class CellComparison:
    """One precision at one batch size and length; ``implementations`` where the runs used other kernels."""

    precision: str
    batch_size: int
    sequence_length: int
    rows: tuple[Difference, ...]
    implementations: Condition | None = None


@dataclass(frozen=True)
class BenchmarkComparison(RunComparison):
    """The benchmark of the baseline against that of another run; ``alone`` are cells of one ``run`` only."""

    cells: tuple[CellComparison, ...] = ()
    alone: tuple[dict[str, Any], ...] = ()


def compare_benchmarks(baseline: Run, other: Run) -> BenchmarkComparison | None:
    """Compare two benchmarks cell by cell; None where a run has none."""
    if baseline.benchmark is None or other.benchmark is None:
        return None
    comparison = conditions(baseline, other, "benchmark")
    first, second = cells_of(baseline.benchmark), cells_of(other.benchmark)
    alone = [
        {"run": run.name, **dict(zip(("precision", "batch_size", "sequence_length"), shape, strict=True))}
        for run, own, others in ((baseline, first, second), (other, second, first))
        for shape in own
        if shape not in others
    ]
    cells = tuple(
        _cell(shape, (first[shape], second[shape]), (baseline, other), comparison)
        for shape in first
        if shape in second
    )
    return BenchmarkComparison(**vars(comparison), cells=cells, alone=tuple(alone))


def cells_of(benchmark: Entry) -> dict[Shape, Entry]:
    """Return a benchmark's cells by precision, batch size and length."""
    return {
        (str(cell.get("precision")), int(cell.get("batch_size") or 0), int(cell.get("sequence_length") or 0)): cell
        for cell in benchmark.get("cells") or ()
    }


def predictions_of(benchmark: Entry) -> dict[tuple[str, str], Entry]:
    """Return a benchmark's quality metrics, by precision and metric."""
    return {
        (str(prediction.get("precision")), str(prediction.get("metric"))): prediction
        for prediction in benchmark.get("predictions") or ()
    }


def _cell(
    shape: Shape, cells: tuple[Entry, Entry], runs: tuple[Run, Run], comparison: RunComparison
) -> CellComparison:
    modelled = any(run.modelled for run in runs)
    table = [quantity for quantity in _CELL if not (modelled and quantity[0] == POWER)]  # which is as stated
    rows = quantities(table, cells, comparison.names(), comparison.basis)
    rows = [row for row in rows if not row.missing]
    predictions, others = (predictions_of(run.benchmark or {}) for run in runs)
    for (precision, metric), first in predictions.items():
        second = others.get((precision, metric))
        if precision == shape[0] and second is not None:
            names = _unlike((runs[0].document, runs[1].document))
            if first.get("examples") != second.get("examples"):
                names = list(dict.fromkeys([*names, "examples"]))
            rows.append(
                compared(metric, "", (from_entry(first.get("value")), from_entry(second.get("value"))), names)
            )
    kernels = [_kernels(run, shape[0]) for run in runs]
    other = Condition("benchmark.models.implementation", "kernels", *kernels) if kernels[0] != kernels[1] else None
    return CellComparison(*shape, tuple(rows), other)


def _kernels(run: Run, precision: str) -> str:
    models = (run.benchmark or {}).get("models") or ()
    return str(
        next((model.get("implementation") for model in models if model.get("precision") == precision), None)
    )
