"""What is fitted, one measured cell of one subject, and what is predicted, the work of a shape. Plain data.

A *subject* is a component kind summed over the model (``mlp``: the MLPs of all layers) or the whole model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from energyscope.errors import UsageError
from energyscope.intervals import Interval
from energyscope.metering.interval import NORMAL_QUANTILE
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.runs.method import REVISION

FLOOR = 0.02  # relative deviation between cells that their own intervals do not see
FIELDS = {
    "subject": "subjects",
    "model": "models",
    "phase": "phases",
    "precision": "precisions",
    "execution": "executions",
    "board": "boards",
    "meter": "meters",
    "method": "methods",
}


class Work(Protocol):
    """What a law needs to know of a shape: its sizes; FLOPs, bytes and calls, each summed over a pass."""

    @property
    def batch_size(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def flops(self) -> float: ...
    @property
    def bytes(self) -> float: ...
    @property
    def calls(self) -> int: ...


@dataclass(frozen=True)
class Shape:
    """The work of a shape that was not measured; ``calls`` as in `Cell`."""

    batch_size: int
    tokens: int
    flops: float
    bytes: float
    calls: int = 1


@dataclass(frozen=True)
class Cell:
    """One measured cell of one subject; all numbers are per forward pass of the model (decode: per step).

    ``tokens`` is the sequence length (prefill) or the context (decode). The limits of the 95 % interval are None
    where unknown, ``static_mj`` is None on the modelled meter. ``calls`` counts the component's calls in a pass
    (an MLP: the number of layers); only laws over several models need it to be right. For the whole model it is
    what grows with its launches, such as the number of layers. ``board`` is a UUID or a name, ``method`` the
    revision that its passes are of (`runs.method.method_of`).
    """

    subject: str
    model: str
    phase: str
    precision: str
    execution: str
    batch_size: int
    tokens: int
    energy_mj: float
    energy_low_mj: float | None
    energy_high_mj: float | None
    time_us: float
    static_mj: float | None
    flops: float
    bytes: float
    board: str
    calls: int = 1
    meter: str = "nvml"
    method: int = REVISION

    def __post_init__(self) -> None:
        """Refuse what no measurement gives: an energy of 0 or not finite, no time, no call, negative work."""
        numbers = (self.energy_mj, self.time_us, self.flops, self.bytes)
        if not all(math.isfinite(number) for number in numbers) or not self.energy_mj:
            raise ValueError(f"not a measured cell: energy {self.energy_mj} mJ, time {self.time_us} us")
        if self.time_us <= 0 or self.calls < 1 or min(self.flops, self.bytes) < 0:
            raise ValueError("a cell has a positive time, one call at least, and no negative work")

    @property
    def energy(self) -> Interval:
        """Energy in mJ with its limits."""
        return Interval(self.energy_mj, self.energy_low_mj, self.energy_high_mj)

    @property
    def shape(self) -> Shape:
        """The work of this cell, without what was measured of it."""
        return Shape(self.batch_size, self.tokens, self.flops, self.bytes, self.calls)


def check_alike(cells: Sequence[Cell], mixed: Collection[str] = ()) -> tuple[Reason, ...]:
    """Return a remark for each field of ``mixed`` in which the cells differ.

    Raises:
        UsageError: they differ in a field that is not in ``mixed`` (names as in `FIELDS`).

    """
    remarks = []
    for field, plural in FIELDS.items():
        found = sorted({str(getattr(cell, field)) for cell in cells})
        if len(found) < 2:
            continue
        if field not in mixed:
            raise UsageError(
                f"cells of several {plural} ({', '.join(found)}): fit them apart or ask for the mixture"
            )
        remarks.append(reason("cells-mixed", field=field, names=found))
    return tuple(remarks)


def deviations(cells: Sequence[Cell], floor: float = FLOOR) -> Array:
    """Return each cell's standard deviation in mJ, shape (cells,), which weighs it in a fit.

    It joins two parts. The cell's own, from its interval; a cell without one is taken to be no better than the
    worst that has one. And ``floor`` times the energy: the windows of one cell do not see what changes between
    cells (temperature, clocks, and that a law is only nearly true), so without it one sharp cell would outweigh
    all others. The second usually dominates, so that residuals count relative to the value. That is wanted: a law
    spans two orders of magnitude, and equal weights in mJ would fit its largest cells alone.
    """
    energy = np.array([abs(cell.energy_mj) for cell in cells], dtype=float)
    own = [own_deviation(cell) for cell in cells]
    worst = max((value for value in own if value is not None), default=0.0)
    relative = np.array([worst if value is None else value for value in own], dtype=float)
    result: Array = energy * np.hypot(relative, floor)
    return result


def own_deviation(cell: Cell) -> float | None:
    """Return the relative standard deviation that the cell's own interval tells, None where it has none."""
    if cell.energy_low_mj is None or cell.energy_high_mj is None or not cell.energy_mj:
        return None
    return abs((cell.energy_high_mj - cell.energy_low_mj) / 2 / NORMAL_QUANTILE / cell.energy_mj)


def column(cells: Sequence[Work], name: str) -> Array:
    """Return one attribute of all cells, shape (cells,)."""
    return np.array([getattr(cell, name) for cell in cells], dtype=float)
