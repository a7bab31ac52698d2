"""The same subject and shape under two precisions or two executions, all else equal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from energyscope.intervals import Interval, ratio, serialize, total
from energyscope.runs.method import lacking
from energyscope.scaling.cells import UNEXPLAINED, WHOLE, Entry, Observation, setting_of

VARIED = ("precision", "execution")
NARROW_FIRST = ("fp4", "nf4", "fp8", "int8", "fp16-autocast", "bf16", "fp16", "fp32")

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
    alike: dict[tuple[object, ...], dict[str, list[Observation]]] = {}
    for observation in observations:
        key = (*setting_of(observation, field, "method"), observation.batch_size, observation.tokens)
        alike.setdefault(key, {}).setdefault(str(observation.text(field)), []).append(observation)
    for settings in alike.values():
        for first, second in itertools.combinations(sorted(settings, key=_rank), 2):
            methods = [{observation.any_cell.method for observation in settings[name]} for name in (first, second)]
            if field != "execution":
                methods = [methods[0] & methods[1]] * 2
            if all(methods):
                yield _of(settings[first], max(methods[0])), _of(settings[second], max(methods[1]))


def _of(observations: Observations, method: int) -> Observations:
    return [observation for observation in observations if observation.any_cell.method == method]


def _rank(value: str) -> tuple[int, str]:
    return (NARROW_FIRST.index(value) if value in NARROW_FIRST else -1), value


def _subjects(first: Observations, second: Observations) -> list[str]:
    """Return the whole and the parts that all have; groups only where no observation knows its parts."""
    observations = [*first, *second]
    common = set(observations[0].cells).intersection(*(observation.cells for observation in observations)) - {
        UNEXPLAINED
    }
    parts = {part for observation in observations for part in observation.parts}
    chosen = common & (parts | {WHOLE}) if parts else common - {"layer"}
    return sorted(
        chosen, key=lambda subject: (subject != WHOLE, -observations[0].cells[subject].energy_mj, subject)
    )


def _contrast(field: str, subject: str, first: Observations, second: Observations) -> Entry | None:
    quotient = ratio(_mean(first, subject), _mean(second, subject))
    if quotient is None:
        return None
    observation = first[0]
    return {
        "field": field,
        "first": observation.text(field),
        "second": second[0].text(field),
        "model": observation.model,
        "phase": observation.phase,
        **{name: observation.text(name) for name in (*VARIED, "kv_cache", "board") if name != field},
        "subject": subject,
        "batch_size": observation.batch_size,
        "tokens": observation.tokens,
        "ratio": serialize(quotient),
        "lacking": {"first": _lacking(first), "second": _lacking(second)},
    }


def _lacking(observations: Observations) -> str | None:
    cell = observations[0].any_cell
    return lacking(cell.method, cell.phase, cell.execution)


def _mean(observations: Observations, subject: str) -> Interval:
    return total(observation.cells[subject].energy for observation in observations).scaled(1 / len(observations))
