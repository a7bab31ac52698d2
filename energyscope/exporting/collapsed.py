"""Collapsed stacks, as flamegraph.pl, speedscope and others read them: a line a stack, ``a;b;c 123``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from energyscope.exporting.stacks import phases
from energyscope.runs.files import inert

if TYPE_CHECKING:
    from energyscope.runs.store import Run


def content(run: Run) -> tuple[str, list[str]]:
    """Return the stacks with whole microjoules, each below its phase, and what is not in them."""
    lines, notes = [], []
    for phase in phases(run):
        weights = [(path, round(weight)) for path, weight in phase.stacks]
        for path, weight in weights:
            frames = (inert(name.replace(";", ":")) for name in (f"{phase.name} (uJ)", *path))
            if weight:
                lines.append(f"{';'.join(frames)} {weight}\n")
        if phase.note:
            notes.append(f"{phase.name}: {phase.note}")
        if small := sum(not weight for _, weight in weights):
            notes.append(f"{phase.name}: {small} stacks below half a microjoule left out")
    return "".join(lines), notes
