"""From what a measurement kept, load by load, to its document (``serving.json``) and its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from energyscope.intervals import Interval
from energyscope.metering.grades import grade
from energyscope.metering.tick_intervals import ticks_from_rows, ticks_to_rows
from energyscope.metering.ticks import Ticks
from energyscope.reasons import Reason, join, reason
from energyscope.serving.amounts import CAUSES
from energyscope.serving.curve import LoadRow, good_answers, knee, load_row, per_million_tokens
from energyscope.serving.energy import PAUSE, WARM_UP, ServingFit, fit_serving, idle_power
from energyscope.serving.phases import phases_of
from energyscope.serving.requests import Answer, Load, Served

VERSION = 1
MANY_CACHED = 0.01  # of the prompts' tokens


@dataclass(frozen=True)
class Measured:
    """A load that was sent, each meter's ticks from before it until after it, and what disturbed it.

    ``clock_mhz`` is the boards' mean SM clock, ``temperature_c`` their highest; None where they are not known.
    """

    served: Served
    ticks: tuple[Ticks, ...]
    guards: tuple[Reason, ...] = ()
    clock_mhz: float | None = None
    temperature_c: float | None = None

    def entry(self) -> dict[str, Any]:
        """Return the line of the journal."""
        served = self.served
        return {
            "stage": "serving",
            "load": served.load.document(),
            "begin_s": served.begin_s,
            "end_s": served.end_s,
            "unsent": served.unsent,
            "answers": [answer.document() for answer in served.answers],
            "ticks": [ticks_to_rows(ticks) for ticks in self.ticks],
            "guards": list(self.guards),
            "clock_mhz": self.clock_mhz,
            "temperature_c": self.temperature_c,
        }

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Self:
        """Return the load of a line of the journal."""
        answers = [Answer.of(answer) for answer in entry["answers"]]
        served = Served(
            Load.of(entry["load"]), float(entry["begin_s"]), float(entry["end_s"]), answers, entry["unsent"]
        )
        ticks = tuple(ticks_from_rows(rows) for rows in entry["ticks"])
        guards = tuple(map(Reason, entry["guards"]))
        return cls(served, ticks, guards, entry["clock_mhz"], entry["temperature_c"])


def serving_document(
    measured: Sequence[Measured],
    price: float | None = None,
    carbon: float | None = None,
    *,
    modelled: bool = False,
) -> tuple[dict[str, Any], list[LoadRow]]:
    """Return what the loads tell: costs of each cause, phases, the knee, notes; and a row for each load.

    A ``modelled`` power is the same whatever is done: nothing is fitted to it.
    """
    loads = [part.served for part in measured]
    ticks = _joined(measured)
    fit = fit_serving(ticks, loads) if loads and not modelled else None
    idle = None if fit is None else idle_power(ticks, loads) or fit.costs()["time"]
    asking = [part for part in measured if part.served.load.kind not in {PAUSE, WARM_UP}]
    rows = [
        replace(
            load_row(part.served, ticks, idle, part.guards),
            clock_mhz=part.clock_mhz,
            temperature_c=part.temperature_c,
        )
        for part in asking
    ]
    best = knee(rows)
    document = {
        "schema": VERSION,
        "idle_w": _limits(idle),
        "costs": [] if fit is None else _costs(fit),
        "phases": []
        if fit is None or idle is None
        else phases_of(fit, [(part.served, part.guards) for part in measured], ticks, idle),
        "left_out_error": None if fit is None else fit.left_out,
        "held_out": [] if fit is None else [{**asdict(part), "error": part.error} for part in fit.held_out],
        "knee": None if best is None else best.load,
        "million_tokens": {
            row.load: per_million_tokens(row.token_j, price, carbon) for row in rows if row.token_j is not None
        },
        "notes": [*_unfitted(fit, modelled=modelled), *_notes(loads)],
    }
    return document, rows


def _joined(measured: Sequence[Measured]) -> list[Ticks]:
    """Return each meter's ticks over all loads."""
    return [
        ticks_from_rows([row for part in measured for row in ticks_to_rows(part.ticks[meter])])
        for meter in range(len(measured[0].ticks) if measured else 0)
    ]


def _costs(fit: ServingFit) -> list[dict[str, Any]]:
    return [
        {"cause": cause, "unit": CAUSES[cause], **_limits(cost), **_graded(fit, cost)}
        for cause, cost in fit.costs().items()
    ]


def _graded(fit: ServingFit, cost: Interval) -> dict[str, Any]:
    """Return a cost's grade: none is better than the error of loads that were left out."""
    half = max(cost.above, cost.below) / cost.value if cost.value > 0 else None
    quality, reasons = grade(None if half is None else max(half, fit.left_out), fit.intervals)
    return {"quality": quality, "reasons": join(map(Reason, reasons))}


def _unfitted(fit: ServingFit | None, *, modelled: bool) -> list[Reason]:
    if fit is not None:
        return []
    return [reason("modelled-power-is-constant" if modelled else "costs-not-separable")]


def _notes(loads: Sequence[Served]) -> list[Reason]:
    answers = [answer for load in loads for answer in good_answers(load)]
    notes = [*_of_caches(loads, answers)]
    if any(answer.new_tokens is None for answer in answers):
        notes.append(reason("texts-counted"))
    if any(answer.new_tokens is None and answer.prompt_tokens is not None for answer in answers):
        notes.append(reason("prompts-counted"))
    if any(answer.prompt_tokens is None for answer in answers):
        notes.append(reason("prompt-tokens-unknown"))
    return notes


def _of_caches(loads: Sequence[Served], answers: Sequence[Answer]) -> list[Reason]:
    notes = []
    repeated = [len(load.answers) / len(load.load.shapes) for load in loads if _is_traced(load.load)]
    if max(repeated, default=0.0) > 1:
        notes.append(reason("trace-repeated", times=max(repeated)))
    if any(load.load.shared_words for load in loads) and all(answer.cached_tokens is None for answer in answers):
        notes.append(reason("cache-not-stated"))
    prompts = sum(answer.prompt_tokens or 0 for answer in answers)
    cached = sum(answer.cached_tokens or 0 for answer in answers)
    if cached > MANY_CACHED * prompts:
        notes.append(reason("prompts-cached", share=cached / prompts))
    return notes


def _is_traced(load: Load) -> bool:
    return load.users is not None and any(shape.text is not None for shape in load.shapes)


def _limits(value: Interval | None) -> dict[str, float | None]:
    return {"value": None, "low": None, "high": None} if value is None else asdict(value)
