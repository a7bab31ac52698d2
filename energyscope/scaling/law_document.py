"""The document of scaling: laws, contrasts, efficiency and sizes of observations, as laws.json holds them.

It is made once; whoever shows it reads it and fits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from energyscope.grouping import group_by
from energyscope.reasons import Reason, reason
from energyscope.runs.method import changes_between
from energyscope.scaling.cell_selection import invalid_notes, one_granularity, why_no_cells
from energyscope.scaling.cells import GROUPED, Entry, Observation, grouped, on_executed_flops, setting_of
from energyscope.scaling.contrasts import contrasts
from energyscope.scaling.efficiency import efficiencies
from energyscope.scaling.group_laws import group_laws
from energyscope.scaling.limits import limits
from energyscope.scaling.sizes import sizes, sizes_held_out

SHAPE = ("batch_size", "tokens")


def law_document(observations: Sequence[Observation]) -> Entry:
    """Return the sections of the document that are made of measurements: ``sources`` to ``sizes_held_out``.

    ``flops`` says which FLOPs laws count: executed ones, or nominal ones where a run did not record those.
    """
    observations, notes = _one_granularity(observations)
    observations, nominal = on_executed_flops(observations)
    used = sorted((observation for observation in observations if observation.cells), key=_work)
    return {
        "weights": sorted({str(observation.weights) for observation in used if observation.weights}),
        "sources": [_source(observation) for observation in used],
        "flops": "nominal" if nominal else "executed",
        "notes": [*_notes(observations), *notes, *nominal],
        "groups": [_group(sorted(group, key=_work)) for group in grouped(observations)],
        "contrasts": contrasts(used),
        "efficiency": efficiencies(used),
        "limits": limits(used),
        "sizes": sizes(used),
        "sizes_held_out": sizes_held_out(used),
    }


def _work(observation: Observation) -> tuple[int, int, int]:
    """Return what observations are sorted by: their amount of work."""
    return observation.batch_size * observation.tokens, observation.batch_size, observation.tokens


def _one_granularity(observations: Sequence[Observation]) -> tuple[list[Observation], list[Reason]]:
    """Return components of one granularity for each model and phase, in the given order, with notes.

    Laws never join phases, so that one does not take the components of the other.
    """
    chosen, notes = {}, []
    for (model, phase), group in group_by(observations, attrgetter("model", "phase")).items():
        alike, reasons = one_granularity(group)
        chosen[model, phase] = iter(alike)
        notes += [reason("of-group", model=model, phase=phase, why=why) for why in reasons]
    return [next(chosen[observation.model, observation.phase]) for observation in observations], notes


def _group(observations: Sequence[Observation]) -> Entry:
    first = observations[0]
    return {
        **{field: first.text(field) for field in GROUPED},
        "device": first.device,
        "cells": [_fields(observation, "run", "path", *SHAPE) for observation in observations],
        **group_laws(observations),
    }


def _source(observation: Observation) -> Entry:
    setting = {field: observation.text(field) for field in GROUPED}
    return _fields(observation, "run", "path") | setting | _fields(observation, *SHAPE, "device", "quality")


def _fields(observation: Observation, *names: str) -> Entry:
    return {name: getattr(observation, name) for name in names}


def _notes(observations: Sequence[Observation]) -> list[Reason]:
    """Note what is missing in which runs and why, each reason once, and what laws do not see."""
    static = any(observation.kv_cache == "static" for observation in observations)
    return [
        *_missing(observations),
        *([reason("static-cache-seen-in-part")] if static else []),
        *_methods(observations),
        *invalid_notes([observation for observation in observations if observation.cells]),
        *_mixed_software(observations),
    ]


def _missing(observations: Sequence[Observation]) -> list[Reason]:
    runs: dict[tuple[str | None, Reason], dict[str, None]] = {}
    for observation in observations:
        left_out = observation.left_out if observation.cells else {None: why_no_cells(observation)}
        for key in left_out.items():
            runs.setdefault(key, {})[observation.run] = None
    return [
        reason("run-not-used", runs=list(names), why=why)
        if subject is None
        else reason("subject-not-used", subject=subject, runs=list(names), why=why)
        for (subject, why), names in runs.items()
    ]


def _methods(observations: Sequence[Observation]) -> list[Reason]:
    """Note which groups are of an older method, and which are kept apart for that alone."""
    alike = group_by((group[0] for group in grouped(observations)), lambda first: setting_of(first, "method"))
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for first, *others in alike.values():
        execution = str(first.text("execution"))
        named = f"{first.model} {first.phase} {first.precision} {execution}"
        if others:
            methods = [item.any_cell.method for item in (first, *others)]
            why = changes_between(min(methods), max(methods), first.phase, execution)
            groups.setdefault(("methods-kept-apart", why), {})[named] = None
        elif first.changes_since:
            groups.setdefault(("older-method", first.changes_since), {})[named] = None
    return [reason(code, why=why, groups=list(names)) for (code, why), names in sorted(groups.items())]


def _mixed_software(observations: Sequence[Observation]) -> list[Reason]:
    """Note the groups that were measured with several versions of something."""
    notes = []
    for group in grouped(observations):
        first = group[0]
        for name in dict.fromkeys(name for observation in group for name in observation.software):
            versions = sorted({observation.software.get(name, "unknown") for observation in group})
            if len(versions) > 1:
                named = f"{first.model} {first.phase} {first.precision}"
                notes.append(reason("several-versions", group=named, name=name, versions=versions))
    return notes
