"""The conditions under which two runs were made: what makes their joules not comparable, and what else differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, Protocol

from energyscope.accounting.records import CLOCKS_APART
from energyscope.comparison.basis import DYNAMIC, TOTAL, Basis, basis_of
from energyscope.comparison.boards import BoardFactor, board_factor
from energyscope.grouping import group_by
from energyscope.intervals import finite
from energyscope.reasons import Reason, reason
from energyscope.runs.method import changes_between, changes_since, execution_of, method_of, passes_of, revision_of

if TYPE_CHECKING:
    from energyscope.runs.store import Run

Document = Mapping[str, Any]
Subject = Literal["pass", "step", "generation", "benchmark"]  # what is compared of two runs

DEVICE, BOARD, GPUS = "device.name", "device.uuid", "device.gpus"
THREADS, CLOCK = "environment.threads", "environment.clock"
BATCH, LENGTH = "workload.batch_size", "workload.sequence_length"
EXECUTION, MODEL, PRECISION = "settings.execution", "model.name", "settings.precision"
_EVERY = frozenset({"pass", "step", "generation", "benchmark"})
_PASSES = frozenset({"pass", "step"})
# Field, name, and the subjects it concerns: joules measured under different ones differ for that reason alone.
_OBSTACLES = (
    (DEVICE, "device", _EVERY),
    (BOARD, "GPU board", _EVERY),
    ("device.power_limit_w", "power limit", _EVERY),
    ("settings.locked_clock_mhz", "locked clock (MHz)", _EVERY),
    ("driver", "driver", _EVERY),
    ("settings.sampling", "sampling", _PASSES),
    ("phase", "phase", _PASSES),
    ("sensor.meter", "meter", _EVERY),
    ("sensor.watts", "stated watts", _EVERY),
    (THREADS, "CPU threads", _EVERY),
    (CLOCK, "clock of times", _EVERY),
    (BATCH, "batch size", _PASSES),
    (LENGTH, "sequence length", frozenset({"pass"})),  # a decode step's name says its context
)
# Joules may be compared across these: what they change is the question.
_VARIED = (
    (EXECUTION, "execution", _EVERY - {"generation"}),  # `generate` is always launched eagerly
    (MODEL, "model", _EVERY),
    ("model.weights", "weights", _EVERY),
    (PRECISION, "precision", _EVERY - {"benchmark"}),  # whose cells have their own
    (GPUS, "number of GPUs", _EVERY),
    ("scene.kv_cache", "KV cache", _PASSES),
    ("settings.double_quant", "double quantization", _EVERY),
    ("model.quantization.compute_dtype", "compute dtype", _EVERY),
    ("settings.skip_modules", "skipped modules", _EVERY),
    ("settings.adapter", "adapter", _PASSES),
    ("settings.device_map", "device map", _EVERY),
    ("settings.tensor_parallel", "tensor parallel", _EVERY),
)
_UNASKED = frozenset({"settings.double_quant", "settings.skip_modules", "settings.adapter", "settings.device_map",
                      "settings.tensor_parallel"})  # fmt: skip
_UNFINISHED = {"interrupted", "failed", "running", "not begun"}


class Recorded(Protocol):
    """A run of any kind: its name and its run.json."""

    @property
    def name(self) -> str: ...
    @property
    def document(self) -> Document: ...


@dataclass(frozen=True)
class Condition:
    """What differs between two runs: its ``field`` in run.json, by which code knows it, its name, both values."""

    field: str
    name: str
    baseline: Any
    other: Any


@dataclass(frozen=True)
class RunComparison:
    """The baseline and another run, with the conditions in which they differ.

    ``obstacles`` make joules not comparable, ``notes`` do not: what they change is the question. ``remarks`` are
    reasons of `energyscope.reasons` that a reader should know. ``basis`` is what is compared: of a ``total``, all
    energy, or ``dynamic`` energy (work) alone, where the total of an eager run has the host's time in it.
    ``boards`` is by how much two boards differ, where both runs carry a reference; nothing else has it in it.
    """

    baseline: str
    other: str
    obstacles: tuple[Condition, ...] = ()
    notes: tuple[Condition, ...] = ()
    remarks: tuple[Reason, ...] = ()
    basis: Basis = TOTAL
    boards: BoardFactor | None = None

    def names(self, without: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the names of the obstacles, without those of some fields."""
        return tuple(condition.name for condition in self.obstacles if condition.field not in without)


def clock_of(document: Document) -> float | None:
    """Return the median clock (MHz) of the passes over the components; None where none was read."""
    read = [finite(item.get("clock_mhz")) for item in document.get("passes") or () if isinstance(item, Mapping)]
    known = [clock for clock in read if clock is not None]
    return median(known) if known else None


def launching_of(document: Document) -> str:
    """Return in which mode passes were launched: the first runs used inference mode, in which a host is faster.

    No key holds it; runs state how many tokens to generate since about when that was changed.
    """
    newer = "new_tokens" in (document.get("settings") or {}) or bool(document.get("scenes"))
    return "no-grad" if newer else "inference-mode"


def boards_of(document: Document) -> str | None:
    """Return the ids of the boards that a model lay on, in an order that does not depend on their places."""
    spread = _at(document, "device.spread") or ()
    return ", ".join(sorted(str(board.get("uuid")) for board in spread)) or _at(document, BOARD)


def gpus_of(document: Document) -> int | None:
    """Return on how many GPUs a model lay; None where it lay on none."""
    return len(_at(document, "device.spread") or (BOARD,)) if _at(document, "device.type") == "cuda" else None


