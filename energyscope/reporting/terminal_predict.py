"""What runs foretell of a shape that was not measured, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.runs.intervals import Interval

MODELLED = "MODELLED"
MOST_SOURCES = 6
LAWS = {  # by the laws' names, in a few words for who has not met them
    "two-term": "energy = E0 + k x FLOPs",
    "two-term in bytes": "energy = E0 + k x bytes, of what has no FLOPs",
    "constant": "the mean: all cells do the same work",
    "per call": "energy = so much a call, a FLOP and a byte, over models",
    "roofline (floor)": "static power x time + so much a call, a FLOP and a byte",
    "roofline (board's rates)": "static power x time at the board's rates + so much a call, a FLOP and a byte",
}
_BY = {"length": "lengths", "batch": "batches", "cell": "cells", "model": "models"}


def prediction_table(found: Mapping[str, Any]) -> RenderableType:
    """Return a prediction, as `energyscope predict --json` has it, as a heading, a table and notes below."""
    modelled = bool(found["modelled"])
    first = [[one] for one in (found["whole"], found["sum"]) if one]
    groups = [*first, found["parts"], found["groups"]]
    rows = [row for group in groups for row in group]
    left_out = {_subject(subject): reason for subject, reason in found["left_out"].items()}
    return Group(
        *_heading(found),
        _table(groups, modelled=modelled),
        Text(f"held-out error: median over {_BY[found['left_out_by']]} foretold from the others", style="dim"),
        *(Text(f"{law}: {LAWS[law]}", style="dim") for law in LAWS if any(row["law"] == law for row in rows)),
        *_said_once("outside of the data", _beyond(rows)),
        *_flags(rows),
        *_said_once("held-out error not known", _unjudged(rows)),
        *_said_once("not told", left_out),
        *(Text(f"note: {note}", style="yellow") for note in found["notes"]),
    )


def _heading(found: Mapping[str, Any]) -> list[Text]:
    shape = f"{found['batch_size']} x {found['tokens']} tokens"
    if found["phase"] == "decode":
        shape = f"a step of {found['batch_size']} on {found['tokens']} tokens of context"
    what = f"{found['model']}, {found['phase']}, {shape}, {found['precision']}, {found['execution']}: predicted"
    lines = [Text(what, style="bold"), Text(f"from {_sources(found['from'])}", style="dim")]
    if found["modelled"]:
        lines.insert(
            1, Text(f"{MODELLED}: these joules are time x stated watts, not measured", style="bold yellow")
        )
    return lines


def _sources(cells: Sequence[Mapping[str, Any]]) -> str:
    said = [f"{one['run']} ({one['batch_size']} x {one['tokens']})" for one in cells]
    more = f" and {len(said) - MOST_SOURCES} more" if len(said) > MOST_SOURCES else ""
    return f"{text.count(len(said), 'cell')}: {', '.join(said[:MOST_SOURCES])}{more}"


def _table(groups: Sequence[Sequence[Mapping[str, Any]]], *, modelled: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("what", min_width=11, overflow="fold")
    table.add_column("energy [95 %]", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("law")
    table.add_column("held-out\nerror", justify="right", no_wrap=True)
    table.add_column("data", no_wrap=True)
    for rows in groups:
        for row in rows:
            energy = _energy(row["energy_mj"], modelled=modelled)
            table.add_row(
                Text(_name(row)),
                energy,
                _time(row["time_us"]),
                Text(row["law"]),
                _error(row["held_out"]),
                _data(row),
            )
        table.add_section()
    return table


def _energy(found: Mapping[str, Any], *, modelled: bool) -> Text:
    """Write value and limits; joules that were modelled say so at each."""
    item = Interval(**found)
    written = f"{text.quantity(item.value, 'mJ')}\n{_limits(item)}"
    return Text.assemble((f"{MODELLED} ", "yellow") if modelled else "", written)


def _limits(item: Interval) -> str:
    """Write the limits, or the one that can be told."""
    return f"up to {text.quantity(item.high, 'mJ')}" if item.low is None and item.high else text.limits(item, "mJ")


def _time(found: Mapping[str, Any] | None) -> Text:
    return Text("\u2013" if found is None else text.quantity(found["value"], "us"))


def _error(held_out: Mapping[str, Any]) -> Text:
    """Write the median error of the cells that were left out, and how many they were."""
    if held_out["median"] is None:
        return Text("not known", style="dim")
    where = {"outside": "\noutside", "all": "\nboth"}.get(held_out["where"], "")
    return Text.assemble(text.percent(held_out["median"]), (f" (n={held_out['cells']}){where}", "dim"))


def _data(row: Mapping[str, Any]) -> Text:
    """Say whether the shape lies within the law's data."""
    return Text("outside", style="yellow") if row["extrapolated"] else Text("within", style="dim")


def _beyond(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return why rows lie outside: what most of them have in common (the shape), or else a row's first reason."""
    why = {_name(row): str(row["why"]).split("; ") for row in rows if row["extrapolated"] and row["why"]}
    count = Counter(words for reasons in why.values() for words in reasons)
    shared = {
        name: [words for words in reasons if count[words] > max(1, len(why) / 2)] for name, reasons in why.items()
    }
    return {name: "; ".join(shared[name] or reasons[:1]) for name, reasons in why.items()}


def _flags(rows: Sequence[Mapping[str, Any]]) -> list[Text]:
    """Say each flag once, with the subjects that it is raised for."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for flag in row["flags"]:
            found.setdefault(flag, []).append(_name(row))
    return [
        Text(f"{text.listed(subjects)}: {flag}", style="yellow" if "negative" in flag else "dim")
        for flag, subjects in found.items()
    ]


def _unjudged(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    reasons = {_name(row): row["held_out"]["reason"] for row in rows if row["held_out"]["median"] is None}
    return {name: reason or "no cell could be left out" for name, reason in reasons.items()}


def _said_once(what: str, reasons: Mapping[str, str]) -> list[Text]:
    """Say each reason once, with the subjects that it holds for."""
    found: dict[str, list[str]] = {}
    for subject, reason in reasons.items():
        found.setdefault(reason, []).append(subject)
    return [Text(f"{what}, {text.listed(names)}: {reason}", style="dim") for reason, names in found.items()]


def _name(row: Mapping[str, Any]) -> str:
    return "sum over parts" if row["law"] == "sum over parts" else _subject(str(row["subject"]))


def _subject(subject: str) -> str:
    return "whole model" if subject == "model" else subject
