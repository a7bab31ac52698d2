"""How the traced generations of two runs differ: energy and time for each token, and the loop of `generate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from energyscope.runs.compare_conditions import OF_GENERATION, conditions, said_of
from energyscope.runs.compare_difference import Difference, compared
from energyscope.runs.intervals import Interval, interval

if TYPE_CHECKING:
    from energyscope.runs.store import Run

# (what is said, unit, key of the rates, factor to that unit)
_RATES = (
    ("energy per generated token", "mJ", "joules_per_generated_token", 1e3),
    ("energy per prompt token", "mJ", "joules_per_prompt_token", 1e3),
    ("time to first token", "us", "time_to_first_token_s", 1e6),
    ("time per output token", "us", "time_per_output_token_s", 1e6),
    ("tokens per joule", "tokens/J", "tokens_per_joule", 1.0),
)
_SETTINGS = (("prompt tokens", "prompt_tokens"), ("new tokens", "new_tokens"), ("batch size", "batch_size"))


@dataclass(frozen=True)
class GenerationComparison:
    """The traced generation of the baseline against that of another run, as `PairComparison` has the scenes."""

    baseline: str
    other: str
    obstacles: tuple[str, ...]
    notes: tuple[str, ...]
    rows: tuple[Difference, ...]


def compare_generations(baseline: Run, other: Run) -> GenerationComparison | None:
    """Compare two traced generations; None where a run has none."""
    first, second = baseline.generation, other.generation
    if first is None or second is None:
        return None
    obstacles, notes = conditions(baseline.document, other.document, OF_GENERATION | {"batch size"})
    obstacles += tuple(_unlike(first, second, _SETTINGS))
    notes += tuple(_unlike(first, second, (("KV cache", "kv_cache"),)))
    return GenerationComparison(
        baseline=baseline.name,
        other=other.name,
        obstacles=obstacles,
        notes=notes,
        rows=tuple(row for row in _rows(first, second, obstacles) if not row.missing),
    )


def _rows(first: Mapping[str, Any], second: Mapping[str, Any], obstacles: tuple[str, ...]) -> Iterator[Difference]:
    for label, unit, key, factor in _RATES:
        yield compared(label, unit, _rate(first, key, factor), _rate(second, key, factor), obstacles)
    yield compared("generate's loop per step", "mJ", _loop(first), _loop(second), obstacles)


def _unlike(
    first: Mapping[str, Any], second: Mapping[str, Any], settings: tuple[tuple[str, str], ...]
) -> Iterator[str]:
    for label, key in settings:
        one, two = ((document.get("settings") or {}).get(key) for document in (first, second))
        if one != two:
            yield f"{label}: {said_of(one)} against {said_of(two)}"


def _rate(document: Mapping[str, Any], key: str, factor: float) -> Interval | None:
    found = _given((document.get("rates") or {}).get(key))
    return found.scaled(factor) if found else None


def _loop(document: Mapping[str, Any]) -> Interval | None:
    step = (document.get("loop") or {}).get("per_token") or {}
    return _given(step.get("energy_mj"))


def _given(entry: Mapping[str, Any] | None) -> Interval | None:
    return interval(entry.get("value"), entry.get("low"), entry.get("high")) if entry else None
