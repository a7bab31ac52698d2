"""What a sweep would measure and about how long it would take, found without weights and without a meter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from energyscope.errors import EnergyscopeError
from energyscope.loading.devices import usable_bytes
from energyscope.runs.sweeps import SweepCell
from energyscope.settings.sweep import SweepSettings
from energyscope.stages.measured_devices import MeasuredDevices, find_devices
from energyscope.stages.preview import Preview, preview
from energyscope.stages.shape_work import Asked, Skeleton
from energyscope.stages.sweep import lengths_refused, settled


@dataclass(frozen=True)
class CellPlan:
    """One cell. ``refused`` says why it would not be measured here; None: nothing is known against it.

    ``least_bytes`` is what it holds in memory at least, which is counted of the largest cells only (None: of
    others): weights, inputs, cache and outputs. What layers need in between comes on top.
    """

    name: str
    precision: str
    batch_size: int
    tokens: int
    least_bytes: int | None
    refused: str | None


@dataclass(frozen=True)
class SweepPlan:
    """A plan. ``gpus`` are the UUIDs of those that would be measured; ``done`` counts cells that stay as they are.

    ``stopped`` says why the sweep would not begin at all (None: it would), and ``held`` whether another process is
    measuring it (None: that cannot be told). Where no call is longer than a window,
    a cell takes ``windows`` of replay and about ``seconds``, or up to ``seconds_most`` where all components need
    more windows; loading, pauses, and windows that are taken again come on top. ``free_bytes`` is what the devices
    have left together (None: they do not say). ``parameters`` is None where no cell is possible.
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
    held: bool | None = False

    @property
    def measured(self) -> int:
        """How many cells would be tried with nothing known against them."""
        return sum(cell.refused is None for cell in self.cells)


def preview_sweep(settings: SweepSettings, *, waiting: Collection[str] | None = None) -> SweepPlan:
    """Return what a sweep with these settings would do; of one that is resumed, the cells that are ``waiting``.

    Raises:
        EnergyscopeError: the options are refused. A plan of which no cell is possible says so itself.

    """
    settings.check()
    settings = settled(settings)
    run, where = settings.run, find_devices(settings.run)
    too_long = lengths_refused(settings)
    every = settings.cells()
    cells = [one for one in every if waiting is None or one.name in waiting]
    possible = [one for one in cells if one.tokens not in too_long]
    plans = {one: _plan(settings, possible, one) for one in dict.fromkeys(cell.precision for cell in possible)}
    free = _free(where)
    least = {
        name: found
        for one, plan in plans.items()
        for name, found in _least(
            settings, [cell for cell in possible if cell.precision == one], plan, free
        ).items()
    }
    first = next(iter(plans.values()), None)
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
                one.name,
                one.precision,
                one.batch_size,
                one.tokens,
                least.get(one.name),
                too_long.get(one.tokens) or _refused(plans[one.precision], least.get(one.name), free),
            )
            for one in cells
        ),
        done=len(every) - len(cells),
        windows=first.windows if first else 0,
        seconds=first.profile_seconds if first else 0.0,
        seconds_most=first.profile_seconds_most if first else 0.0,
        free_bytes=free,
        stopped=next(iter(too_long.values()), None),
    )


def _plan(settings: SweepSettings, cells: Sequence[SweepCell], precision: str) -> Preview:
    """Return the plan of a precision's first cell: the others take as many windows."""
    cell = next(one for one in cells if one.precision == precision)
    return preview(replace(settings.settings_of(cell, settings.run.root), name=None))


def _refused(plan: Preview, least: int | None, free: int | None) -> str | None:
    if plan.refused:
        return plan.refused
    if least is None or free is None or least <= free:
        return None
    return f"does not fit: it holds {said_bytes(least)} at least, and {said_bytes(free)} are free"


def said_bytes(amount: int) -> str:
    """Write an amount of memory, such as ``"2.13 MB"`` or ``"1,080 GB"``."""
    scale, unit = (1e9, "GB") if amount >= 1e8 else (1e6, "MB")
    value = amount / scale
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _least(
    settings: SweepSettings, cells: Sequence[SweepCell], plan: Preview, free: int | None
) -> Mapping[str, int]:
    """Return what the largest cells hold at least, down to the first one that has room.

    Nothing leaves memory before the pass ends of its weights, inputs, cache and outputs, and each is read or
    written in it: so the least traffic of a pass is held as well.
    """
    skeleton = Skeleton(settings.run.model, plan.precision)
    found: dict[str, int] = {}
    for cell in sorted(cells, key=lambda one: -one.batch_size * one.tokens):
        asked = Asked(cell.phase, cell.batch_size, cell.tokens, plan.precision)
        try:
            work = skeleton.work(asked)["model"]
        except (EnergyscopeError, KeyError, RuntimeError):  # not every model's work can be counted on shapes
            return found
        found[cell.name] = max(int(work.bytes), plan.weight_bytes)
        if free is None or found[cell.name] <= free:
            return found
    return found


def _free(where: MeasuredDevices) -> int | None:
    known = [usable_bytes(torch.device(one)) for one in where.devices]
    return sum(one for one in known if one is not None) if None not in known else None
