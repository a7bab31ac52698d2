"""The same subject and shape under two precisions or two executions, all else equal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from energyscope.intervals import Interval, ratio, total
from energyscope.runs.method import lacking
from energyscope.scaling.from_runs import UNEXPLAINED, WHOLE, SceneCells
from energyscope.scaling.grouping import key_of, value_of
from energyscope.scaling.plain import Plain, plain

VARIED = ("precision", "execution")
NARROW_FIRST = ("fp4", "nf4", "fp8", "int8", "fp16-autocast", "bf16", "fp16", "fp32")

Scenes = Sequence[SceneCells]


def contrasts(scenes: Scenes) -> list[Plain]:
    """Return energy under the first setting over that under the second, of the whole, every part and glue.

    The narrower precision comes first, and a CUDA graph before eager. A shape that was measured several times
    counts with its mean. Energies that are not positive have no ratio. ``lacking`` says of the ``first`` and the
    ``second`` what was mended since they were measured, None where nothing was: the ratio holds that too.
    """
    return [
        entry
        for field in VARIED
        for first, second in _pairs([one for one in scenes if one.cells], field)
        for subject in _subjects(first, second)
        if (entry := _contrast(field, subject, first, second))
    ]


def _pairs(scenes: Scenes, field: str) -> Iterator[tuple[Scenes, Scenes]]:
    """Yield the moments of one shape under two values of a field, of the newest method that both have.

    Another execution may be alike by another method: there it is the newest of each.
    """
    alike: dict[tuple[object, ...], dict[str, list[SceneCells]]] = {}
    for scene in scenes:
        key = (*key_of(scene, field, "method"), scene.batch_size, scene.tokens)
        alike.setdefault(key, {}).setdefault(str(value_of(scene, field)), []).append(scene)
    for settings in alike.values():
        for first, second in itertools.combinations(sorted(settings, key=_rank), 2):
            methods = [_methods(settings[name]) for name in (first, second)]
            if field != "execution":
                methods = [methods[0] & methods[1]] * 2
            if all(methods):
                yield _of(settings[first], max(methods[0])), _of(settings[second], max(methods[1]))


def _methods(scenes: Scenes) -> set[int]:
    return {next(iter(one.cells.values())).method for one in scenes}


def _of(scenes: Scenes, method: int) -> Scenes:
    return [one for one in scenes if _methods([one]) == {method}]


def _rank(value: str) -> tuple[int, str]:
    return (NARROW_FIRST.index(value) if value in NARROW_FIRST else -1), value


def _subjects(first: Scenes, second: Scenes) -> list[str]:
    """Return the whole and the parts that all have; groups only where no moment knows its parts."""
    every = [*first, *second]
    common = set(every[0].cells).intersection(*(one.cells for one in every)) - {UNEXPLAINED}
    parts = {part for one in every for part in one.parts}
    chosen = common & (parts | {WHOLE}) if parts else common - {"layer"}
    return sorted(chosen, key=lambda one: (one != WHOLE, -every[0].cells[one].energy_mj, one))


def _contrast(field: str, subject: str, first: Scenes, second: Scenes) -> Plain | None:
    quotient = ratio(_mean(first, subject), _mean(second, subject))
    if quotient is None:
        return None
    one = first[0]
    return {
        "field": field,
        "first": value_of(one, field),
        "second": value_of(second[0], field),
        "model": one.model,
        "phase": one.phase,
        **{name: value_of(one, name) for name in (*VARIED, "kv_cache", "board") if name != field},
        "subject": subject,
        "batch_size": one.batch_size,
        "tokens": one.tokens,
        "ratio": plain(quotient),
        "lacking": {"first": _lacking(first), "second": _lacking(second)},
    }


def _lacking(scenes: Scenes) -> str | None:
    one = next(iter(scenes[0].cells.values()))
    return lacking(one.method, one.phase, one.execution)


def _mean(scenes: Scenes, subject: str) -> Interval:
    return total(one.cells[subject].energy for one in scenes).scaled(1 / len(scenes))
