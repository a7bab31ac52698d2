"""The windows that a journal holds, by the names that power_trace.csv gives to their ticks. Pure functions.

A name is what was repeated, and in which pass:

    decode@1024/node:layers.0.mlp#3     of the profile: phase, target, pass
    decode@1024/node:model#0.2          taken again in the same pass; the last one counts
    decode@1024/node:attention#3/overhead   what ran beside the target (pauses, restored inputs), to be subtracted
    decode:batch_size:16#1              of the alternatives
    fp16@32x128#2                       of the benchmark: precision, batch size x length, trial
    generation#5, step@192#5            a traced generation; the step in its middle, after it
    loop@64#0, tokenize#0               the loop of `generate` by itself; its texts
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from energyscope.unknown import total

Entry = Mapping[str, Any]
Span = tuple[float, float]

COLUMNS = ("begin_s", "end_s", "calls", "energy_mj", "time_us")


def windows_of(entries: Iterable[Entry]) -> dict[str, dict[str, Any]]:
    """Return the windows of a journal by name, in their order.

    Returns:
        For each, ``begin_s`` and ``end_s`` (monotonic clock), the ``calls`` between them, and what the run made of
        them: ``energy_mj`` and ``time_us`` of a call, None where unknown or not of one call. Windows whose time
        older journals do not hold are left out.

    """
    windows: dict[str, dict[str, Any]] = {}
    takes: dict[str, int] = {}
    generations = 0
    for entry in entries:
        generations += "generation" in entry
        name = _name(entry, generations)
        if name is None:
            continue
        takes[name] = takes.get(name, 0) + 1
        if takes[name] > 1:
            name = f"{name}.{takes[name]}"
        if span := _span(entry):
            windows[name] = _row(span, _figures(entry))
        if overhead := entry.get("overhead"):
            windows[f"{name}/overhead"] = _row(overhead["ran_s"], overhead["window"])
    return windows


def _name(entry: Entry, generations: int) -> str | None:
    """Return a window's name, None for an entry that holds none."""
    if "generation" in entry:
        return f"generation#{generations}"
    if "row" in entry:
        row = entry["row"]
        return f"{row['precision']}@{row['batch_size']}x{row['sequence_length']}#{row['trial']}"
    if "window" in entry:
        scene = f"{entry.get('scene', 'prefill')}/" if entry.get("stage") == "profile" else ""
        return f"{scene}{entry['subject']}#{entry['pass']}"
    if "windows" not in entry:
        return None
    tokens = {"step": entry.get("step_context"), "loop": entry.get("loop_tokens")}
    what = next((f"{name}@{value}" for name, value in tokens.items() if value is not None), entry.get("phase"))
    return f"{what}#{entry['pass']}"


def _span(entry: Entry) -> Span | None:
    """Return when the calls of a window began and ended (s).

    Journals without ``ran_s`` hold the begin and the length, of which the latter is that of two windows where one
    was subtracted; then the window has no ``naive_mj``.
    """
    if "generation" in entry:
        return entry["generation"]["begin_s"], entry["generation"]["end_s"]
    if "ran_s" in entry:
        return tuple(entry["ran_s"])
    window = entry.get("window") or {}
    if "begin_s" not in entry or window.get("naive_mj") is None:
        return None
    return entry["begin_s"], entry["begin_s"] + window["seconds"]


def _figures(entry: Entry) -> Mapping[str, Any]:
    """Return the figures of a call, over all devices."""
    if "row" in entry:
        row = entry["row"]
        return {"calls": row["iterations"], "energy_mj": row["energy_per_inference_mj"],
                "time_us": row["mean_latency"] * 1e6}  # fmt: skip
    alone = entry.get("window", {"calls": 1})  # a generation is one call, whose energy the journal does not hold
    devices: list[Mapping[str, Any]] = entry.get("windows") or [alone]
    return {**devices[0], "energy_mj": total([window.get("energy_mj") for window in devices])}


def _row(span: Span, figures: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(COLUMNS, (*span, *(figures.get(name) for name in COLUMNS[2:])), strict=True))
