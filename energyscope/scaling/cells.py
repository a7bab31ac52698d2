"""What laws are fitted to: observations and their cells.

An *observation* is what a run measured of one phase at one batch size and length: a *cell* for each subject. Its
*subjects* are

- ``model``: the measured whole, with the number of layers as its calls;
- the *parts*, which do not overlap: the kinds of the components that have none below them, each summed over the
  model, and with them the overhead (``glue`` in documents) and ``unexplained``. They add up to the whole;
- the *groups*: kinds that have components below them, such as ``layer``, each of which holds parts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from energyscope.errors import UsageError
from energyscope.grouping import group_by
from energyscope.intervals import Interval
from energyscope.metering.interval import NORMAL_QUANTILE
from energyscope.metering.ticks import Array
from energyscope.reasons import Reason, reason
from energyscope.runs.method import REVISION, changes_since

WHOLE = "model"
OVERHEAD, UNEXPLAINED = "glue", "unexplained"
RESIDUAL = (OVERHEAD, UNEXPLAINED)  # subjects that no component is

Entry = dict[str, Any]  # of laws.json or of a prediction

FLOOR = 0.02  # relative deviation between cells that their own intervals do not see
FIELDS = ("subject", "model", "phase", "precision", "execution", "board", "limit", "meter", "method")
GROUPED = ("model", "phase", "precision", "execution", "kv_cache", "board", "limit", "meter", "weights", "method")


@dataclass(frozen=True)
class Shape:
    """The work of a pass that was not measured; all as in `Cell`."""

    batch_size: int
    tokens: int
    flops: float
    bytes: float
    calls: int = 1
    executed_flops: float | None = None
    nominal_flops: float | None = None


@dataclass(frozen=True)
class Cell:
    """One measured cell of one subject; all numbers are per forward pass of the model (decode: per step).

    ``tokens`` is the sequence length (prefill) or the context (decode). The limits of the 95 % interval are None
    where unknown, ``static_mj`` is None on the modelled meter. ``calls`` counts the component's calls in a pass
    (an MLP: the number of layers); only laws over several models need it to be right. ``flops`` are those that
    laws count: nominal ones as measured, executed ones after `on_executed_flops`, which keeps the others as
    ``nominal_flops`` (``executed_flops`` None: not recorded, or unknown). ``board`` is a UUID or a name, ``limit``
    what it was held to (``400 W``, ``1200 MHz``; empty: its default), ``method`` the revision that
    its passes are of (`runs.method.method_of`).
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
    limit: str = ""
    calls: int = 1
    meter: str = "nvml"
    method: int = REVISION
    executed_flops: float | None = None
    nominal_flops: float | None = None

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

    def with_energy(self, energy: Interval) -> Cell:
        """Return the cell with another energy (mJ)."""
        return replace(self, energy_mj=energy.value, energy_low_mj=energy.low, energy_high_mj=energy.high)


Work = Shape | Cell  # what a law predicts: sizes; FLOPs, bytes and calls, each summed over a pass
AnyWork = TypeVar("AnyWork", Shape, Cell)


@dataclass(frozen=True)
class Observation:
    """The cells of one observation of a run, by subject.

    ``parts`` are the subjects that add up to the whole: none where a part, overhead or the whole is missing.
    ``left_out`` says of each subject without a cell why. ``kv_cache`` is the kind of cache of the pass (None: it
    has none), ``weights`` what the model was loaded with, ``quality`` the grade of the whole model's energy.
    ``granularity`` says how finely its components were split; None: the run does not state it.

    ``path`` is the directory of the run as seen from the document of laws, ``device`` the name of the board.
    ``parameters`` and ``layers`` are the model's, ``software`` the versions that it was measured with, by name.
    """

    run: str
    model: str
    phase: str
    precision: str
    batch_size: int
    tokens: int
    kv_cache: str | None
    weights: str | None
    cells: Mapping[str, Cell]
    parts: tuple[str, ...]
    left_out: Mapping[str, Reason]
    quality: str | None = None
    granularity: str | None = None
    path: str = ""
    device: str | None = None
    parameters: int | None = None
    layers: int | None = None
    software: Mapping[str, str] = field(default_factory=dict)

    @property
    def any_cell(self) -> Cell:
        """The cell of the whole, or another one where it is missing: all have the observation's setting."""
        return self.cells.get(WHOLE) or next(iter(self.cells.values()))

    @property
    def changes_since(self) -> str | None:
        """What was mended since it was measured (`runs.method.changes_since`); None where nothing was."""
        return changes_since(self.any_cell.method, self.any_cell.phase, self.any_cell.execution)

    @property
    def key(self) -> tuple[str, int, int]:
        """The model and the shape, which distinguish observations that are measured alike."""
        return self.model, self.batch_size, self.tokens

    def value(self, field: str) -> Any:
        """Return a field of the observation, or where it has none of that name, of its cells."""
        return getattr(self, field) if hasattr(self, field) else getattr(self.any_cell, field)

    def text(self, field: str) -> str | None:
        """Return a field as documents write those of `GROUPED`."""
        value = self.value(field)
        return None if value is None else str(value)


def setting_of(observation: Observation, *without: str) -> tuple[str | None, ...]:
    """Return what observations of one group have in common: `GROUPED`, some fields left out."""
    return tuple(observation.text(field) for field in GROUPED if field not in without)


