"""Outcomes of every example, stored compactly, so that changes can be compared on the same examples later.

``impact_examples.parquet`` has one row for each component, method and example, in single precision.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from energyscope.errors import RunError, UsageError
from energyscope.impact.metrics import Floats, Outcomes, by_example

_NUMBERS: dict[str, Callable[[Outcomes], Floats]] = {
    "kl": attrgetter("kl"),
    "js": attrgetter("js"),
    "loss_difference": partial(by_example, "loss_difference"),
    "margin_difference": partial(by_example, "logit_difference"),
    "agreement": attrgetter("agreement"),
    "correct": attrgetter("correct"),
    "reference_correct": attrgetter("reference_correct"),
    "predictions": attrgetter("predictions"),
}
COLUMNS = ("component", "method", "example", *_NUMBERS)
_NAMES = tuple(field.name for field in fields(Outcomes))


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

    Where a component and method come more than once, as in a resumed run, the last counts. Examples that were not
    run have no row. ``example`` is the index in the source that ``order`` gives for each example
    (`energyscope.workloads.Evaluation`); without it, the place among the outcomes, which are in the order of the
    batches. The file is complete or absent.

    Raises:
        UsageError: ``order`` is of another number of examples than the outcomes.

    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    latest = {(component, method): outcomes for component, method, outcomes in items}
    places = [_indices(outcomes, order) for outcomes in latest.values()]
    measured = [outcomes.subset(outcomes.seen()) for outcomes in latest.values()]
    lengths = np.array([len(outcomes) for outcomes in measured], int)
    columns: dict[str, Any] = {
        name: pa.array(np.repeat(np.array(texts, object), lengths), pa.string()).dictionary_encode()
        for name, texts in (("component", [name for name, _ in latest]), ("method", [name for _, name in latest]))
    }
    columns["example"] = pa.array(np.concatenate([np.zeros(0), *places]).astype(np.int32))
    for name, number in _NUMBERS.items():
        values = np.concatenate([np.zeros(0), *map(number, measured)])
        columns[name] = pa.array(values.astype(np.float32))
    unfinished = path.with_name(path.name + ".part")
    pq.write_table(pa.table(columns), unfinished, compression="zstd")
    unfinished.replace(path)


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


def _encoded(values: Floats) -> str:
    with np.errstate(over="ignore"):  # what is beyond single precision is infinite in it
        return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def _decoded(text: str) -> Floats:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float64)
