"""What the tables of all studies need: where the runs are, and numbers as they are shown."""

from __future__ import annotations

from pathlib import Path

from energyscope.reporting.table import Amount
from energyscope.runs.store import load_run
from energyscope.runs.tree import EnergyTree, Node, energy_tree

REPORTS = Path(__file__).parents[2] / "reports"


def tree_of(name: str) -> EnergyTree:
    """Return the energy table of a run."""
    run = load_run(REPORTS / name)
    assert run.energy is not None
    return energy_tree(run.energy)


def amount(node: Node, column: str, unit: str) -> Amount | None:
    """Return a column of a row with its unit; None where it is missing."""
    value = node.number(column)
    return None if value is None else Amount(value, unit=unit)


def percent(share: float) -> str:
    """Write a share as a percentage."""
    return f"{share:.1%}".replace("%", " %")
