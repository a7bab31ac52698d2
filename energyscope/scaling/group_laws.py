"""Laws of one group: cells of one model that differ in batch and tokens only, so that laws may join them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from energyscope.intervals import Interval
from energyscope.reasons import Reason, reason
from energyscope.scaling.cell import Cell
from energyscope.scaling.from_runs import GLUE, RESIDUAL, UNEXPLAINED, WHOLE, SceneCells
from energyscope.scaling.heldout import By, Foretold, errors_of
from energyscope.scaling.judged import Judged, judge
from energyscope.scaling.marginal import marginal_ratio, per_flop_ratio
from energyscope.scaling.plain import Plain, plain, shape_of
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.subject_laws import by_work, subject_laws
from energyscope.scaling.two_term import TwoTerm

ONE_CELL = reason("one-cell")
PAIRS = (("attention", "mlp"), ("attention", "lm_head"), ("lm_head", "mlp"))
ROLES = ("whole", "part", "residual", "group")


def group_laws(scenes: Sequence[SceneCells]) -> Plain:
    """Return what laws say of moments that differ in batch and tokens only; with one shape, why they say nothing.

    Subjects are in the order whole, parts, glue and unexplained, groups; within each, the dearest first.
    """
    cells = _by_subject(scenes)
    roles = _roles(scenes, cells)
    order = sorted(cells, key=lambda one: (ROLES.index(roles[one]), _last(one), -_mean_energy(cells[one])))
    single = len({(one.batch_size, one.tokens) for one in scenes}) < 2
    judged = {one: Judged({}) if single else judge(cells[one]) for one in order}
    subjects = [subject_laws(cells[one], roles[one], judged[one]) for one in order]
    for entry in subjects if single else ():
        entry["two_term"] = entry["roofline"] = {"reason": ONE_CELL}
        entry["reach"]["reason"] = entry["trend"]["reason"] = ONE_CELL
    parts = [one for one in order if roles[one] == "part"]
    return {
        "reason": ONE_CELL if single else None,
        "subjects": subjects,
        "held_out": _held_out(judged, parts, single=single),
        "ratios": _ratios(scenes, judged),
    }


def _by_subject(scenes: Sequence[SceneCells]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for scene in scenes:
        for subject, cell in scene.cells.items():
            found.setdefault(subject, []).append(cell)
    return {subject: by_work(cells) for subject, cells in found.items()}


def _roles(scenes: Sequence[SceneCells], subjects: Mapping[str, object]) -> dict[str, str]:
    """Return what each subject is: a part must be one in all moments that know their parts and have it.

    Where no moment knows (glue was not measured), kinds that hold others by their names, and layers, are groups.
    """
    told = [one for one in scenes if one.parts]

    def role(subject: str) -> str:
        if subject == WHOLE:
            return "whole"
        if subject in RESIDUAL:
            return "residual"
        having = [one for one in told if subject in one.cells]
        if having:
            return "part" if all(subject in one.parts for one in having) else "group"
        holds = subject == "layer" or any(other.startswith(f"{subject}.") for other in subjects)
        return "group" if holds else "part"

    return {subject: role(subject) for subject in subjects}


def _last(subject: str) -> int:
    return (GLUE, UNEXPLAINED).index(subject) if subject in RESIDUAL else 0


def _mean_energy(cells: Sequence[Cell]) -> float:
    return sum(cell.energy_mj for cell in cells) / len(cells)


def _held_out(judged: Mapping[str, Judged], parts: Sequence[str], *, single: bool) -> Plain:
    """Return the errors over all components and of the whole; ``ways`` has each way apart.

    Cells that were left out took no part in choosing the law that foretold them.
    """
    ways = list(dict.fromkeys(by for one in judged.values() for by in one.nested))
    main = next((one.by for one in judged.values() if one.by), None)
    components, whole = (_errors(judged, subjects, main) for subjects in (parts, [WHOLE]))
    lacking = None if components or whole else reason("no-cell-left-out")
    return {
        "components": components,
        "whole": whole,
        "reason": ONE_CELL if single else lacking,
        "ways": [
            {"by": by, "components": _errors(judged, parts, by), "whole": _errors(judged, [WHOLE], by)}
            for by in ways
        ],
    }


def _errors(judged: Mapping[str, Judged], subjects: Sequence[str], by: By | None) -> Plain | None:
    cells: list[Foretold] = []
    for one in (judged[subject] for subject in subjects if subject in judged):
        if by is not None and by in one.nested:
            cells += one.nested[by].cells
    errors = errors_of(cells)
    if not errors.cells:
        return None
    return {"median": errors.median, "worst": errors.largest, "cells": errors.cells, "by": by}


def _ratios(scenes: Sequence[SceneCells], judged: Mapping[str, Judged]) -> list[Plain]:
    return [
        _ratio(first, second, scenes, judged) for first, second in PAIRS if first in judged and second in judged
    ]


def _ratio(first: str, second: str, scenes: Sequence[SceneCells], judged: Mapping[str, Judged]) -> Plain:
    laws = [judged[name].laws.get(TwoTerm.name) for name in (first, second)]
    lines = [
        law if isinstance(law, TwoTerm) else NoLaw(name, reason("no-two-term-law", subjects=[name]))
        for law, name in zip(laws, (first, second), strict=True)
    ]
    vague = [line.subject for line in lines if isinstance(line, TwoTerm) and _vague(line.marginal_pj_per_flop)]
    marginal = None if vague else marginal_ratio(*lines)
    both = [one.cells for one in scenes if first in one.cells and second in one.cells]
    at = [
        shape_of(cells[first]) | {"ratio": plain(per_flop_ratio(cells[first], cells[second]))}
        for cells in sorted(both, key=lambda cells: (cells[first].flops, cells[first].batch_size))
    ]
    return {
        "first": first,
        "second": second,
        "marginal": plain(marginal),
        "reason": None if marginal else _no_ratio(lines, vague),
        "at": [one for one in at if one["ratio"]],
    }


def _vague(marginal: Interval) -> bool:
    """Tell whether a positive k has an interval that does not tell it from 0."""
    return marginal.known and marginal.value > 0 and not marginal.excludes(0.0)


def _no_ratio(lines: Sequence[TwoTerm | NoLaw], vague: Sequence[str]) -> Reason:
    without = [line.subject for line in lines if isinstance(line, NoLaw)]
    if without:
        return reason("no-two-term-law", subjects=without)
    negative = [
        line.subject for line in lines if isinstance(line, TwoTerm) and line.marginal_pj_per_flop.value <= 0
    ]
    if negative:
        return reason("k-not-positive", subjects=negative)
    return reason("k-holds-zero", subjects=vague)
