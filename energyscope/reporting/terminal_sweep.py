"""A sweep as a table for the terminal, a line for each cell."""

from __future__ import annotations

import shlex
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.reporting.data.headline import banners
from energyscope.runs.intervals import Interval, interval
from energyscope.runs.sweep_rows import sweep_rows
from energyscope.runs.sweeps import Sweep

ONE_CELL = "One cell gives no law: sweep two lengths or batch sizes at least."


def sweep_summary(sweep: Sweep) -> RenderableType:
    """Return what a sweep found: banners, the table of its cells, and where it is."""
    runs = list(sweep.runs().values())
    said = {(banner.title, banner.text): None for run in runs for banner in banners(run)}
    parts: list[RenderableType] = [
        Text.assemble((f" {title} ", "bold black on yellow"), " ", words) for title, words in said
    ]
    parts.append(_table(sweep, modelled=any(run.modelled for run in runs)))
    parts += [
        Text(f"{cell.name}: {cell.state}: {cell.reason}", style="yellow")
        for cell in sweep.cells
        if cell.state != "done"
    ]
    parts += _left(sweep)
    if len(runs) == 1:
        parts.append(Text(ONE_CELL, style="dim"))
    parts.append(Text(f"Sweep: {sweep.path} (each cell is a run in it)"))
    return Group(*parts)


def _left(sweep: Sweep) -> list[Text]:
    """Say how to measure what is missing."""
    states = {cell.state for cell in sweep.cells}
    if not states - {"done"}:
        return []
    retry = "" if states & {"waiting", "interrupted"} else " --retry"
    return [Text(f"energyscope sweep --resume {shlex.quote(str(sweep.path))}{retry} measures what is missing")]


def _table(sweep: Sweep, *, modelled: bool) -> Table:
    step = sweep.cells[0].phase == "decode"
    title = f"{sweep.model}, {'decode steps' if step else 'forward passes'}"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))  # whole words at 80
    table.add_column("precision", no_wrap=True)
    energy = "MODELLED\nenergy" if modelled else "energy"
    words = ("batch", "context" if step else "tokens", f"{energy}\n[95 %]", "per token", "time\npower", "closure")
    for name in words:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("grade", no_wrap=True)
    for row in sweep_rows(sweep):
        table.add_row(*_cells(row))
    return table


def _cells(row: dict[str, Any]) -> list[str]:
    energy: Interval | None = interval(row["energy_mj"], row["energy_ci_low_mj"], row["energy_ci_high_mj"])
    shape = [row["precision"], f"{row['batch_size']:,}", f"{row['tokens']:,}"]
    if energy is None:
        return [*shape, row["state"], *["\u2013"] * 3, ""]
    closure = row["closure"]
    return [
        *shape,
        text.with_limits(energy, "mJ").replace(" [", "\n["),
        text.quantity(row["energy_per_token_mj"], "mJ"),
        f"{text.quantity(row['time_us'], 'us')}\n{text.quantity(row['power_w'], 'W')}",
        "\u2013" if closure is None else text.percent(closure),
        row["quality"] or "",
    ]
