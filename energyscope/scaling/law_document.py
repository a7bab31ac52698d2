"""The document of scaling: laws, contrasts, efficiency and sizes of measured scenes, as laws.json holds them.

It is made once; whoever shows it reads it and fits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from energyscope.reasons import Reason, reason
from energyscope.runs.method import changes_between, lacking
from energyscope.scaling.cell_selection import invalid_notes, one_granularity, why_no_cells
from energyscope.scaling.cells import GROUPED, Entry, SceneCells, grouped, setting_of
from energyscope.scaling.contrasts import contrasts
from energyscope.scaling.efficiency import efficiencies
from energyscope.scaling.group_laws import group_laws
from energyscope.scaling.sizes import sizes, sizes_held_out


@dataclass(frozen=True)
class LawSource:
    """A measured scene with what its cells do not tell.

    ``path`` is the directory of its run as seen from the document, ``device`` the name of the board.
    ``parameters`` and ``layers`` are the model's, ``software`` the versions that it was measured with, by name.
    """

    scene: SceneCells
    path: str
    device: str | None
    parameters: int | None = None
    layers: int | None = None
    software: Mapping[str, str] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort by the amount of work."""
        return self.scene.batch_size * self.scene.tokens, self.scene.batch_size, self.scene.tokens


def law_document(sources: Sequence[LawSource]) -> Entry:
    """Return the sections of the document that are made of measurements: ``sources`` to ``sizes_held_out``."""
    sources, notes = _one_granularity(sources)
    used = sorted((source for source in sources if source.scene.cells), key=lambda source: source.order)
    scenes = [source.scene for source in used]
    return {
        "weights": sorted({str(scene.weights) for scene in scenes if scene.weights}),
        "sources": [_source(source) for source in used],
        "notes": [*_notes(sources), *notes],
        "groups": [_group(group) for group in _of_groups(sources, used)],
        "contrasts": contrasts(scenes),
        "efficiency": efficiencies(scenes),
        "sizes": sizes(scenes, _models(used)),
        "sizes_held_out": sizes_held_out(scenes),
    }


def _one_granularity(sources: Sequence[LawSource]) -> tuple[list[LawSource], list[Reason]]:
    """Return the sources with components of one granularity for each model and phase, and what to know of it.

    Laws never join phases, so that one does not take the components of the other.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for place, source in enumerate(sources):
        places.setdefault((source.scene.model, source.scene.phase), []).append(place)
    kept = list(sources)
    notes = []
    for (model, phase), own in places.items():
        scenes, reasons = one_granularity([sources[place].scene for place in own])
        for place, scene in zip(own, scenes, strict=True):
            kept[place] = replace(sources[place], scene=scene)
        notes += [reason("of-group", model=model, phase=phase, why=why) for why in reasons]
    return kept, notes


def _of_groups(sources: Sequence[LawSource], order: Sequence[LawSource]) -> list[list[LawSource]]:
    """Return the sources of each group in another order; groups come as the first of them does."""
    groups = []
    for scenes in grouped(source.scene for source in sources):
        own = {id(scene) for scene in scenes}
        groups.append([source for source in order if id(source.scene) in own])
    return groups


def _group(sources: Sequence[LawSource]) -> Entry:
    return {
        **{field: sources[0].scene.text(field) for field in GROUPED},
        "device": sources[0].device,
        "cells": [
            {
                "run": source.scene.run,
                "path": source.path,
                "batch_size": source.scene.batch_size,
                "tokens": source.scene.tokens,
            }
            for source in sources
        ],
        **group_laws([source.scene for source in sources]),
    }


def _source(source: LawSource) -> Entry:
    scene = source.scene
    return {
        "run": scene.run,
        "path": source.path,
        **{field: scene.text(field) for field in GROUPED},
        "batch_size": scene.batch_size,
        "tokens": scene.tokens,
        "device": source.device,
        "quality": scene.quality,
    }


def _models(sources: Sequence[LawSource]) -> dict[str, dict[str, int]]:
    """Return what is known of the models' sizes."""
    return {
        source.scene.model: {"parameters": source.parameters, "layers": source.layers}
        for source in sources
        if source.parameters and source.layers
    }


def _notes(sources: Sequence[LawSource]) -> list[Reason]:
    """Say what is missing in which runs and why, each reason once, and what laws do not see."""
    scenes = [source.scene for source in sources]
    used = [scene for scene in scenes if scene.cells]
    static = any(scene.kv_cache == "static" for scene in scenes)
    return [
        *_missing(scenes),
        *([reason("static-cache-seen-in-part")] if static else []),
        *_methods(scenes),
        *invalid_notes(used),
        *_mixed_software(sources),
    ]


def _missing(scenes: Sequence[SceneCells]) -> list[Reason]:
    runs: dict[tuple[str | None, Reason], dict[str, None]] = {}
    for scene in scenes:
        left_out = scene.left_out if scene.cells else {None: why_no_cells(scene)}
        for key in left_out.items():
            runs.setdefault(key, {})[scene.run] = None
    return [
        reason("run-not-used", runs=list(names), why=why)
        if subject is None
        else reason("subject-not-used", subject=subject, runs=list(names), why=why)
        for (subject, why), names in runs.items()
    ]


def _methods(scenes: Sequence[SceneCells]) -> list[Reason]:
    """Say which groups are of an older method, and which are kept apart for that alone."""
    methods: dict[tuple[str | None, ...], dict[int, SceneCells]] = {}
    for first, *_ in grouped(scenes):
        methods.setdefault(setting_of(first, "method"), {})[first.any_cell.method] = first
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for by_method in methods.values():
        scene, execution = next(iter(by_method.values())), str(next(iter(by_method.values())).text("execution"))
        named = f"{scene.model} {scene.phase} {scene.precision} {execution}"
        if len(by_method) > 1:
            why = changes_between(min(by_method), max(by_method), scene.phase, execution)
            groups.setdefault(("methods-kept-apart", why), {})[named] = None
        elif older := lacking(next(iter(by_method)), scene.phase, execution):
            groups.setdefault(("older-method", older), {})[named] = None
    return [reason(code, why=why, groups=list(names)) for (code, why), names in sorted(groups.items())]


def _mixed_software(sources: Sequence[LawSource]) -> list[Reason]:
    """Say of each group that was measured with several versions of something, with which."""
    notes = []
    for group in _of_groups(sources, sources):
        scene = group[0].scene
        for name in dict.fromkeys(name for source in group for name in source.software):
            versions = sorted({source.software.get(name, "unknown") for source in group})
            if len(versions) > 1:
                named = f"{scene.model} {scene.phase} {scene.precision}"
                notes.append(reason("several-versions", group=named, name=name, versions=versions))
    return notes
