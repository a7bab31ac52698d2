"""Sweeps and laws below a root, a line for each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from energyscope.errors import RunError
from energyscope.reporting import text
from energyscope.runs.laws import list_laws, load_laws
from energyscope.runs.sweeps import list_sweeps, load_sweep


def collections_said(root: Path) -> list[str]:
    """Return a line for each sweep, with its model and how its cells ended, and one for each of the laws."""
    return [*(_sweep(path) for path in list_sweeps(root)), *(_laws(path) for path in list_laws(root))]


def _sweep(path: Path) -> str:
    try:
        sweep = load_sweep(path)
    except RunError as error:
        return f"sweep {path.name}: {error}"
    states = Counter(cell.state for cell in sweep.cells)
    others = [f"{number} {state}" for state, number in states.items() if state != "done"]
    done = f"{states['done']} of {text.count(len(sweep.cells), 'cell')} measured"
    return f"sweep {path.name}: {sweep.model}, {', '.join([done, *others])}"


def _laws(path: Path) -> str:
    try:
        document = load_laws(path)
    except RunError as error:
        return f"laws {path.name}: {error}"
    models = list(dict.fromkeys(str(one.get("model")) for one in document["sources"]))
    return f"laws {path.name}: {text.listed(models)}, {text.count(len(document['sources']), 'cell')}"
