"""Names that tell runs apart: runs of two sweeps may have the same one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from energyscope.runs.store import Run


def told_apart(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with names of which no two are alike: with their directory, else with a number."""
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [
            f"{run.path.resolve().parent.name}/{name}" if names.count(name) > 1 else name
            for run, name in zip(runs, names, strict=True)
        ]
    amounts, seen = Counter(names), Counter[str]()
    found = []
    for run, name in zip(runs, names, strict=True):
        seen[name] += 1
        unique = f"{name} ({seen[name]})" if amounts[name] > 1 else name
        found.append(run if unique == run.name else replace(run, document={**run.document, "name": unique}))
    return found
