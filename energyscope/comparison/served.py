"""How two measurements of servers differ: requests by who asks, tokens of each phase, and the idle engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from energyscope.comparison.difference import Difference, Values, compared
from energyscope.intervals import Interval, interval
from energyscope.metering.grades import INVALID
from energyscope.serving.curve import REQUEST
from energyscope.serving.run import ServingRun

Entry = Mapping[str, Any]
SAME_TOKENS = 0.02
# Of run.json: joules measured under different ones differ for that reason alone.
_OBSTACLES: tuple[tuple[str, Callable[[Entry], Any]], ...] = (
    ("device", lambda document: (document.get("device") or {}).get("name")),
    ("GPU board", lambda document: (document.get("device") or {}).get("measured")),
    ("meter", lambda document: (document.get("sensor") or {}).get("meter")),
    *(
        (f"--{name.replace('_', '-')}", lambda document, name=name: (document.get("settings") or {}).get(name))
        for name in ("prompt_tokens", "new_tokens", "trace", "shared_prefix", "seed")
    ),
)


def compare_served(baseline: ServingRun, other: ServingRun) -> list[Difference]:
    """Return the difference of each quantity that either run has; the load curve comes first."""
    obstacles = [name for name, read in _OBSTACLES if read(baseline.document) != read(other.document)]
    found = []
    for name, unit in dict.fromkeys((*_named(baseline), *_named(other))):
        values, invalid = _pair(name, baseline, other)
        found.append(compared(name, unit, values, [*obstacles, *_lengths(name, baseline, other)], invalid))
    return found


def _lengths(name: str, *runs: ServingRun) -> list[str]:
    """Return which tokens of a load's requests differ: an engine may end answers early."""
    rows = [run.loads[run.loads["load"] == name] for run in runs]
    if any(row.empty for row in rows):
        return []
    return [
        words
        for column, words in (("prompt_tokens", "tokens of the prompts"), ("new_tokens", "tokens of the answers"))
        if abs(rows[1][column].iloc[0] / rows[0][column].iloc[0] - 1) > SAME_TOKENS
    ]


def _named(run: ServingRun) -> dict[tuple[str, str], tuple[Interval | None, bool]]:
    """Return each quantity of a run by its name and unit: its value, and whether that is too noisy."""
    curve = run.loads[run.loads["kind"] == REQUEST].sort_values(["users", "rate_per_s"])
    known = {
        (row["load"], "J"): (
            interval(row["request_j"], row["request_low_j"], row["request_high_j"]),
            row["quality"] == INVALID,
        )
        for row in curve.to_dict("records")
    }
    for phase in run.serving["phases"]:
        name = f"a token in {phase['load']}"
        value = interval(phase["value"], phase["low"], phase["high"])
        known[name, "J"] = value, phase.get("quality") == INVALID
    idle = run.serving.get("idle_w") or {}
    known["idle engine", "W"] = interval(idle.get("value"), idle.get("low"), idle.get("high")), False
    return known


def _pair(name: str, *runs: ServingRun) -> tuple[Values, tuple[bool, bool]]:
    found = [
        next((item for (other, _), item in _named(run).items() if other == name), (None, False)) for run in runs
    ]
    (first, weak), (second, weaker) = found
    return (first, second), (weak, weaker)
