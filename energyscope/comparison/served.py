"""How measured servers differ: tokens and the idle engine, and the user's request by who asks.

Tokens and the idle engine can be compared whatever was requested: their loads are the same in every measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from energyscope.comparison.basis import Basis  # noqa: F401 - of an inherited field: the reference looks it up here
from energyscope.comparison.boards import BoardFactor  # noqa: F401 - likewise
from energyscope.comparison.compare import with_unique_names
from energyscope.comparison.conditions import (
    DEVICE,
    MODEL,
    Condition,
    RunComparison,
    unfinished,
    value_of,
    warnings,
)
from energyscope.comparison.difference import Difference, compared
from energyscope.comparison.gate import Energy
from energyscope.errors import UsageError
from energyscope.intervals import Interval, finite, interval
from energyscope.metering.grades import INVALID
from energyscope.reasons import Reason, reason
from energyscope.serving.curve import REQUEST, first_texts_s, later_tokens_s, median_s, too_noisy
from energyscope.serving.design import PROMPT
from energyscope.serving.requests import Answer
from energyscope.serving.run import ServingRun, read_requests

SAME_TOKENS = 0.02
PER_REQUEST, PER_NEW_TOKEN = "energy per request", "energy per new token"
WORK = "work per request"  # beyond the idle engine's power
FIRST_TOKEN, EACH_TOKEN = "time to first token", "time per token"
IDLE_ENGINE = "idle engine"
TOKENS = PROMPT_TOKEN, GENERATED_TOKEN = "prompt token", "generated token"
# Fields of run.json. Under another setup, joules differ for that reason alone; so do requests of other options.
_SETUP = {DEVICE: "device", "device.measured": "GPU board", "driver": "driver", "sensor.meter": "meter",
          "sensor.watts": "stated watts", "settings.whole_gpu": "--whole-gpu"}  # fmt: skip
_REQUEST = {
    f"settings.{name}": f"--{name.replace('_', '-')}"
    for name in ("prompt_tokens", "new_tokens", "trace", "shared_prefix", "seed")
}
_VARIED = {MODEL: "model", "serving.endpoint.owner": "engine", "serving.endpoint.version": "engine's version",
           "serving.endpoint.api": "API"}  # fmt: skip
NAMES = {**_SETUP, **_REQUEST, **_VARIED, "settings.seconds": "seconds of a load", "energyscope": "energyscope",
         "created": "made"}  # fmt: skip

Values = Mapping[
    tuple[str, str], tuple[Interval | None, bool]
]  # by name and unit: a value, whether it is too noisy


@dataclass(frozen=True)
class Point:
    """A load of the user's request that both runs have: by how many ``users``, None at rates."""

    load: str
    users: int | None
    rows: tuple[Difference, ...]


@dataclass(frozen=True)
class ServedPair(RunComparison):
    """The baseline against one other server.

    ``requests`` are the options of the user's request that differ: then ``points`` have no verdict. ``costs`` are
    of tokens beyond the idle engine, and of that.
    """

    requests: tuple[Condition, ...] = ()
    costs: tuple[Difference, ...] = ()
    points: tuple[Point, ...] = ()

    @property
    def every(self) -> list[Difference]:
        """All differences."""
        return [*self.costs, *(item for point in self.points for item in point.rows)]


@dataclass(frozen=True)
class ServedComparison:
    """A baseline server against every other one."""

    baseline: str
    unfinished: tuple[dict[str, str], ...]
    warnings: tuple[dict[str, Any], ...]
    pairs: tuple[ServedPair, ...]

    def energies(self) -> Iterator[Energy]:
        """Yield the energy of a request at each load."""
        for pair in self.pairs:
            for point in pair.points:
                yield from ((pair.other, point.load, item) for item in point.rows if item.name == PER_REQUEST)


def compare_served(runs: Sequence[ServingRun]) -> ServedComparison:
    """Compare measured servers with the first of them.

    Raises:
        UsageError: fewer than two were given.

    """
    if len(runs) < 2:
        raise UsageError("compare needs at least two runs: energyscope compare RUN RUN")
    baseline, *others = runs = with_unique_names(runs)
    return ServedComparison(
        baseline.name,
        tuple(unfinished(runs)),
        tuple(warnings(runs)),
        tuple(_pair(baseline, other) for other in others),
    )


def _pair(baseline: ServingRun, other: ServingRun) -> ServedPair:
    runs = baseline, other
    obstacles, requests = _unlike(runs, _SETUP), _unlike(runs, _REQUEST)
    names = [condition.name for condition in obstacles]
    return ServedPair(
        baseline.name,
        other.name,
        obstacles=obstacles,
        notes=_unlike(runs, _VARIED),
        remarks=tuple(_remarks(baseline, other)),
        requests=requests,
        costs=tuple(_differences(_costs(baseline), _costs(other), names)),
        points=tuple(_points(baseline, other, names, [condition.name for condition in requests])),
    )