def sampling_of(document: Document) -> str:
    """Return how components were measured: replayed alone, read in passing, or timed in the model."""
    return "in the model" if _at(document, "scene.in_model") else _at(document, "settings.sampling") or "replay"


_READ: dict[str, Callable[[Document], Any]] = {
    "driver": lambda document: _at(document, "device.driver") or _at(document, "environment.driver"),
    "phase": lambda document: passes_of(document)[0],
    "launching": launching_of,
    "clocks": clock_of,
    BOARD: boards_of,
    GPUS: gpus_of,
    THREADS: lambda document: _at(document, THREADS) if _at(document, "device.type") == "cpu" else None,
    CLOCK: lambda document: _at(document, CLOCK) or "host",
    "method": revision_of,
    EXECUTION: execution_of,
    "settings.sampling": sampling_of,
}


# The name of every field, for tables of conditions.
NAMES = {field: name for field, name, _ in (*_VARIED, *_OBSTACLES)} | {
    "model.parameters": "parameters", "settings.granularity": "granularity", "clocks": "clock (MHz)",
    "launching": "gradient mode", "method": "revision of the method", "environment.torch": "PyTorch",
    "environment.transformers": "Transformers", "workload.evaluation.source": "evaluation data", "created": "made",
}  # fmt: skip


def value_of(document: Document, field: str) -> Any:
    """Return a field of a run's document; what was not asked for is False."""
    value = _READ[field](document) if field in _READ else _at(document, field)
    return value or False if field in _UNASKED else value


def conditions(baseline: Run, other: Run, subject: Subject) -> RunComparison:
    """Return the conditions in which two runs differ that matter for a ``subject``."""
    documents = baseline.document, other.document
    obstacles = list(_unlike(documents, _OBSTACLES, subject))
    varied = list(_unlike(documents, _VARIED, subject))
    notes = [condition for condition in varied if condition.baseline is not None and condition.other is not None]
    clocks = [clock_of(document) or 0.0 for document in documents] if subject in _PASSES else [0.0]
    if all(clocks) and abs(clocks[1] / clocks[0] - 1) > CLOCKS_APART:
        # Another precision or execution changes the clock by itself, under a power cap.
        (notes if varied or obstacles else obstacles).append(Condition("clocks", "clock (MHz)", *clocks))
    if subject != "generation" and "eager" in map(execution_of, documents):  # the host may set the pace
        obstacles += _unlike(documents, [("launching", NAMES["launching"], _EVERY)], subject)
    method, remarks = _methods(documents, subject)
    if all(run.modelled for run in (baseline, other)):
        remarks.insert(0, reason("both-modelled"))
    basis = basis_of(documents, eager=subject == "generation")
    if basis == DYNAMIC:
        remarks.insert(0, reason("eager-total"))
    return RunComparison(
        baseline.name,
        other.name,
        (*obstacles, *method),
        tuple(notes),
        tuple(remarks),
        basis,
        board_factor(*documents, basis),
    )


def _at(document: Document, field: str) -> Any:
    value: Any = document
    for key in field.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _unlike(
    documents: tuple[Document, Document], fields: Iterable[tuple[str, str, frozenset[str]]], subject: Subject
) -> Iterator[Condition]:
    for field, name, subjects in fields:
        first, second = (value_of(document, field) for document in documents)
        if subject in subjects and first != second:
            yield Condition(field, name, first, second)


def _methods(documents: tuple[Document, Document], subject: Subject) -> tuple[list[Condition], list[Reason]]:
    """Return different methods of passes, as obstacle and as remark.

    One execution by two methods is not comparable. Between executions, what is older is part of the difference.
    Two that are equally old may be compared, but their joules are not those of today.
    """
    phase = "decode" if subject in {"step", "generation"} else "prefill"
    passes = [passes_of(document, phase, eager=subject == "generation") for document in documents]
    methods = [method_of(document, *of_pass) for document, of_pass in zip(documents, passes, strict=True)]
    if methods[0] != methods[1] and passes[0] == passes[1]:
        changed = changes_between(methods[0], methods[1], *passes[0])
        return [Condition("method", NAMES["method"], *methods)], [changed]
    older: dict[str, list[str]] = {}
    for run, method, of_pass in zip(("the baseline", "the other run"), methods, passes, strict=True):
        if changes := changes_since(method, *of_pass):
            older.setdefault(changes, []).append(run)
    return [], [reason("older-method-in", whose=whose, changes=changes) for changes, whose in older.items()]


def unfinished(runs: Iterable[Recorded]) -> Iterator[dict[str, str]]:
    """Yield the stages that were asked for and are not done: ``run``, ``stage`` and ``state`` of each."""
    for run in runs:
        states = dict.fromkeys(_at(run.document, "settings.stages") or (), "not begun")
        states |= {
            name: str(_at(entry or {}, "state")) for name, entry in (run.document.get("stages") or {}).items()
        }
        for stage, state in states.items():
            if stage != "report" and state in _UNFINISHED:
                yield {"run": run.name, "stage": stage, "state": state}


def warnings(runs: Iterable[Recorded]) -> Iterator[dict[str, Any]]:
    """Yield the runs' warnings, each once with the names of the ``runs`` that have it."""
    pairs = ((str(warning), run.name) for run in runs for warning in run.document.get("warnings") or ())
    for warning, group in group_by(dict.fromkeys(pairs), itemgetter(0)).items():
        yield {"warning": warning, "runs": [name for _, name in group]}
