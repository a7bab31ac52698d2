"""What `energyscope sweep --dry-run` says: the cells, which of them are not possible and why, about how long."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from energyscope.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from energyscope.settings.sweep import SweepSettings
    from energyscope.stages.sweep_preview import CellPlan, SweepPlan

HELD_UNKNOWN = (
    "unclear whether another process is measuring this sweep: its lock cannot be read, or the file system has no "
    "shared locks; resume it only if none is"
)


def show_sweep_plan(settings: SweepSettings, *, as_json: bool) -> None:
    """Print the plan of a new sweep."""
    from energyscope.stages.sweep_preview import preview_sweep

    _show(preview_sweep(settings), as_json=as_json)


def show_resume_plan(path: Path, *, retry: bool, as_json: bool) -> None:
    """Print what a sweep lacks and `--resume` would measure."""
    from energyscope.stages.resume_sweep import preview_resume

    _show(preview_resume(path, retry=retry), as_json=as_json)


def _show(plan: SweepPlan, *, as_json: bool) -> None:
    typer.echo(json.dumps(asdict(plan), indent=1) if as_json else described(plan))
    if plan.stopped:
        raise typer.Exit(UsageError.exit_code)  # as the sweep itself would end


def described(plan: SweepPlan) -> str:
    """Return a plan in lines, without what names and reasons hold that would steer a terminal."""
    from energyscope.reporting.terminal_text import printable
    from energyscope.stages.sweep_preview import in_bytes

    width = max((len(cell.name) for cell in plan.cells), default=0)
    stay = "stays as it is" if plan.done == 1 else "stay as they are"
    facts = [
        *([f"{plan.parameters:,} parameters"] if plan.parameters else []),
        *([f"{in_bytes(plan.free_bytes)} of memory are free"] if plan.free_bytes else []),
    ]
    lines = [
        f"{printable(plan.model)} on {plan.device}, {plan.phase}, {plan.execution}: {'; '.join(facts)}",
        *([f"measured: {', '.join(plan.gpus)}"] if plan.gpus else []),
        *([f"{_cells(len(plan.cells))}, each a run at {plan.granularity} granularity:"] if plan.cells else []),
        *(f"  {cell.name:<{width}}  {_said(cell, plan.phase)}" for cell in plan.cells),
        *([f"{_cells(plan.done)} of the sweep {stay}"] if plan.done else []),
        *_time(plan),
        *([HELD_UNKNOWN] if plan.held is None else []),
        *([f"REFUSED: the sweep would not begin: {printable(plan.stopped)}"] if plan.stopped else []),
        "nothing was loaded or measured (--dry-run)",
    ]
    return "\n".join(lines)


def _said(cell: CellPlan, phase: str) -> str:
    from energyscope.reporting.terminal_text import printable
    from energyscope.stages.sweep_preview import in_bytes

    shape = f"{cell.batch_size:,} x {cell.tokens:,} tokens{' of context' if phase == 'decode' else ''}"
    if cell.refused:
        return f"{shape}: NOT POSSIBLE HERE: {printable(cell.refused)}"
    return shape if cell.least_bytes is None else f"{shape}: holds {in_bytes(cell.least_bytes)} at least"


def _time(plan: SweepPlan) -> list[str]:
    """Say how long the cells take, as far as that is known: how long a call takes is not."""
    if not plan.measured or plan.stopped:
        return []
    least, most = (_duration(plan.measured * one) for one in (plan.seconds, plan.seconds_most))
    time = least if least == most else f"{least} to {most}"
    windows = f"time: {plan.windows} replay windows a cell, {time} for {_cells(plan.measured)}"
    return [f"{windows} if no call is longer than a window; loading, pauses and long calls not included"]


def _cells(amount: int) -> str:
    return "1 cell" if amount == 1 else f"{amount} cells"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
