"""What a sweep would measure and about how long it takes, without loading weights or starting a meter."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch

from energyscope.errors import EnergyscopeError
from energyscope.loading.devices import usable_bytes
from energyscope.runs.sweeps import SweepCell
from energyscope.scaling.shape_work import PassShape, Skeleton
from energyscope.settings.sweep import SweepSettings
from energyscope.stages.dry_run import Preview, preview
from energyscope.stages.measured_devices import MeasuredDevices, find_devices
from energyscope.stages.sweep import resolve_precisions
from energyscope.stages.sweep_engine import lengths_refused, named_cells, workers_of
from energyscope.stages.sweep_limits import check_one_gpu


@dataclass(frozen=True)
class CellPlan:
    """One cell. ``refused`` says why it would not be measured here; None: nothing is known against it.

    ``least_bytes`` is what it holds in memory at least, without what layers need in between. It is counted of the
    largest cells only (None: of others).
    """

    name: str
    precision: str
    batch_size: int
    tokens: int
    least_bytes: int | None
    refused: str | None


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep would do. ``done`` counts cells that stay as they are.

    A cell takes ``windows`` of replay and from ``seconds`` to ``seconds_most``, without loading, pauses and long
    calls; ``workers`` are the cells at once (None: only the cluster knows). ``free_bytes`` is the sum over devices
    (None: they do not say), ``parameters`` None where no cell is possible. ``stopped`` says why the sweep would
    not begin (None: it would), ``held`` whether another process is measuring it (None: unknown).
    """

    model: str
    phase: str
    device: str
    gpus: tuple[str, ...]
    parameters: int | None
    granularity: str
    execution: str
    cells: tuple[CellPlan, ...]
    done: int
    windows: int
    seconds: float
    seconds_most: float
    free_bytes: int | None
    stopped: str | None
    workers: int | None = 1
    held: bool | None = False

    @property
    def measured(self) -> int:
        """How many cells would be tried with nothing known against them."""
        return sum(cell.refused is None for cell in self.cells)


def preview_sweep(settings: SweepSettings, *, waiting: Collection[str] | None = None) -> SweepPlan:
    """Return what a sweep of one model and execution would do; when resumed, with the cells that are ``waiting``.

    All cells take as many windows as the first one.

    Raises:
        EnergyscopeError: the options are refused. A plan of which no cell is possible says so itself.

    """
    settings.check()
    settings = resolve_precisions(settings) if settings.by is None else settings  # else each worker does
    run, where = settings.run, find_devices(settings.run)
    check_one_gpu(settings.limits, where)
    too_long = lengths_refused(settings)
    every = named_cells(settings)
    cells = [cell for cell in every if waiting is None or cell.name in waiting]
    free = _free_bytes(where)
    previews: list[Preview] = []
    refused = {cell.name: too_long.get(cell.tokens) for cell in cells}
    least: dict[str, int] = {}
    for precision in settings.precisions:
        possible = [cell for cell in cells if cell.precision == precision and cell.tokens not in too_long]
        if not possible:
            continue
        previews.append(preview(replace(settings.settings_of(possible[0], run.root), name=None)))
        least |= _least_bytes(
            Skeleton(run.model, previews[-1].precision, run.adapter), possible, previews[-1], free
        )
        refused |= {cell.name: _refused(previews[-1], least.get(cell.name), free) for cell in possible}
    first = previews[0] if previews else None
    return SweepPlan(
        model=run.model,
        phase=run.phase,
        device=str(where.device),
        gpus=where.gpus,
        parameters=first.parameters if first else None,
        granularity=run.granularity,
        execution=run.execution,
        cells=tuple(
            CellPlan(
                cell.name,
                cell.precision,
                cell.batch_size,
                cell.tokens,
                least.get(cell.name),
                refused[cell.name],
            )
            for cell in cells
        ),
        done=len(every) - len(cells),
        windows=first.windows if first else 0,
        seconds=first.profile_seconds if first else 0.0,
        seconds_most=first.profile_seconds_most if first else 0.0,
        free_bytes=free,
        stopped=None
        if settings.by and len(too_long) < len(settings.lengths)
        else next(iter(too_long.values()), None),
        workers=workers_of(settings),
    )


def seconds_of(plans: Sequence[SweepPlan], workers: int) -> tuple[float, float]:
    """Return how long so many workers take for all cells, at least and at most; who is free takes the next one."""
    least, most = [0.0] * workers, [0.0] * workers
    for plan in plans:
        for _ in range(plan.measured):
            heapq.heapreplace(least, least[0] + plan.seconds)
            heapq.heapreplace(most, most[0] + plan.seconds_most)
    return max(least), max(most)


def _refused(plan: Preview, least: int | None, free: int | None) -> str | None:
    if plan.refused or least is None or free is None or least <= free:
        return plan.refused
    return f"does not fit: it holds {in_bytes(least)} at least, and {in_bytes(free)} are free"


def in_bytes(amount: int) -> str:
    """Write an amount of memory, such as ``"2.13 MB"`` or ``"1,080 GB"``."""
    scale, unit = (1e9, "GB") if amount >= 1e8 else (1e6, "MB")
    value = amount / scale
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _least_bytes(
    skeleton: Skeleton, cells: Sequence[SweepCell], plan: Preview, free: int | None
) -> dict[str, int]:
    """Return what the largest cells hold at least, down to the first one that has room.

    Weights, inputs, cache and outputs all stay in memory until the pass ends, and each is read or written in it:
    so the least traffic of a pass is held as well.
    """
    least: dict[str, int] = {}
    for cell in sorted(cells, key=lambda cell: -cell.batch_size * cell.tokens):
        try:
            work = skeleton.work(PassShape(cell.phase, cell.batch_size, cell.tokens, plan.precision))["model"]
        except (EnergyscopeError, KeyError, RuntimeError):  # not every model's work can be counted on shapes
            return least
        least[cell.name] = max(int(work.bytes), plan.weight_bytes)
        if free is None or least[cell.name] <= free:
            return least
    return least


def _free_bytes(where: MeasuredDevices) -> int | None:
    free = [usable_bytes(torch.device(device)) for device in where.devices]
    return None if None in free else sum(amount for amount in free if amount is not None)
