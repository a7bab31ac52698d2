"""Profiles for https://www.speedscope.app, one a phase; its units know no joules, so names state microjoules."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

from energyscope.exporting.stacks import Phase, phases
from energyscope.reporting.terminal_text import printable

if TYPE_CHECKING:
    from energyscope.runs.store import Run

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def content(run: Run) -> tuple[str, list[str]]:
    """Return the file, and what is not in its profiles."""
    found = phases(run)
    names = dict.fromkeys(chain.from_iterable(path for phase in found for path, _ in phase.stacks))
    places = {name: place for place, name in enumerate(names)}
    document = {
        "$schema": SCHEMA,
        "name": printable(f"{run.name}: microjoules{' (MODELLED)' if run.modelled else ''}"),
        "exporter": printable(f"energyscope {run.document.get('energyscope') or ''}"),
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in names]},
        "profiles": [_profile(phase, places) for phase in found],
    }
    return json.dumps(document, allow_nan=False), [f"{phase.name}: {phase.note}" for phase in found if phase.note]


def _profile(phase: Phase, places: dict[str, int]) -> dict[str, Any]:
    weights = [weight for _, weight in phase.stacks]
    return {
        "type": "sampled",
        "name": "; ".join(filter(None, (f"{phase.name}, microjoules", phase.note))),
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [[places[name] for name in path] for path, _ in phase.stacks],
        "weights": weights,
    }
