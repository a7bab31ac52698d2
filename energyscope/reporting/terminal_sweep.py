"""A sweep as a table for the terminal, a line for each cell."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.reporting.data.headline import banners
from energyscope.runs.intervals import Interval, interval
from energyscope.runs.store import Run
from energyscope.runs.sweep_rows import sweep_rows
from energyscope.runs.sweeps import Sweep

ONE_CELL = "One cell gives no law: sweep two lengths or batch sizes at least."
WIDEST = 0.10  # half-width over value beyond which the grade is invalid
TOO_WIDE = "intervals beyond 10 % either way, which more windows (--component-budget) narrow"


def sweep_summary(sweep: Sweep) -> RenderableType:
    """Return what a sweep found: banners, the table of its cells, and where it is."""
    measured = sweep.runs()
    runs = list(measured.values())
    said = {(banner.title, banner.text): None for run in runs for banner in banners(run)}
    parts: list[RenderableType] = [
        Text.assemble((f" {title} ", "bold black on yellow"), " ", words) for title, words in said
    ]
    rows = sweep_rows(sweep)
    parts.append(_table(sweep, rows, modelled=any(run.modelled for run in runs)))
    parts += [
        Text(f"{cell.name}: {cell.state}: {cell.reason}", style="yellow")
        for cell in sweep.cells
        if cell.state != "done"
    ]
    parts += _left(sweep)
    if len(runs) == 1:
        parts.append(Text(ONE_CELL, style="dim"))
    parts += _invalid(rows, measured)
    parts.append(Text(f"Sweep: {sweep.path} (each cell is a run in it)"))
    if len(runs) > 1:
        length = "--context-length" if sweep.cells[0].phase == "decode" else "--sequence-length"
        asked = f"energyscope predict {shlex.quote(sweep.model)} --from {shlex.quote(str(sweep.path))} {length} N"
        parts.append(Text(f"Other shapes: {asked} --batch-size N", style="dim"))
    return Group(*parts)


def _invalid(rows: Sequence[Mapping[str, Any]], runs: Mapping[str, Run]) -> list[Text]:
    """Say why cells are graded invalid, each reason once, and what narrows intervals that are too wide."""
    found = Counter(
        TOO_WIDE if _wide(row) else _reasons(runs[row["cell"]]) for row in rows if row["quality"] == "invalid"
    )
    return [Text(f"{text.count(bad, 'cell')} graded invalid: {why}", style="dim") for why, bad in found.items()]


def _wide(row: Mapping[str, Any]) -> bool:
    item = interval(row["energy_mj"], row["energy_ci_low_mj"], row["energy_ci_high_mj"])
    if item is None or item.low is None or item.high is None:
        return False
    return (item.high - item.low) / 2 > WIDEST * abs(item.value)


def _reasons(run: Run) -> str:
    """Return why the whole model of a run has the grade that it has, as its row says."""
    rows = None if run.energy is None else run.energy[run.energy["kind"] == "model"]
    said = None if rows is None or rows.empty else rows.iloc[0].get("reasons")
    return said if isinstance(said, str) and said else "no reason was noted"


def _left(sweep: Sweep) -> list[Text]:
    """Say how to measure what is missing."""
    states = {cell.state for cell in sweep.cells}
    if not states - {"done"}:
        return []
    retry = "" if states & {"waiting", "interrupted"} else " --retry"
    return [Text(f"energyscope sweep --resume {shlex.quote(str(sweep.path))}{retry} measures what is missing")]


def _table(sweep: Sweep, rows: Sequence[Mapping[str, Any]], *, modelled: bool) -> Table:
    step = sweep.cells[0].phase == "decode"
    title = f"{sweep.model}, {'decode steps' if step else 'forward passes'}"
    table = Table(  # whole words at 80 columns
        title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False,
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    table.add_column("precision", overflow="fold")
    energy = "MODELLED\nenergy" if modelled else "energy"
    words = (
        "batch",
        "context" if step else "tokens",
        f"{energy}\n[95 %]",
        "per token",
        "time" if modelled else "time\npower",
        "closure",
    )
    for name in words:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("grade", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, modelled=modelled))
    return table


def _cells(row: Mapping[str, Any], *, modelled: bool) -> list[str]:
    """Return a row's cells; watts that were stated are none that were measured, and stand nowhere."""
    energy: Interval | None = interval(row["energy_mj"], row["energy_ci_low_mj"], row["energy_ci_high_mj"])
    shape = [row["precision"], f"{row['batch_size']:,}", f"{row['tokens']:,}"]
    if energy is None:
        return [*shape, row["state"], *["\u2013"] * 3, ""]
    closure = row["closure"]
    return [
        *shape,
        text.with_limits(energy, "mJ").replace(" [", "\n["),
        text.quantity(row["energy_per_token_mj"], "mJ"),
        text.quantity(row["time_us"], "us") + ("" if modelled else f"\n{text.quantity(row['power_w'], 'W')}"),
        "\u2013" if closure is None else text.percent(closure),
        row["quality"] or "",
    ]
