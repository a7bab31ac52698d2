"""The same subject and shape under two precisions or two executions, all else equal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from energyscope.grouping import group_by
from energyscope.intervals import ratio, serialize
from energyscope.scaling.cells import UNEXPLAINED, WHOLE, Entry, Observation, setting_of
from energyscope.scaling.efficiency import mean_of

VARIED = ("precision", "execution")
NARROW_FIRST = ("fp4", "nf4", "int4", "w8a16", "w8a8", "fp8", "int8", "fp16-autocast", "bf16", "fp16", "fp32")

Observations = Sequence[Observation]


def contrasts(observations: Observations) -> list[Entry]:
    """Return energy under the first setting over that under the second, of the whole, every part and overhead.

    The narrower precision comes first, and a CUDA graph before eager. A shape that was measured several times
    counts with its mean. Energies that are not positive have no ratio. ``lacking`` says of the ``first`` and the
    ``second`` what was mended since they were measured, None where nothing was: the ratio holds that too.
    """
    return [
        contrast
        for field in VARIED
        for first, second in _pairs([observation for observation in observations if observation.cells], field)
        for subject in _subjects(first, second)
        if (contrast := _contrast(field, subject, first, second))
    ]


def _pairs(observations: Observations, field: str) -> Iterator[tuple[Observations, Observations]]:
    """Yield the observations of one shape under two values of a field, of the newest method that both have.

    Another execution may be alike by another method: there it is the newest of each.
    """
    shapes = group_by(observations, lambda item: (*setting_of(item, field, "method"), *item.key))
    for alike in shapes.values():
        settings = group_by(alike, lambda item: str(item.text(field)))
        for name, other in itertools.combinations(sorted(settings, key=_rank), 2):
            by_method = [group_by(settings[key], lambda item: item.any_cell.method) for key in (name, other)]
            methods = [set(groups) for groups in by_method]
            if field != "execution":
                methods = [methods[0] & methods[1]] * 2
            if all(methods):
                yield by_method[0][max(methods[0])], by_method[1][max(methods[1])]


def _rank(value: str) -> tuple[int, str]:
    return (NARROW_FIRST.index(value) if value in NARROW_FIRST else -1), value


def _subjects(first: Observations, second: Observations) -> list[str]:
    """Return the whole and the parts that all have; groups only where no observation knows its parts."""
    observations = [*first, *second]
    cells = first[0].cells
    common = set(cells).intersection(*(observation.cells for observation in observations)) - {UNEXPLAINED}
    parts = {part for observation in observations for part in observation.parts}
    subjects = common & (parts | {WHOLE}) if parts else common - {"layer"}
    return sorted(subjects, key=lambda subject: (subject != WHOLE, -cells[subject].energy_mj, subject))


def _contrast(field: str, subject: str, first: Observations, second: Observations) -> Entry | None:
    energies = [mean_of([item.cells[subject] for item in observations])[0] for observations in (first, second)]
    quotient = ratio(*energies)
    if quotient is None:
        return None
    observation = first[0]
    return {
        "field": field,
        "first": observation.text(field),
        "second": second[0].text(field),
        "model": observation.model,
        "phase": observation.phase,
        **{name: observation.text(name) for name in (*VARIED, "kv_cache", "board", "limit") if name != field},
        "subject": subject,
        "batch_size": observation.batch_size,
        "tokens": observation.tokens,
        "ratio": serialize(quotient),
        "lacking": {"first": observation.changes_since, "second": second[0].changes_since},
    }
