"""The laws of a group's subjects as one table for the terminal, which keeps all its columns in 80.

Names of subjects and shapes are broken where there is no room, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.reporting.laws.document import holds_zero, shows_growth
from energyscope.reporting.laws.law_tables import FEWEST, NO_GROWTH
from energyscope.runs.intervals import Interval

Entry = Mapping[str, Any]

SHORT = {"roofline (floor)": "roofline", "two-term in bytes": "two-term"}
NOTHING = "\u2013"
ROOM, ROOM_OF_SLOPES = 13, 14  # letters of limits, so that 80 columns are enough
WIDE = 1e4  # from which pJ are written as nJ


def law_table(subjects: Sequence[Entry], by: str | None, *, modelled: bool) -> Table:
    """Return a row for each subject, with errors of cells left out ``by`` that way; limits stand below values."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=0)
    word = "MODELLED " if modelled else ""
    table.add_column("subject", overflow="fold")
    for name in (f"{word}E0\n[95 %]", f"{word}k\n[95 %]", "R2"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("holds for", justify="right", overflow="fold")
    table.add_column("trend\nper x 2", justify="right", no_wrap=True)
    table.add_column("better law,\nerror (other)", no_wrap=True)
    before = None
    for entry in subjects:
        if before == "whole" or (before in {"part", "residual"} and entry["role"] == "group"):
            table.add_section()
        before = entry["role"]
        table.add_row(*_row(entry, by))
    return table


def _row(entry: Entry, by: str | None) -> list[Text | str]:
    name = Text("whole model" if entry["role"] == "whole" else str(entry["subject"]))
    fixed, marginal, r2 = _terms(entry)
    return [
        name,
        fixed,
        marginal,
        r2,
        _reach(entry["reach"], entry["two_term"]),
        _trend(entry["trend"], entry["two_term"]),
        _best(entry, by),
    ]


def _terms(entry: Entry) -> tuple[Text | str, Text | str, str]:
    """Return E0, k and R2; of what has no FLOPs over bytes, and of what does the same work its mean."""
    line, unit = entry["two_term"], "pJ/FLOP"
    name = "marginal_pj_per_flop"
    if "reason" in line and "fixed_mj" in entry.get("by_bytes", {}):
        line, unit, name = entry["by_bytes"], "pJ/byte", "pj_per_byte"
    if "reason" in line:
        constant = entry.get("constant") or {}
        return _stacked(constant.get("energy_mj"), "mJ"), NOTHING, NOTHING
    r2 = NOTHING if line["r2"] is None else f"{line['r2']:.3f}"
    growth: Text | str = _stacked(line[name], unit)
    if holds_zero(Interval(**line[name])):
        growth = Text.assemble(growth, (f"\n{NO_GROWTH}", "yellow"))
    return _stacked(line["fixed_mj"], "mJ"), growth, r2


def _stacked(item: Entry | None, unit: str) -> Text | str:
    """Write a value above its limits; a negative one is shown as it is, and marked."""
    if item is None:
        return NOTHING
    value = Interval(**item)
    if unit.startswith("pJ") and abs(value.value) >= WIDE:
        value, unit = value.scaled(1e-3), unit.replace("pJ", "nJ")
    written = f"{text.quantity(value.value, unit)}{_limits(value, unit)}"
    return Text(written, style="yellow" if value.value < 0 else "")


def _limits(item: Interval, unit: str) -> str:
    """Write limits below their value, with no more digits than there is room for, or else one below the other."""
    if item.low is None or item.high is None:
        return ""
    divisor, _ = text.scale_of(item.value, unit)
    scaled = item.scaled(1 / divisor)
    room = ROOM if unit == "mJ" else ROOM_OF_SLOPES
    written = [
        f"\n[{scaled.low:,.{places}f}, {scaled.high:,.{places}f}]" for places in range(text.places(scaled), -1, -1)
    ]
    fitting = next((one for one in written if len(one) <= room + 1), None)  # 1: the new line
    return fitting or written[-1].replace(", ", ",\n")


def _reach(reach: Entry, line: Entry) -> Text | str:
    if "reason" in line:
        return NOTHING
    if reach["holds"]:
        return "all cells"
    if not reach["within"]:
        return Text("no cells", style="yellow") if reach["cells"] >= FEWEST else NOTHING
    beyond = reach["first_beyond"]
    said = f"{reach['within']} of {reach['cells']}"
    return said if beyond is None else f"{said}\n< {beyond['batch_size']} x {beyond['tokens']}"


def _trend(trend: Entry, line: Entry) -> str:
    """Write how k changes as FLOPs double; nothing where that, or k itself, cannot be told."""
    if not shows_growth(line) or trend["verdict"] == "cannot be told" or trend["change"] is None:
        return NOTHING
    return f"{trend['verdict']}\n{text.signed_percent(trend['change']['value'])}"


def _best(entry: Entry, by: str | None) -> Text | str:
    """Write the better law with its error, and the next best's."""
    if entry["best"] is None:
        return NOTHING
    errors = {one["law"]: one for one in entry["held_out"] if one["by"] == by and one["median"] is not None}
    if entry["best"] not in errors:
        return _short(entry["best"])
    best = errors.pop(entry["best"])
    said = f"{_short(best['law'])}\n{text.percent(best['median'])}"
    other = min((one["median"] for one in errors.values()), default=None)
    return Text.assemble(said, (f" ({text.percent(other)})" if other is not None else "", "dim"))


def _short(law: str) -> str:
    return SHORT.get(law, law)
