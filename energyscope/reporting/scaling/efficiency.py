"""Tokens per joule, latency and energy x delay along batch sizes and lengths, and where more stops paying."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from energyscope.intervals import Interval, from_entry
from energyscope.reporting.charts.plane import Axis, curves
from energyscope.reporting.run.report import DECODE
from energyscope.reporting.scaling.laws import BATCH, LAWS, TOKENS, Entry, Laws, cells_of, gain_between, gain_of
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Table

BY_BATCH, BY_LENGTH = "tokens-per-joule-by-batch-size", "tokens-per-joule-by-length"
_FIGURES = (
    (BY_BATCH, BATCH, "tokens_per_j", "batch size"),
    ("latency-by-batch-size", BATCH, "latency_us", "batch size"),
    (BY_LENGTH, TOKENS, "tokens_per_j", "length"),
    ("latency-by-length", TOKENS, "latency_us", "length"),
)


@LAWS.section(5, "efficiency", "Efficiency")
def section(laws: Laws) -> Content | None:
    """Return tokens per joule and latency along batch sizes and lengths, one view for each group."""
    lines = [laws.efficiency(group) for group in laws.groups]
    if not any(lines):
        return None
    figures = []
    for name, along, key, over in _FIGURES:
        views, knees = [], False
        for index, group_lines in enumerate(lines):
            chosen = [line for line in group_lines if line["along"] == along]
            guides = [float(line["knee"][along]) for line in chosen if line.get("knee")]
            table, knees = _shapes(laws, chosen), knees or bool(guides)
            if table:
                chart = curves(table, Axis(along, log=True, guides=guides), Axis(key), series="line")
                views.append(View(chart, table, {"group": str(index)}))
        caption = "More is better. Band: 95 % interval." if key == "tokens_per_j" else "Of a pass or step."
        caption += " Dashed: the knee." if knees else ""
        title = f"{_shapes(laws, []).column(key).title} by {over}"
        figures.append(Figure(name, title, views, caption))
    tables = {f"gains-{index}": _gains(group_lines) for index, group_lines in enumerate(lines)}
    return Content({"labels": laws.labels}, figures, tables)


def efficiency_facts(laws: Laws) -> dict[str, Any]:
    """Return the numbers of a sentence: the line along batch sizes over which tokens per joule rise most."""
    line = max((line for line in laws.efficiency(laws.groups[0]) if line["along"] == BATCH), key=gain_of)
    rows = line["rows"]
    ends, last = (rows[0], rows[-1]), gain_between(rows[-2], rows[-1])
    doublings = math.log2(rows[-1][BATCH] / rows[-2][BATCH])
    return {
        "phase": line.get("phase"),
        "at": _place(line),
        "batches": [row[BATCH] for row in ends],
        "tokens": [from_entry(row.get("tokens_per_j")) for row in ends],
        "gain": gain_between(*ends),
        "latency": [row.get("latency_us") for row in ends],
        "knee": (line.get("knee") or {}).get(BATCH),
        "least": line.get("least_edp"),
        "last": None if last is None else _per_doubling(last, doublings),
    }


def _shapes(laws: Laws, lines: Sequence[Entry]) -> Table:
    """Return every shape along these lines."""
    columns = [
        Column("line", "At"),
        Column(BATCH, "Batch", "count"),
        Column(TOKENS, "Tokens", "count", "of a sequence, or in the cache"),
        Column("tokens_per_j", "Tokens per MODELLED joule" if laws.modelled else "Tokens per joule", ""),
        Column("latency_us", "Latency", "us"),
        Column("energy_per_token_mj", f"{laws.energy} per token", "mJ"),
        Column("energy_mj", f"{laws.energy} of a pass", "mJ"),
        Column("tokens_per_s", "Tokens per second", ""),
        Column("edp_mj_s", "Energy x delay", "mJ s", "of a pass; its interval is of the energy alone"),
        Column("power", "Power", "W"),
    ]
    rows = [
        cells_of(row, line=_place(line), power=None if laws.modelled else row.get("power_w"))
        for line in lines
        for row in line["rows"]
    ]
    return Table(columns, rows, "Tokens per joule at every shape")


def _place(line: Entry) -> str:
    """Return the length, or the batch size, that a line is at."""
    if line["along"] == TOKENS:
        return f"batch {line['fixed']:,}"
    return f"{line['fixed']:,} tokens" + (" in the cache" if line.get("phase") == DECODE else "")


def _gains(lines: Sequence[Entry]) -> Table:
    """Return what each line gains from its first to its last shape, and where more stops paying."""
    columns = [
        Column("line", "At"),
        Column("over", "Over"),
        Column("gain", "Tokens per joule", "ratio", "at the last shape over the first"),
        Column("slower", "Latency", "ratio", "at the last shape over the first", rank=2),
        Column("at", "Knee", "count", "from there on, doubling gains less than 10 %", rank=1),
        Column("half", "Half of the limit", "count", "where half of the energy is fixed, if E = E0 + e n", rank=4),
        Column("least_edp", "Least energy x delay", "count", "per token", rank=4),
        Column("why", "Why no knee", "reasons", rank=5),
    ]
    rows = []
    for line in lines:
        along, knee, first, last = line["along"], line.get("knee") or {}, line["rows"][0], line["rows"][-1]
        gains = {
            "line": _place(line),
            "over": f"{'batch' if along == BATCH else 'tokens'} {first[along]:,} to {last[along]:,}",
            "gain": gain_between(first, last),
            "slower": last["latency_us"] / first["latency_us"] if first.get("latency_us") else None,
            "at": knee.get(along),
            "half": knee.get("half_at"),
            "why": knee.get("words") or line.get("reason"),
        }
        rows.append(cells_of(line, **gains))
    return Table(columns, rows, "Gains along batch sizes and lengths")


def _per_doubling(gain: Interval, doublings: float) -> Interval:
    limits = [None if limit is None else limit ** (1 / doublings) - 1 for limit in (gain.low, gain.high)]
    return Interval(gain.value ** (1 / doublings) - 1, *limits)