def _unlike(runs: tuple[ServingRun, ServingRun], fields: Mapping[str, str]) -> tuple[Condition, ...]:
    known = ((field, name, *(value_of(run.document, field) for run in runs)) for field, name in fields.items())
    return tuple(Condition(*condition) for condition in known if condition[2] != condition[3])


def _remarks(baseline: ServingRun, other: ServingRun) -> Iterator[Reason]:
    """Yield what a reader should know: that joules are modelled, and the loads that only one of the runs has."""
    if baseline.modelled and other.modelled:
        yield reason("both-modelled")
    loads = [list(_requests(run)) for run in (baseline, other)]
    for run, own, others in zip((baseline, other), loads, reversed(loads), strict=True):
        if alone := [load for load in own if load not in others]:
            yield reason("loads-alone", run=run.name, loads=alone)


def _differences(baseline: Values, other: Values, obstacles: Sequence[str]) -> Iterator[Difference]:
    for name, unit in dict.fromkeys((*baseline, *other)):
        (first, weak), (second, weaker) = (values.get((name, unit), (None, False)) for values in (baseline, other))
        item = compared(name, unit, (first, second), obstacles, (weak, weaker))
        if not item.missing:
            yield item


def _costs(run: ServingRun) -> Values:
    """Return what tokens cost beyond the idle engine, and its power."""
    idle = run.serving.get("idle_w") or {}
    costs = {(IDLE_ENGINE, "W"): (interval(idle.get("value"), idle.get("low"), idle.get("high")), False)}
    for phase in run.serving["phases"]:
        name = f"{PROMPT_TOKEN if phase['phase'] == PROMPT else GENERATED_TOKEN} ({phase['load']})"
        value = interval(phase["value"], phase["low"], phase["high"])
        costs[name, "J"] = value, phase.get("quality") == INVALID
    return costs


def _requests(run: ServingRun) -> dict[str, dict[str, Any]]:
    """Return the loads of the user's request by name: by users, then at rates."""
    curve = run.loads[run.loads["kind"] == REQUEST].sort_values(["users", "rate_per_s"])
    rows = ({str(name): value for name, value in row.items()} for row in curve.to_dict("records"))
    return {row["load"]: row for row in rows}


def _points(
    baseline: ServingRun, other: ServingRun, obstacles: Sequence[str], requests: Sequence[str]
) -> Iterator[Point]:
    runs = baseline, other
    rows, answers = [_requests(run) for run in runs], [read_requests(run, REQUEST) for run in runs]
    for load in rows[0]:
        if load in rows[1]:
            sides = [each[load] for each in rows]
            values = [_quantities(row, of.get(load, [])) for row, of in zip(sides, answers, strict=True)]
            items = _differences(values[0], values[1], [*obstacles, *(requests or _lengths(*sides))])
            users = finite(sides[0]["users"])
            yield Point(load, None if users is None else int(users), tuple(items))


def _quantities(row: Mapping[str, Any], answers: Sequence[Answer]) -> Values:
    """Return the energies and latencies of a load; a latency has an interval where its requests are known."""
    energy, noisy = (
        interval(row["request_j"], row["request_low_j"], row["request_high_j"]),
        row["quality"] == INVALID,
    )
    work = interval(row["work_j"], row["work_low_j"], row["work_high_j"])
    per_token = finite(row["token_j"])
    token = energy.scaled(per_token / energy.value) if energy and per_token and energy.value > 0 else None
    return {
        (PER_REQUEST, "J"): (energy, noisy),
        (WORK, "J"): (work, too_noisy(work, int(finite(row["slots"]) or 0))),
        (PER_NEW_TOKEN, "J"): (token, noisy),
        (FIRST_TOKEN, "s"): (median_s(first_texts_s(answers)) or interval(row["ttft_p50_s"]), False),
        (EACH_TOKEN, "s"): (median_s(later_tokens_s(answers)) or interval(row["tpot_p50_s"]), False),
    }


def _lengths(*rows: Mapping[str, Any]) -> list[str]:
    """Return which tokens of a load's requests differ: an engine may end answers early."""
    apart = []
    for column, words in (("prompt_tokens", "tokens of the prompts"), ("new_tokens", "tokens of the answers")):
        first, second = (finite(row[column]) for row in rows)
        if first is None or second is None or abs(second - first) > SAME_TOKENS * max(first, second):
            apart.append(words)
    return apart
