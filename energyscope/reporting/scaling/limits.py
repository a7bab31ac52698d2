"""The same pass under several power limits or locked clocks: joules against milliseconds, and the best of them."""

from __future__ import annotations

from typing import Any

from energyscope.intervals import Interval, difference, from_entry
from energyscope.reporting.charts.plane import Axis, plane
from energyscope.reporting.scaling.laws import LAWS, Entry, Laws, cells_of, limit_name, named, shape_name
from energyscope.reporting.section import Content, Figure, View
from energyscope.reporting.table import Column, Table

BY_LIMIT = "energy-by-limit"


@LAWS.section(4, "limits", "Power limits")
def section(laws: Laws) -> Content | None:
    """Return energy and time of each pass at every limit, and what the best limit does to the parts."""
    entries = passes_of(laws)
    if not entries:
        return None
    table = _passes(laws, entries)
    several = len(entries) > 1
    x, y = ("time", "energy") if several else ("latency_us", "energy_mj")
    guides = (0.0,) if several else ()
    chart = plane(
        table, Axis(x, guides=guides, log=False), Axis(y, guides=guides, log=False), series="pass", name="held"
    )
    caption = "Down and left is better. Whiskers: 95 % intervals."
    tables = {"limits": table}
    if entries[0]["parts"]:
        tables["limits-parts"] = _parts(laws, entries[0], _labels(laws, entries)[0])
    title = f"{laws.energy} against time, held to a limit"
    return Content(figures=[Figure(BY_LIMIT, title, [View(chart, table)], caption)], tables=tables)


def passes_of(laws: Laws) -> list[Entry]:
    """Return the passes that were measured under several limits; first the one that saves most."""

    def least(entry: Entry) -> float:
        ratios = [from_entry(row.get("energy_ratio")) for row in entry["rows"]]
        return min((item.value for item in ratios if item), default=1.0)

    return sorted(
        laws.document.get("limits") or [], key=lambda entry: (entry["least_energy"] is None, least(entry))
    )


def limit_facts(laws: Laws) -> dict[str, Any]:
    """Return the numbers of a sentence: what the limit of the least energy saves, and what it costs in time."""
    entries = passes_of(laws)
    entry = entries[0]
    rows = {row["limit"]: row for row in entry["rows"]}
    best = rows[entry["least_energy"]] if entry["least_energy"] is not None else None
    return {
        "pass": _labels(laws, entries)[0],
        "several": len(entries) > 1,
        "known": any(row["energy_ratio"] for row in entry["rows"][1:]),
        "eager": entry.get("execution") == "eager",
        "board": entry.get("board"),
        "first": limit_name(entry["rows"][0]["limit"]),
        "best": best and best["limit"],
        "energy": from_entry(best["energy_ratio"]) if best else None,
        "time": best["time_ratio"] if best else None,
        "least_edp": entry["least_edp"],
        "rows": [
            (limit_name(limit), from_entry(row["energy_mj"]), row["latency_us"]) for limit, row in rows.items()
        ],
    }


def _passes(laws: Laws, entries: list[Entry]) -> Table:
    """Return a row for each pass at each limit."""
    columns = [
        Column("pass", "Pass"),
        Column("held", "Held to"),
        Column("energy_mj", laws.energy, "mJ"),
        Column("latency_us", "Time", "us"),
        *_columns_of_changes(laws),
        Column("power", "Power", "W", rank=2),
        Column("edp_mj_s", "Energy x delay", "mJ s", "its interval is of the energy alone", rank=3),
        Column("best", "Least", rank=1),
    ]
    labels = _labels(laws, entries)
    rows = [
        cells_of(
            row,
            **{"pass": label},
            **_changes(row),
            held=limit_name(row["limit"]),
            power=None if laws.modelled else row.get("power_w"),
            best=_best(entry, row["limit"]),
        )
        for label, entry in zip(labels, entries, strict=True)
        for row in entry["rows"]
    ]
    return Table(columns, rows, "Energy and time by limit")


def _labels(laws: Laws, entries: list[Entry]) -> list[str]:
    """Return what passes are called: their shape, with what else distinguishes them from others of that shape."""
    labels = [shape_name(entry, entry.get("phase")) for entry in entries]
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label}, {more}" for label, more in zip(labels, laws.distinct_labels(entries), strict=True)]


def _best(entry: Entry, limit: str) -> str:
    kinds = {"energy": entry["least_energy"], "energy x delay": entry["least_edp"]}
    return ", ".join(name for name, at in kinds.items() if at == limit)


def _columns_of_changes(laws: Laws) -> list[Column]:
    energy = f"Change of {laws.energy[0].lower()}{laws.energy[1:]}"
    return [
        Column("energy", energy, "change", "against the first limit"),
        Column("time", "Change of time", "change", "against the first limit"),
    ]


def _changes(row: Entry) -> dict[str, Any]:
    """Return by what share energy and time change, of their ratios."""
    energy = from_entry(row.get("energy_ratio"))
    one = Interval(1.0, 1.0, 1.0)
    return {"energy": None if energy is None else difference(energy, one), "time": row["time_ratio"] - 1}


def _parts(laws: Laws, entry: Entry, label: str) -> Table:
    """Return what the limit of the least energy does to the parts of one pass."""
    columns = [
        Column("part", "Part"),
        *_columns_of_changes(laws),
    ]
    held, first = limit_name(entry["least_energy"]), limit_name(entry["rows"][0]["limit"])
    title = f"Parts at {held} over {first}, {label}"
    return Table(columns, [cells_of(part, **named(part), **_changes(part)) for part in entry["parts"]], title)
