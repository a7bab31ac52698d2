"""Every trial of a benchmark, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from energyscope.reporting import text
from energyscope.runs.intervals import finite
from energyscope.unknown import times

if TYPE_CHECKING:
    from energyscope.runs.store import Run


def trials_table(run: Run) -> Table:
    """Return a line for each trial, in the order in which they were measured; without a benchmark, no lines."""
    energy = "MODELLED energy" if run.modelled else "energy"
    table = Table(title=Text(f"Trials of {run.name}"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("precision", "shape", "trial", "passes", "latency", "p99", energy, "power"):
        first = name == "precision"
        table.add_column(name, justify="left" if first else "right", no_wrap=first)
    for row in [] if run.trials is None else run.trials.to_dict("records"):
        table.add_row(
            Text(str(row["precision"])),
            f"{row['batch_size']} x {row['sequence_length']}",
            str(row["trial"]),
            str(row["iterations"]),
            text.quantity(row["mean_latency"] * 1e6, "us"),
            text.quantity(times(finite(row["p99_latency"]), 1e6), "us"),
            text.quantity(finite(row["energy_per_inference_mj"]), "mJ"),
            text.quantity(finite(row["mean_power_w"]), "W"),
        )
    return table
