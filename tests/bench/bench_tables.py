"""From the values of each method to the table of the comparison. Pure functions over plain data."""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench_ways import Value

from energyscope.metering.interval import spread

REFERENCE = "reference"
OURS = "tick-aligned, with interval"
OURS_ONE = "tick-aligned, one window"
CLEAR = "CLEAR"
COLUMNS = (
    "component", "method", "energy_mj", "cv", "repetitions", "seconds_per_value", "seconds_total", "distance",
    "with_reference", "largest_distance", "reason",
)  # fmt: skip
EXTRAPOLATED = "\\* extrapolated: the spread of reading a counter at both ends falls as 1 / window.\n"
HEADINGS = ("component", "method", "mJ a call", "spread (CV)", "values", "s a value", "s in all",
            "from reference", "interval holds it")  # fmt: skip


def row(component: str, method: str, values: Sequence[Value], reference_mj: float | None) -> dict[str, Any]:
    """Return one row: the mean of a method's values, their spread, cost and distance from the reference.

    One value of ours is a whole measurement, and so is one window of the others; CLEAR's trials make one value
    together.
    """
    energies = [value.energy_mj for value in values]
    total = sum(value.seconds for value in values)
    together = method.startswith(CLEAR)
    mean = statistics.fmean(energies)
    away = [energy / reference_mj - 1 for energy in energies] if reference_mj else []
    return {
        "component": component,
        "method": method,
        "energy_mj": mean,
        "cv": spread(energies),
        "repetitions": len(energies),
        "seconds_per_value": total if together else total / len(energies),
        "seconds_total": total,
        "distance": mean / reference_mj - 1 if reference_mj else None,
        "with_reference": _holding(values, reference_mj),
        "largest_distance": max(away, key=abs) if away else None,
        "reason": None,
    }


def reference_row(component: str, name: str, energy_mj: float, seconds: float) -> dict[str, Any]:
    """Return the row of the long window that the others are compared with."""
    known = {"component": component, "method": name, "energy_mj": energy_mj, "repetitions": 1}
    return {**dict.fromkeys(COLUMNS), **known, "seconds_per_value": seconds, "seconds_total": seconds}


def skipped_row(component: str, method: str, reason: str) -> dict[str, Any]:
    """Return the row of a method that gave no value, with the reason."""
    return {**dict.fromkeys(COLUMNS), "component": component, "method": method, "reason": reason}


def _holding(values: Sequence[Value], reference_mj: float | None) -> str | None:
    """Return of how many values the own interval holds the reference, such as ``9/10``."""
    intervals = [(one.low_mj, one.high_mj) for one in values if one.low_mj is not None and one.high_mj is not None]
    if not intervals or reference_mj is None:
        return None
    return f"{sum(low <= reference_mj <= high for low, high in intervals)}/{len(intervals)}"


def speed_ups(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each component, how many times longer the other methods take than ours.

    A window of ours gives a number, as CLEAR's protocol and a window of Zeus do; five or more of them give its
    interval as well. CLEAR's time is that of its whole protocol, whatever its spread. Reading the counter at both
    ends of a window is off by up to a tick at either, so that the spread falls as 1 / window: what CLEAR and Zeus
    would need for the spread of our number with its interval is extrapolated by that law. It favours them, since
    other noise falls more slowly. CLEAR's number is the mean of its trials: it spreads by theirs / sqrt(trials).
    """
    found = []
    for component in dict.fromkeys(one["component"] for one in rows):
        by_method = {one["method"]: one for one in rows if one["component"] == component and one["reason"] is None}
        if OURS not in by_method or OURS_ONE not in by_method:
            continue
        single, several = by_method[OURS_ONE]["seconds_per_value"], by_method[OURS]["seconds_per_value"]
        clear = by_method[CLEAR]["seconds_total"] if CLEAR in by_method else None
        equal = _clear_seconds(by_method.get(CLEAR), by_method[OURS]["cv"])
        zeus = _zeus_seconds(by_method, by_method[OURS]["cv"])
        found.append(
            {
                "component": component,
                "window_s": single,
                "interval_s": several,
                "clear_s": clear,
                "clear_over_window": clear and clear / single,
                "clear_over_interval": clear and clear / several,
                "clear_equal_spread_s": equal,
                "clear_equal_over_interval": equal and equal / several,
                "zeus_equal_spread_s": zeus,
                "zeus_over_interval": zeus and zeus / several,
            }
        )
    return found


def _clear_seconds(clear: Mapping[str, Any] | None, cv: float | None) -> float | None:
    if clear is None or not clear["cv"] or not cv:
        return None
    return float(clear["seconds_total"] * clear["cv"] / math.sqrt(clear["repetitions"]) / cv)


def _zeus_seconds(by_method: Mapping[str, Mapping[str, Any]], cv: float | None) -> float | None:
    products = [
        one["cv"] * one["seconds_per_value"]
        for method, one in by_method.items()
        if method.startswith("Zeus") and one["cv"]
    ]
    return statistics.median(products) / cv if products and cv else None


def markdown(
    rows: Sequence[Mapping[str, Any]], gains: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]]
) -> str:
    """Return the three tables as Markdown: the methods, the speed-ups, CLEAR's sensitivity to N."""
    main = [_cells(one) for one in rows]
    speed = [
        [one["component"], *(_number(one[key], "{:.1f}") for key in list(one)[1:])] for one in gains
    ]  # fmt: skip
    counts = [
        [one["component"], str(one["calls"]), _number(one["energy_mj"], "{:.4g}"), _percent(one["cv"]),
         _number(one["seconds_total"], "{:.1f}") if one["reason"] is None else one["reason"]]
        for one in trials
    ]  # fmt: skip
    speed_heads = ("component", "one window, s", "with interval, s", "CLEAR's protocol, s", "/ one window",
                   "/ with interval", "CLEAR for our spread, s*", "/ with interval", "Zeus for our spread, s*",
                   "/ with interval")  # fmt: skip
    parts = [_table(HEADINGS, main), _table(speed_heads, speed), EXTRAPOLATED]
    if counts:
        parts.append(_table(("component", "N", "mJ a call", "spread (CV)", "s in all"), counts))
    return "\n".join(parts)


def _cells(one: Mapping[str, Any]) -> list[str]:
    if one["reason"] is not None:
        return [one["component"], one["method"], f"not measured: {one['reason']}", *[""] * (len(HEADINGS) - 3)]
    return [
        one["component"],
        one["method"],
        _number(one["energy_mj"], "{:.4g}"),
        _percent(one["cv"]),
        str(one["repetitions"]),
        _number(one["seconds_per_value"], "{:.2f}"),
        _number(one["seconds_total"], "{:.1f}"),
        "" if one["distance"] is None else f"{one['distance']:+.2%}",
        one["with_reference"] or "",
    ]


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = "|" + "---|" * len(heads)
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(cells)} |" for cells in lines), ""])


def _number(value: float | None, pattern: str) -> str:
    return "" if value is None else pattern.format(value)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


def write(out: Path, document: Mapping[str, Any], text: str) -> None:
    """Write methods.json, methods.csv, sensitivity.csv and methods.md."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "methods.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (out / "methods.md").write_text(text, encoding="utf-8")
    for name, key in (("methods.csv", "rows"), ("sensitivity.csv", "sensitivity")):
        lines = document[key]
        if lines:
            with (out / name).open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(lines[0]))
                writer.writeheader()
                writer.writerows(lines)
