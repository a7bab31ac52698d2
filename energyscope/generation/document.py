"""generation.json from a journal alone, of a finished or of an interrupted run. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.generation.loop import loop_figures, mean_of, step_figures, step_spans
from energyscope.generation.phases import NO_DECODE, load_phase, phase, repeated_phase, traced_phase
from energyscope.generation.timeline import GenerationTimes
from energyscope.generation.trace import FittedEnergy, TraceFit, fit_trace, joined_intervals
from energyscope.grouping import group_by
from energyscope.intervals import Interval, serialize
from energyscope.metering.tick_intervals import ticks_from_rows
from energyscope.metering.ticks import Ticks
from energyscope.reasons import reason
from energyscope.unknown import mean

Entry = Mapping[str, Any]

STAGE = "generate"
ENDED = reason("ended-before-measured")
KEPT = ("prompt_tokens", "beside_encoder", "new_tokens", "batch_size", "kv_cache")


def recover(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return the document of a journal's entries; None where the stage had not begun.

    Of a stage that was begun again, the last begin counts.
    """
    own = [entry for entry in entries if entry.get("stage") == STAGE]
    begins = [number for number, entry in enumerate(own) if "header" in entry]
    if not begins:
        return None
    header, since = own[begins[-1]]["header"], own[begins[-1] :]
    marks = generated(since)
    idle_w = None if header["modelled"] else mean([entry["idle_w"] for entry in since if "idle_w" in entry])
    fit = _fit(header, since, marks)
    prefill, decode = _traced_phases(header, marks, fit, idle_w)
    why_not = header["tokenizer_reason"] or ENDED
    late = [note for entry in since for note in (*entry.get("notes", ()), *entry.get("bystanders", ()))]
    document = {
        "settings": {
            **{name: header.get(name) for name in KEPT},
            "generations": len(marks),
            "seed": header["seed"],
        },
        "phases": [
            load_phase(own),
            repeated_phase("tokenize", since, idle_w, why_not),
            prefill,
            decode,
            repeated_phase("detokenize", since, idle_w, why_not),
        ],
        "loop": loop_figures(since, ENDED),
        "step": step_figures(since, idle_w, ENDED),
        "steps": _steps(fit) if isinstance(fit, TraceFit) else [],
        "rates": _rates(header, marks, fit, prefill, decode),
        "host": _host(header, since),
        "marks": [_mark(mark) for mark in marks],
        "idle_w": idle_w,
        "modelled": header["modelled"],
        "notes": [*header["notes"], *dict.fromkeys(late)],
    }
    serialized: dict[str, Any] = _serialized(document)
    return serialized


def _fit(header: Entry, entries: Sequence[Entry], marks: Sequence[GenerationTimes]) -> TraceFit | str:
    """Return the fit of the trace, or why there is none."""
    if not marks:
        return reason("ended-before-generation")
    if header["settle_s"] > 0:
        return reason("meter-slower-than-phase", settle_s=header["settle_s"])
    parts = group_by((entry for entry in entries if {"ticks", "generation"} & set(entry)), part_of).values()
    intervals = [
        joined_intervals([(_ticks(part, meter), generated(part)) for part in parts if generated(part)])
        for meter in range(header["meters"])
    ]
    return fit_trace(intervals, marks, step_spans(entries))


def part_of(entry: Entry) -> int:
    """Return which part of a trace an entry is of: each process that took it up makes one."""
    return int(entry.get("trace_part", 0))


def _ticks(entries: Sequence[Entry], meter: int) -> Ticks:
    return ticks_from_rows([row for entry in entries if "ticks" in entry for row in entry["ticks"][meter]])


def generated(entries: Sequence[Entry]) -> list[GenerationTimes]:
    """Return the time stamps of a journal's traced generations, oldest first."""
    return [GenerationTimes.from_entry(entry["generation"]) for entry in entries if "generation" in entry]