def grouped(observations: Iterable[Observation]) -> list[list[Observation]]:
    """Return the observations with cells in groups that laws may join: alike in all but batch size and tokens."""
    with_cells = (observation for observation in observations if observation.cells)
    return list(group_by(with_cells, setting_of).values())


def by_subject(observations: Iterable[Observation]) -> dict[str, list[Cell]]:
    """Return the cells of each subject, in the observations' order."""
    cells: dict[str, list[Cell]] = {}
    for observation in observations:
        for subject, cell in observation.cells.items():
            cells.setdefault(subject, []).append(cell)
    return cells


def on_executed_flops(observations: Sequence[Observation]) -> tuple[list[Observation], list[Reason]]:
    """Return the observations with executed FLOPs as those that laws count.

    Laws do not join executed with nominal FLOPs: where a cell's executed ones are not recorded, all count nominal
    ones, and a note says so.
    """
    lacking = [
        observation.run
        for observation in observations
        if any(cell.executed_flops is None for cell in observation.cells.values())
    ]
    if lacking:
        return list(observations), [reason("executed-flops-not-recorded", runs=list(dict.fromkeys(lacking)))]
    return [
        replace(observation, cells={name: executed(cell) for name, cell in observation.cells.items()})
        for observation in observations
    ], []


def counts_executed(observations: Iterable[Observation]) -> bool:
    """Tell whether laws of these observations are over executed FLOPs."""
    return all(observation.any_cell.nominal_flops is not None for observation in observations if observation.cells)


def executed(work: AnyWork) -> AnyWork:
    """Return work whose FLOPs are the executed ones.

    Raises:
        ValueError: they are not known.

    """
    if work.executed_flops is None:
        raise ValueError("executed FLOPs are unknown")
    return replace(work, flops=work.executed_flops, nominal_flops=work.flops)


def common_parts(observations: Sequence[Observation]) -> tuple[tuple[str, ...], Reason | None]:
    """Return the subjects that add up to the whole in all observations that know them, or why there are none."""
    known = [observation for observation in observations if observation.parts]
    if not known:
        return (), reason("no-run-with-all-parts")
    first = set(known[0].parts)
    other = next((observation for observation in known if set(observation.parts) != first), None)
    if other is not None:
        odd = sorted(first ^ set(other.parts))
        return (), reason("parts-differ", first=known[0].run, second=other.run, parts=odd)
    return known[0].parts, None


def shape_of(cell: Cell) -> dict[str, int]:
    """Return the batch and the tokens of a cell, as documents hold them."""
    return {"batch_size": cell.batch_size, "tokens": cell.tokens}


def with_whole(observations: Iterable[Observation]) -> list[Observation]:
    """Return the observations of which the whole has a positive energy."""
    return [
        observation
        for observation in observations
        if WHOLE in observation.cells and observation.cells[WHOLE].energy_mj > 0
    ]


def check_alike(cells: Sequence[Cell], mixed: Collection[str] = ()) -> tuple[Reason, ...]:
    """Return a remark for each field of ``mixed`` in which the cells differ.

    Raises:
        UsageError: they differ in a field that is not in ``mixed`` (names as in `FIELDS`).

    """
    remarks = []
    for name in FIELDS:
        values = sorted({str(getattr(cell, name)) for cell in cells})
        if len(values) < 2:
            continue
        if name not in mixed:
            raise UsageError(
                f"cells of several {name}s ({', '.join(values)}): fit them apart or ask for the mixture"
            )
        remarks.append(reason("cells-mixed", field=name, names=values))
    return tuple(remarks)


def deviations(cells: Sequence[Cell]) -> Array:
    """Return each cell's standard deviation in mJ, shape (cells,), which weighs it in a fit.

    It joins two parts. The cell's own, from its interval; a cell without one is taken to be no better than the
    worst that has one. And `FLOOR` times the energy: the windows of one cell do not see what changes between
    cells (temperature, clocks, and that a law is only nearly true), so without it one sharp cell would outweigh
    all others. The second usually dominates, so that residuals count relative to the value. That is wanted: a law
    spans two orders of magnitude, and equal weights in mJ would fit its largest cells alone.
    """
    energy = np.array([abs(cell.energy_mj) for cell in cells], dtype=float)
    return energy * joined_deviations([own_deviation(cell) for cell in cells])


def joined_deviations(own: Sequence[float | None]) -> Array:
    """Return relative deviations with `FLOOR`, shape (cells,); an unknown one is as the worst that is known."""
    worst = max((value for value in own if value is not None), default=0.0)
    result: Array = np.hypot([worst if value is None else value for value in own], FLOOR)
    return result


def own_deviation(cell: Cell) -> float | None:
    """Return the relative standard deviation of the cell's own interval, None where it has no interval."""
    if cell.energy_low_mj is None or cell.energy_high_mj is None:
        return None
    return abs((cell.energy_high_mj - cell.energy_low_mj) / 2 / NORMAL_QUANTILE / cell.energy_mj)


def column(works: Sequence[Work], name: str) -> Array:
    """Return one attribute of all cells or shapes, shape (works,)."""
    return np.array([getattr(work, name) for work in works], dtype=float)
