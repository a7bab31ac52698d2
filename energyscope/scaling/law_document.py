"""The document of scaling: laws, contrasts, efficiency and sizes of measured moments, as laws.json holds them.

It is made once; whoever shows it reads it and fits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from energyscope.runs.method import changes_between, lacking
from energyscope.scaling.contrasts import contrasts
from energyscope.scaling.efficiency import efficiencies
from energyscope.scaling.from_runs import SceneCells
from energyscope.scaling.group_laws import group_laws
from energyscope.scaling.grouping import GROUPED, grouped, key_of, value_of
from energyscope.scaling.plain import Plain
from energyscope.scaling.sizes import sizes
from energyscope.scaling.sizes_held_out import sizes_held_out
from energyscope.scaling.usable import one_granularity

STATIC_CACHE = "a static KV cache works on all that it has room for: laws see the tokens in it only"


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


def _one_granularity(sources: Sequence[Source]) -> tuple[list[Source], list[str]]:
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
        notes += [f"{model}, {phase}: {words}" for words in said]
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


def _notes(sources: Sequence[Source]) -> list[str]:
    """Say what is missing in which runs and why, each reason once, and what laws do not see."""
    missing: dict[tuple[str, str], list[str]] = {}
    for one in sources:
        if not one.scene.cells:
            missing.setdefault(("anything", next(iter(one.scene.left_out.values()), "it has no rows")), []).append(
                one.scene.run
            )
        for subject, reason in one.scene.left_out.items() if one.scene.cells else ():
            missing.setdefault((subject, reason), []).append(one.scene.run)
    notes = [f"not used of {_named(runs)}: {subject} ({reason})" for (subject, reason), runs in missing.items()]
    if any(one.scene.kv_cache == "static" for one in sources):
        notes.append(STATIC_CACHE)
    return [*notes, *_methods([one.scene for one in sources]), *_invalid(sources), *_mixed_software(sources)]


def _methods(scenes: Sequence[SceneCells]) -> list[str]:
    """Say which groups are of an older method, and which are kept apart for that alone."""
    methods: dict[tuple[str | None, ...], list[int]] = {}
    for group in grouped(scenes):
        methods.setdefault(key_of(group[0], "method"), []).append(int(str(value_of(group[0], "method"))))
    apart: dict[str, list[str]] = {}
    older: dict[str, list[str]] = {}
    for key, found in methods.items():
        one = dict(zip((name for name in GROUPED if name != "method"), key, strict=True))
        said = ", ".join(str(one[name]) for name in ("model", "phase", "precision", "execution"))
        phase, execution = str(one["phase"]), str(one["execution"])
        if len(found) > 1:
            apart.setdefault(changes_between(min(found), max(found), phase, execution), []).append(said)
        elif why := lacking(found[0], phase, execution):
            older.setdefault(f"method ({why})", []).append(said)
    return [
        *(f"laws do not join different methods, {why}: {_all(said)}" for why, said in apart.items()),
        *(f"measured by an older {why}; measure again: {_all(said)}" for why, said in older.items()),
    ]


def _all(words: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(words))


def _invalid(sources: Sequence[Source]) -> list[str]:
    """Say in how many cells the whole model's energy is graded invalid: they count, with their wide intervals."""
    used = [one for one in sources if one.scene.cells]
    bad = [one.scene.run for one in used if one.scene.quality == "invalid"]
    if not bad:
        return []
    amount = f"the whole model in {len(bad)} of {len(used)} cells ({_named(bad)})"
    return [f"graded invalid, and used with their intervals: {amount}"]


def _mixed_software(sources: Sequence[Source]) -> list[str]:
    """Say of each group that was measured with several versions of something, with which."""
    notes = []
    for group in grouped([one.scene for one in sources]):
        mine = [one for one in sources if any(one.scene is scene for scene in group)]
        for name in dict.fromkeys(name for one in mine for name in one.software):
            versions = sorted({one.software.get(name, "unknown") for one in mine})
            if len(versions) > 1:
                scene = group[0]
                said = f"{scene.model}, {scene.phase}, {scene.precision}"
                notes.append(
                    f"cells of {said} were measured with several versions of {name}: {', '.join(versions)}"
                )
    return notes


def _named(runs: Sequence[str]) -> str:
    shown = list(dict.fromkeys(runs))
    return ", ".join(shown) if len(shown) <= 3 else f"{', '.join(shown[:3])} and {len(shown) - 3} more"
