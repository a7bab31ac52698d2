"""generation.json from a journal alone, of a finished or of an interrupted run. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.generating import figures
from energyscope.generating.figures import Figure, mean_of, scaled, value_of
from energyscope.generating.intervals import from_lists
from energyscope.generating.marks import Mark
from energyscope.generating.phases import (
    GenerationShape,
    load_phase,
    repeated_phase,
    traced_phases,
    untraced_phases,
)
from energyscope.generating.repeated import aside, loop_figures, step_figures
from energyscope.generating.trace import Traced, Value, trace
from energyscope.reasons import reason
from energyscope.unknown import mean

Entry = Mapping[str, Any]

STAGE = "generate"
ENDED = reason("ended-before-measured")
KEPT = ("prompt_tokens", "new_tokens", "batch_size", "kv_cache")


def recover(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return the document of a journal's entries; None where the stage had not begun.

    Of a stage that was begun again, the last begin counts.
    """
    ours = [entry for entry in entries if entry.get("stage") == STAGE]
    begins = [number for number, entry in enumerate(ours) if "header" in entry]
    if not begins:
        return None
    header, since = ours[begins[-1]]["header"], ours[begins[-1] :]
    marks = [Mark.from_entry(entry["generation"]) for entry in since if "generation" in entry]
    idle_w = None if header["modelled"] else mean([entry["idle_w"] for entry in since if "idle_w" in entry])
    setting = GenerationShape(header["prompt_tokens"], header["new_tokens"], header["batch_size"], idle_w)
    traced, why_untraced = _traced(header, since, marks)
    middle = untraced_phases(marks, setting, why_untraced) if traced is None else traced_phases(traced, setting)
    why_not = header["tokenizer_reason"] or ENDED
    return {
        "settings": {**{name: header[name] for name in KEPT}, "generations": len(marks), "seed": header["seed"]},
        "phases": [
            load_phase(ours),
            repeated_phase("tokenize", since, setting, why_not),
            *middle,
            repeated_phase("detokenize", since, setting, why_not),
        ],
        "loop": loop_figures(since, ENDED),
        "step": step_figures(since, idle_w, ENDED),
        "steps": [] if traced is None else _steps(traced),
        "rates": _rates(marks, traced, middle, setting),
        "marks": [_mark(mark) for mark in marks],
        "idle_w": idle_w,
        "modelled": header["modelled"],
        "notes": [*header["notes"], *_late_notes(since)],
    }


def _late_notes(entries: Sequence[Entry]) -> list[str]:
    notes = [note for entry in entries for note in (*entry.get("notes", ()), *entry.get("bystanders", ()))]
    return list(dict.fromkeys(notes))


def _traced(header: Entry, entries: Sequence[Entry], marks: Sequence[Mark]) -> tuple[Traced | None, str]:
    """Return the fit of the trace, or why there is none."""
    if not marks:
        return None, reason("ended-before-generation")
    if header["settle_s"] > 0:
        return None, reason("meter-slower-than-phase", settle_s=header["settle_s"])
    pieces = [entry["ticks"] for entry in entries if "ticks" in entry]
    ticks = [from_lists([row for piece in pieces for row in piece[number]]) for number in range(header["meters"])]
    return trace(ticks, marks, aside(entries)), ""


def _mark(mark: Mark) -> dict[str, Any]:
    return {
        "begin_s": mark.begin_s,
        "prefill_end_s": mark.tokens_s[0],
        "end_s": mark.end_s,
        "tokens_s": list(mark.tokens_s),
    }


def _steps(traced: Traced) -> list[dict[str, Any]]:
    """Return the bins of decode steps, per step of the batch."""
    rows = []
    for first, last in traced.bins:
        size = last - first + 1
        seconds = mean_of([float(mark.steps_s[first - 1 : last].sum()) for mark in traced.marks])
        energy, length = traced.bin_j((first, last)), value_of(seconds)
        power = figures.figure(energy.value, energy.half)
        rows.append({
            "first": first,
            "last": last,
            "seconds": scaled(seconds, 1 / size),
            "energy_mj": scaled(figures.widened(energy.value, energy.half, seconds), 1e3 / size),
            "power_w": scaled(power, 1 / length) if length else None,
        })  # fmt: skip
    return rows


def _rates(
    marks: Sequence[Mark], traced: Traced | None, phases: Sequence[Entry], setting: GenerationShape
) -> dict[str, Figure | None]:
    """Return the rates: per prompt token of the prefill, per generated token of the decode.

    Tokens a joule and tokens a second are those of whole generations: all new tokens over prefill and decode.
    Tokens a second a watt are those of the decode alone: of whole generations, they are tokens a joule.
    """
    prefill, decode = phases
    whole_s = mean_of([mark.prefill_s + mark.decode_s for mark in marks])
    whole = Value(None, None, None) if traced is None else traced.whole_j()
    new = setting.batch_size * setting.new_tokens
    return {
        "time_to_first_token_s": prefill["seconds"],
        "time_per_output_token_s": mean_of([mark.token_s for mark in marks]),
        "joules_per_prompt_token": prefill["joules_per_token"],
        "joules_per_generated_token": decode["joules_per_token"],
        "tokens_per_joule": figures.inverse(figures.widened(whole.value, whole.half, whole_s), new),
        "tokens_per_s": figures.inverse(whole_s, new),
        "tokens_per_s_per_w": figures.inverse(decode["joules_per_token"]),
    }
