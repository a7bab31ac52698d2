"""The document of scaling: laws, contrasts, efficiency and sizes of measured moments, as laws.json holds them.

It is made once; whoever shows it reads it and fits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from energyscope.reasons import Reason, reason
from energyscope.runs.method import changes_between, lacking
from energyscope.scaling.contrasts import contrasts
from energyscope.scaling.efficiency import efficiencies
from energyscope.scaling.from_runs import SceneCells
from energyscope.scaling.group_laws import group_laws
from energyscope.scaling.grouping import GROUPED, grouped, key_of, value_of
from energyscope.scaling.plain import Plain
from energyscope.scaling.sizes import sizes
from energyscope.scaling.sizes_held_out import sizes_held_out
from energyscope.scaling.usable import invalid_notes, one_granularity


@dataclass(frozen=True)
class Source:
    """A measured moment with what its cells do not tell.

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


def law_document(sources: Sequence[Source]) -> Plain:
    """Return the sections of the document that are made of measurements: ``sources`` to ``sizes_held_out``."""
    sources, notes = _one_granularity(sources)
    used = sorted((one for one in sources if one.scene.cells), key=lambda one: one.order)
    scenes = [one.scene for one in used]
    groups = [_group(group, used) for group in grouped([one.scene for one in sources])]
    return {
        "weights": sorted({str(one.weights) for one in scenes if one.weights}),
        "sources": [_source(one) for one in used],
        "notes": [*_notes(sources), *notes],
        "groups": groups,
        "contrasts": contrasts(scenes),
        "efficiency": efficiencies(scenes),
        "sizes": sizes(scenes, _models(used)),
        "sizes_held_out": sizes_held_out(scenes),
    }


def _one_granularity(sources: Sequence[Source]) -> tuple[list[Source], list[Reason]]:
    """Return the sources with components of one granularity for each model and phase, and what to know of it.

    Laws never join phases, so that one does not take the components of the other.
    """
    found: dict[tuple[str, str], dict[int, SceneCells]] = {}
    for place, one in enumerate(sources):
        found.setdefault((one.scene.model, one.scene.phase), {})[place] = one.scene
    kept: dict[int, SceneCells] = {}
    notes = []
    for (model, phase), mine in found.items():
        scenes, said = one_granularity(list(mine.values()))
        kept |= dict(zip(mine, scenes, strict=True))
        notes += [reason("of-group", model=model, phase=phase, why=why) for why in said]
    return [replace(one, scene=kept[place]) for place, one in enumerate(sources)], notes


def _group(scenes: Sequence[SceneCells], sources: Sequence[Source]) -> Plain:
    mine = [one for one in sources if any(one.scene is scene for scene in scenes)]
    first = mine[0].scene
    return {
        **{field: value_of(first, field) for field in GROUPED},
        "device": mine[0].device,
        "cells": [
            {
                "run": one.scene.run,
                "path": one.path,
                "batch_size": one.scene.batch_size,
                "tokens": one.scene.tokens,
            }
            for one in mine
        ],
        **group_laws([one.scene for one in mine]),
    }


def _source(source: Source) -> Plain:
    scene = source.scene
    return {
        "run": scene.run,
        "path": source.path,
        **{field: value_of(scene, field) for field in GROUPED},
        "batch_size": scene.batch_size,
        "tokens": scene.tokens,
        "device": source.device,
        "quality": scene.quality,
    }


def _models(sources: Sequence[Source]) -> dict[str, dict[str, int]]:
    """Return what is known of the models' sizes."""
    return {
        one.scene.model: {"parameters": one.parameters, "layers": one.layers}
        for one in sources
        if one.parameters and one.layers
    }


def _notes(sources: Sequence[Source]) -> list[Reason]:
    """Say what is missing in which runs and why, each reason once, and what laws do not see."""
    missing: dict[tuple[str | None, Reason], dict[str, None]] = {}
    for one in sources:
        left_out = one.scene.left_out
        none = {None: next(iter(left_out.values()), reason("no-rows"))}
        for key in (left_out if one.scene.cells else none).items():
            missing.setdefault(key, {})[one.scene.run] = None
    notes = [
        reason("run-not-used", runs=list(runs), why=why)
        if subject is None
        else reason("subject-not-used", subject=subject, runs=list(runs), why=why)
        for (subject, why), runs in missing.items()
    ]
    if any(one.scene.kv_cache == "static" for one in sources):
        notes.append(reason("static-cache-seen-in-part"))
    used = [one.scene for one in sources if one.scene.cells]
    return [*notes, *_methods([one.scene for one in sources]), *invalid_notes(used), *_mixed_software(sources)]


def _methods(scenes: Sequence[SceneCells]) -> list[Reason]:
    """Say which groups are of an older method, and which are kept apart for that alone."""
    methods: dict[tuple[str | None, ...], list[int]] = {}
    for group in grouped(scenes):
        methods.setdefault(key_of(group[0], "method"), []).append(int(str(value_of(group[0], "method"))))
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for key, found in methods.items():
        one = dict(zip((name for name in GROUPED if name != "method"), key, strict=True))
        named = " ".join(str(one[name]) for name in ("model", "phase", "precision", "execution"))
        phase, execution = str(one["phase"]), str(one["execution"])
        if len(found) > 1:
            note = "methods-kept-apart", changes_between(min(found), max(found), phase, execution)
            groups.setdefault(note, {})[named] = None
        elif older := lacking(found[0], phase, execution):
            groups.setdefault(("older-method", older), {})[named] = None
    return [reason(code, why=why, groups=list(names)) for (code, why), names in sorted(groups.items())]


def _mixed_software(sources: Sequence[Source]) -> list[Reason]:
    """Say of each group that was measured with several versions of something, with which."""
    notes = []
    for group in grouped([one.scene for one in sources]):
        mine = [one for one in sources if any(one.scene is scene for scene in group)]
        for name in dict.fromkeys(name for one in mine for name in one.software):
            versions = sorted({one.software.get(name, "unknown") for one in mine})
            if len(versions) > 1:
                named = f"{group[0].model} {group[0].phase} {group[0].precision}"
                notes.append(reason("several-versions", group=named, name=name, versions=versions))
    return notes
