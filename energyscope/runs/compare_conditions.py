"""Under what two runs were made: what makes their joules not comparable, and what merely differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from energyscope.runs.compare_surroundings import surroundings
from energyscope.runs.method import changes_between, execution_of, lacking, method_of, passes_of

if TYPE_CHECKING:
    from energyscope.runs.store import Run

Document = Mapping[str, Any]

# (what is said, section of run.json, key): joules measured under different ones differ for that reason alone
_CONDITIONS = (
    ("GPU board", "device", "uuid"),
    ("device", "device", "name"),
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
OF_DECODE = frozenset({"phase", "sequence length"})  # conditions that say nothing of a decode step: its name does
OF_GENERATION = OF_DECODE | {"sampling", "execution"}  # `generate` is always launched eagerly
_MEANINGS = {"execution": ", so a difference holds what launching from the host costs"}
_ASSUMED = {"sampling": "replay"}  # of runs made before there was a choice
_UNFINISHED = {"interrupted", "failed", "running"}


def conditions(
    first: Document, second: Document, ignored: frozenset[str] = frozenset(), phase: str | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what makes the joules of two runs not comparable, and the settings that may differ.

    ``phase`` is that of the passes that are compared; None: of the moment that the documents are of.
    """
    asked = [one for one in _CONDITIONS if one[0] not in ignored]
    obstacles = [f"{label}: {one} against {two}" for label, one, two in _unlike(first, second, asked)]
    notes = []
    if both_modelled(first, second):
        notes.append(
            "both are MODELLED: a difference of joules is a difference of time, and mean power is as stated"
        )
    varied = [one for one in _VARIED if one[0] not in ignored]
    for label, one, two in _unlike(first, second, varied):
        notes.append(f"{label}: {one} against {two}{_MEANINGS.get(label, '')}")
    for label, said in _OPTIONS:
        ours, theirs = said(first), said(second)
        if ours is not None and theirs is not None and ours != theirs:
            notes.append(f"{label}: {ours} against {theirs}")
    apart, older = _methods(first, second, phase, eager="execution" in ignored)
    obstacles += apart
    notes += older
    same_work = not any(_unlike(first, second, _VARIED)) and not obstacles
    standing, noted = surroundings(first, second, ignored, same_work=same_work)
    return (*obstacles, *standing), (*notes, *noted)


def _methods(first: Document, second: Document, phase: str | None, *, eager: bool) -> tuple[list[str], list[str]]:
    """Return what to say of passes by different methods, as obstacle and as note; ``eager``: that is how they ran.

    One execution by two methods is not comparable. Between executions, what is older is part of the difference.
    Two that are equally old may be compared, but their joules are not those of today.
    """
    ours, theirs = (passes_of(one, phase, eager=eager) for one in (first, second))
    methods = method_of(first, *ours), method_of(second, *theirs)
    older = [lacking(methods[0], *ours), lacking(methods[1], *theirs)]
    if methods[0] == methods[1]:
        return [], [f"older method of both: {words}" for words in dict.fromkeys(older) if words]
    if ours == theirs:
        return [f"method: {changes_between(methods[0], methods[1], *ours)}"], []
    return [], [f"older method: {words}" for words in older if words]


def both_modelled(first: Document, second: Document) -> bool:
    """Tell whether no power was measured in either run."""
    return all((document.get("sensor") or {}).get("modelled") for document in (first, second))


def unfinished(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return a sentence for each run with stages that were asked for and are not done: which ones, and how."""
    found = []
    for run in runs:
        states = run.document.get("stages") or {}
        asked = (run.document.get("settings") or {}).get("stages") or ()
        said = [
            f"{name} {(entry or {}).get('state')}"
            for name, entry in states.items()
            if name != "report" and (entry or {}).get("state") in _UNFINISHED
        ]
        said += [f"{name} not begun" for name in asked if name != "report" and name not in states]
        if said:
            found.append(f"{run.name} is not complete: {', '.join(said)}")
    return tuple(found)


def warnings(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the runs' warnings, each once with the names of the runs that have it."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for warning in run.document.get("warnings") or []:
            names = found.setdefault(str(warning), [])
            if run.name not in names:
                names.append(run.name)
    return tuple(f"{', '.join(names)}: {warning}" for warning, names in found.items())


def _unlike(
    first: Document, second: Document, asked: Iterable[tuple[str, str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield the conditions that differ, with what each run says."""
    for label, section, key in asked:
        one, two = (_condition(document, section, key) for document in (first, second))
        if one != two:
            yield label, said_of(one), said_of(two)


def _condition(document: Document, section: str, key: str) -> Any:
    if key == "execution":
        return execution_of(document)
    value = (document.get(section) or {}).get(key)
    return _ASSUMED.get(key) if value is None else value


def said_of(value: object) -> str:
    """Write a condition, also one that is not known."""
    return "not stated" if value is None else str(value)


def _double_quantization(document: Document) -> str:
    return "on" if (document.get("settings") or {}).get("double_quant") else "off"


def _compute_dtype(document: Document) -> str | None:
    """Return what 4-bit layers multiplied in; None where there are none, or an older run does not say."""
    used = (document.get("model") or {}).get("quantization") or {}
    asked = (document.get("settings") or {}).get("compute_dtype")
    return used.get("compute_dtype") or {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}.get(str(asked))


def _skipped_modules(document: Document) -> str:
    return ", ".join((document.get("settings") or {}).get("skip_modules") or ()) or "none"


def _device_map(document: Document) -> str:
    """Return what was asked for, and the devices that modules lie on."""
    asked = (document.get("settings") or {}).get("device_map")
    modules = (document.get("model") or {}).get("device_map") or {}
    places = ", ".join(sorted({str(place) for place in modules.values()}))
    return str(asked or "none") + (f" ({places})" if places else "")


def _tensor_parallel(document: Document) -> str:
    return "on" if (document.get("settings") or {}).get("tensor_parallel") else "off"


_OPTIONS: tuple[tuple[str, Callable[[Document], str | None]], ...] = (
    ("double quantization", _double_quantization),
    ("compute dtype", _compute_dtype),
    ("skipped modules", _skipped_modules),
    ("device map", _device_map),
    ("tensor parallel", _tensor_parallel),
)