def _traced_phases(
    header: Entry, marks: Sequence[GenerationTimes], fit: TraceFit | str, idle_w: float | None
) -> list[dict[str, Any]]:
    """Return the prefill and the decode of a mean generation; without a fit, their seconds alone."""
    if isinstance(fit, str):
        prefill_j = decode_j = FittedEnergy(reason=fit)
    else:
        prefill_j, decode_j = fit.prefill_j(), fit.decode_j()
    tokens, steps = header["batch_size"] * (header["prompt_tokens"] or 0), header["new_tokens"] - 1
    prefill = traced_phase("prefill", prefill_j, [mark.prefill_s for mark in marks], tokens, idle_w)
    if steps == 0:
        return [prefill, phase("decode", reason=NO_DECODE)]
    decode_s = [mark.decode_s for mark in marks]
    return [prefill, traced_phase("decode", decode_j, decode_s, header["batch_size"] * steps, idle_w)]


def _mark(mark: GenerationTimes) -> dict[str, Any]:
    return {
        "begin_s": mark.begin_s,
        "prefill_end_s": mark.tokens_s[0],
        "end_s": mark.end_s,
        "tokens_s": list(mark.tokens_s),
    }


def _steps(fit: TraceFit) -> list[dict[str, Any]]:
    """Return the bins of decode steps, per step of the batch."""
    rows = []
    for first, last in fit.bins:
        size = last - first + 1
        seconds = mean_of([float(mark.steps_s[first - 1 : last].sum()) for mark in fit.marks])
        fitted = fit.decode_j((first, last))
        energy, power = fitted.interval(seconds), fitted.interval()
        rows.append({
            "first": first,
            "last": last,
            "seconds": seconds and seconds.scaled(1 / size),
            "energy_mj": energy and energy.scaled(1e3 / size),
            "power_w": power.scaled(1 / seconds.value) if power and seconds and seconds.value else None,
        })  # fmt: skip
    return rows


def _rates(
    header: Entry, marks: Sequence[GenerationTimes], fit: TraceFit | str, prefill: Entry, decode: Entry
) -> dict[str, Interval | None]:
    """Return the rates: per prompt token of the prefill, per generated token of the decode.

    Tokens a joule and tokens a second are those of whole generations: all new tokens over prefill and decode.
    Tokens a second a watt are those of the decode alone: of whole generations, they are tokens a joule.
    """
    whole_s = mean_of([mark.prefill_s + mark.decode_s for mark in marks])
    whole_j = None if isinstance(fit, str) else fit.whole_j().interval(whole_s)
    tokens = header["batch_size"] * header["new_tokens"]
    return {
        "time_to_first_token_s": prefill["seconds"],
        "time_per_output_token_s": mean_of([mark.token_s for mark in marks]),
        "joules_per_prompt_token": prefill["joules_per_token"],
        "joules_per_generated_token": decode["joules_per_token"],
        "tokens_per_joule": _inverse(whole_j, tokens),
        "tokens_per_s": _inverse(whole_s, tokens),
        "tokens_per_s_per_w": _inverse(decode["joules_per_token"]),
    }


def _host(header: Entry, entries: Sequence[Entry]) -> dict[str, Interval] | None:
    """Return what the whole host drew in a generation, prefill included (J); None where it was not counted."""
    drawn = mean_of([entry.get("host_mj") for entry in entries if "generation" in entry])
    if drawn is None:
        return None
    tokens = header["batch_size"] * header["new_tokens"]
    return {"energy_j": drawn.scaled(1e-3), "joules_per_generated_token": drawn.scaled(1e-3 / tokens)}


def _inverse(item: Interval | None, factor: float = 1.0) -> Interval | None:
    """Return a positive number over an interval; without limits where the interval reaches 0."""
    if item is None or item.value <= 0:
        return None
    if item.low is None or item.high is None or item.low <= 0:
        return Interval(factor / item.value)
    return Interval(factor / item.value, factor / item.high, factor / item.low)


def _serialized(value: Any) -> Any:
    """Return a document whose intervals are plain data."""
    if isinstance(value, dict):
        return {name: _serialized(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_serialized(item) for item in value]
    return serialize(value) if isinstance(value, Interval) else value
