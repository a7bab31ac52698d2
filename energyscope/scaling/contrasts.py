"""The same subject and shape under two precisions or two executions, all else equal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from energyscope.intervals import Interval, ratio, serialize, total
from energyscope.runs.method import lacking
from energyscope.scaling.cells import UNEXPLAINED, WHOLE, Entry, SceneCells, setting_of

VARIED = ("precision", "execution")
NARROW_FIRST = ("fp4", "nf4", "fp8", "int8", "fp16-autocast", "bf16", "fp16", "fp32")

Scenes = Sequence[SceneCells]


def contrasts(scenes: Scenes) -> list[Entry]:
    """Return energy under the first setting over that under the second, of the whole, every part and overhead.

    The narrower precision comes first, and a CUDA graph before eager. A shape that was measured several times
    counts with its mean. Energies that are not positive have no ratio. ``lacking`` says of the ``first`` and the
    ``second`` what was mended since they were measured, None where nothing was: the ratio holds that too.
    """
    return [
        contrast
        for field in VARIED
        for first, second in _pairs([scene for scene in scenes if scene.cells], field)
        for subject in _subjects(first, second)
        if (contrast := _contrast(field, subject, first, second))
    ]


def _pairs(scenes: Scenes, field: str) -> Iterator[tuple[Scenes, Scenes]]:
    """Yield the scenes of one shape under two values of a field, of the newest method that both have.

    Another execution may be alike by another method: there it is the newest of each.
    """
    alike: dict[tuple[object, ...], dict[str, list[SceneCells]]] = {}
    for scene in scenes:
        key = (*setting_of(scene, field, "method"), scene.batch_size, scene.tokens)
        alike.setdefault(key, {}).setdefault(str(scene.text(field)), []).append(scene)
    for settings in alike.values():
        for first, second in itertools.combinations(sorted(settings, key=_rank), 2):
            methods = [{scene.any_cell.method for scene in settings[name]} for name in (first, second)]
            if field != "execution":
                methods = [methods[0] & methods[1]] * 2
            if all(methods):
                yield _of(settings[first], max(methods[0])), _of(settings[second], max(methods[1]))


def _of(scenes: Scenes, method: int) -> Scenes:
    return [scene for scene in scenes if scene.any_cell.method == method]


def _rank(value: str) -> tuple[int, str]:
    return (NARROW_FIRST.index(value) if value in NARROW_FIRST else -1), value


def _subjects(first: Scenes, second: Scenes) -> list[str]:
    """Return the whole and the parts that all have; groups only where no scene knows its parts."""
    scenes = [*first, *second]
    common = set(scenes[0].cells).intersection(*(scene.cells for scene in scenes)) - {UNEXPLAINED}
    parts = {part for scene in scenes for part in scene.parts}
    chosen = common & (parts | {WHOLE}) if parts else common - {"layer"}
    return sorted(chosen, key=lambda subject: (subject != WHOLE, -scenes[0].cells[subject].energy_mj, subject))


def _contrast(field: str, subject: str, first: Scenes, second: Scenes) -> Entry | None:
    quotient = ratio(_mean(first, subject), _mean(second, subject))
    if quotient is None:
        return None
    scene = first[0]
    return {
        "field": field,
        "first": scene.text(field),
        "second": second[0].text(field),
        "model": scene.model,
        "phase": scene.phase,
        **{name: scene.text(name) for name in (*VARIED, "kv_cache", "board") if name != field},
        "subject": subject,
        "batch_size": scene.batch_size,
        "tokens": scene.tokens,
        "ratio": serialize(quotient),
        "lacking": {"first": _lacking(first), "second": _lacking(second)},
    }


def _lacking(scenes: Scenes) -> str | None:
    cell = scenes[0].any_cell
    return lacking(cell.method, cell.phase, cell.execution)


def _mean(scenes: Scenes, subject: str) -> Interval:
    return total(scene.cells[subject].energy for scene in scenes).scaled(1 / len(scenes))
