"""Outcomes of every example, kept compactly: so that changes can be compared on the same examples later.

``impact_examples.parquet`` has one row for each component, method and example, in single precision.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from energyscope.errors import RunError, UsageError
from energyscope.impact import metrics
from energyscope.impact.metrics import Floats, MetricEstimate, Outcomes
from energyscope.reasons import reason

COLUMNS = (
    "component", "method", "example", "kl", "js", "loss_difference", "margin_difference", "agreement", "correct",
    "reference_correct", "predictions",
)  # fmt: skip
_NAMES = tuple(field.name for field in fields(Outcomes))
_OF_THE_DATA = ("predictions", "reference_nll")  # the same for every change, if the data are
NOT_PAIRED = "two changes can only be compared on the same examples: measure both on the same data"


def pack(outcomes: Outcomes) -> dict[str, str]:
    """Return each array as base64 text of little-endian float32 values, for a line of the journal.

    Single precision keeps seven digits, more than any interval needs, in half the space.
    """
    return {name: _encoded(getattr(outcomes, name)) for name in _NAMES}


def unpack(packed: Mapping[str, str]) -> Outcomes:
    """Return what ``pack`` was given, in single precision's digits, as float64.

    Raises:
        RunError: an array is missing, damaged, or not as long as the others.

    """
    try:
        arrays = {name: _decoded(packed[name]) for name in _NAMES}
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise RunError(
            "the journal holds outcomes of examples that cannot be read: measure the impact again under a new name"
        ) from error
    if len({len(array) for array in arrays.values()}) != 1:
        raise RunError("the journal holds outcomes that are cut off: measure the impact again under a new name")
    return Outcomes(**arrays)


def write_examples(
    path: Path, items: Iterable[tuple[str, str, Outcomes]], order: Sequence[int] | None = None
) -> None:
    """Write (component, method, outcomes) as a Parquet table with the columns ``COLUMNS``.

    Of a component and method that come more than once, as in a run that was resumed, the last counts.
    Examples that were not looked at have no row. ``example`` is the index in the source that ``order`` gives for
    each example (`energyscope.workloads.Evaluation`); without it, the place among the outcomes, which are in
    the order of the batches. The file is complete or it is not there.

    Raises:
        UsageError: ``order`` is of another number of examples than the outcomes.

    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    latest = {(component, method): outcomes for component, method, outcomes in items}
    places = [_indices(outcomes, order) for outcomes in latest.values()]
    numbers = [_numbers(outcomes.subset(outcomes.seen())) for outcomes in latest.values()]
    lengths = [len(rows) for rows in places]
    columns: dict[str, Any] = {
        "component": _repeated([component for component, _ in latest], lengths),
        "method": _repeated([method for _, method in latest], lengths),
        "example": pa.array(np.concatenate([np.zeros(0), *places]).astype(np.int32)),
    }
    for name in COLUMNS[3:]:
        values = np.concatenate([np.zeros(0), *(columns_of[name] for columns_of in numbers)])
        columns[name] = pa.array(values.astype(np.float32))
    unfinished = path.with_name(path.name + ".part")
    pq.write_table(pa.table(columns), unfinished, compression="zstd")
    unfinished.replace(path)


def paired_difference(first: Outcomes, second: Outcomes, metric: str = "kl", seed: int = 0) -> MetricEstimate:
    """Return the first change's metric minus the second's, on the same examples, resampled together.

    What makes an example hard for both cancels, so the interval is narrower than those of the two values
    suggest. Of examples that only one of them was tried on, none is used.

    Raises:
        UsageError: there is no such metric, or the two were not measured on the same data.

    """
    if len(first) != len(second):
        raise UsageError(NOT_PAIRED)
    both = first.seen() & second.seen()
    first, second = first.subset(both), second.subset(both)
    if not all(_alike(getattr(first, name), getattr(second, name)) for name in _OF_THE_DATA):
        raise UsageError(NOT_PAIRED)
    if not len(first):
        return MetricEstimate(None, reason=reason("no-common-examples"))
    ours, theirs = metrics.statistic(metric, first), metrics.statistic(metric, second)
    if ours is None or theirs is None:
        return MetricEstimate(None, reason=reason("no-labels"))
    return metrics.bootstrap(lambda weights: ours(weights) - theirs(weights), len(first), seed)


def _indices(outcomes: Outcomes, order: Sequence[int] | None) -> npt.NDArray[np.int64]:
    places = np.flatnonzero(outcomes.seen())
    if order is None:
        return places
    if len(order) != len(outcomes):
        raise UsageError(
            f"the order of {len(order)} examples does not fit outcomes of {len(outcomes)}: "
            "give the order of the data that the impact was measured on"
        )
    return np.asarray(order, dtype=np.int64)[places]


def _alike(ours: Floats, theirs: Floats) -> bool:
    return np.allclose(ours, theirs, rtol=1e-4, atol=1e-4, equal_nan=True)  # one of them may have been packed


def _encoded(values: Floats) -> str:
    with np.errstate(over="ignore"):  # what is beyond single precision is infinite in it
        return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def _decoded(text: str) -> Floats:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float64)


def _numbers(outcomes: Outcomes) -> dict[str, Floats]:
    return {
        "kl": outcomes.kl,
        "js": outcomes.js,
        "loss_difference": metrics.by_example("loss_difference", outcomes),
        "margin_difference": metrics.by_example("logit_difference", outcomes),
        "agreement": outcomes.agreement,
        "correct": outcomes.correct,
        "reference_correct": outcomes.reference_correct,
        "predictions": outcomes.predictions,
    }


def _repeated(values: list[str], times: list[int]) -> Any:
    """Return each value as often as it has rows, dictionary-encoded: its text is stored once."""
    import pyarrow as pa

    known = list(dict.fromkeys(values))
    place = {value: index for index, value in enumerate(known)}
    indices = np.repeat(np.array([place[value] for value in values], dtype=np.int32), times)
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(known, pa.string()))
