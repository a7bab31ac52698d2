"""What `--dry-run` says of a run or a sweep: what would be measured, and about how long it would take."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer

from energyscope.errors import DeviceError, RunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from energyscope.reasons import Reason
    from energyscope.settings.run import RunSettings
    from energyscope.settings.sweep import SweepSettings
    from energyscope.stages.dry_run import Preview
    from energyscope.stages.plan_dry_run import PlanPreview
    from energyscope.stages.sampling_budget import TimeEstimate
    from energyscope.stages.sweep_dry_run import CellPlan, SweepPlan

HELD_UNKNOWN = (
    "unclear whether another process is measuring this sweep: its lock cannot be read, or the file system has no "
    "shared locks; resume it only if none is"
)


def show_plan(settings: RunSettings, *, as_json: bool) -> None:
    """Print what a run would measure, and about how long it takes."""
    from energyscope.stages.dry_run import preview, stage_times, why_no_time

    plan = preview(settings)
    try:
        times = stage_times(settings, plan)
    except DeviceError as error:  # found with the model loaded
        plan, times = replace(plan, refused=str(error)), {}
    seconds = {stage: time and [time.least_s, time.most_s] for stage, time in times.items()}
    untold = {stage: why_no_time(stage) for stage, time in times.items() if time is None}
    document = {**asdict(plan), "stage_seconds": seconds, "stages_without_time": untold}
    typer.echo(json.dumps(document, indent=1) if as_json else _described(plan, times, untold))
    if plan.refused:
        raise typer.Exit(DeviceError.exit_code)
    asked = [stage for stage in settings.stages if stage != "report"]
    if asked and all(stage in plan.skipped for stage in asked):  # the run would fail as well
        why = "; ".join(f"{stage}: {plan.skipped[stage].words}" for stage in asked)
        raise RunError(f"nothing would be done ({why})")


def _described(plan: Preview, times: Mapping[str, TimeEstimate | None], untold: Mapping[str, Reason]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in plan.kinds.items() if kind != "model")
    without = "one example" if plan.batch_size == 1 else f"{plan.batch_size} examples"
    tokens = f"{plan.batch_size} x {plan.sequence_length} tokens" if plan.sequence_length else without
    lines = [
        f"{plan.model} in {plan.precision} on {plan.device}: {plan.parameters:,} parameters, {tokens} a pass",
        f"weights: {plan.weight_bytes / 1e9:.3g} GB in all",
        *([f"REFUSED HERE: {plan.refused}"] if plan.refused else []),
        *([f"measured: {', '.join(plan.gpus)}"] if plan.gpus else []),
        f"{plan.components} components ({kinds})",
        *_stage_lines(plan),
        *(f"{stage}: skipped ({why.words})" for stage, why in plan.skipped.items()),
        *_time_lines(times),
        *(f"{stage}: time unknown ({why.words})" for stage, why in untold.items()),
        "nothing was measured (--dry-run)",
    ]
    return "\n".join(lines)


def _time_lines(times: Mapping[str, TimeEstimate | None]) -> Iterator[str]:
    """Yield how long each stage takes, and all of them that are known together."""
    known = {stage: (time.least_s or 0.0, time.most_s or 0.0) for stage, time in times.items() if time}
    unknown = [stage for stage in times if stage not in known]
    without = f", not counting {', '.join(unknown)}" if unknown else ""
    if known:
        least, most = (sum(limits) for limits in zip(*known.values(), strict=True))
        yield "time: " + ", ".join(f"{stage} {_at_least_and_most(*limits)}" for stage, limits in known.items())
        yield f"time in all: about {_at_least_and_most(least, most)}{without}"


def _at_least_and_most(least_s: float, most_s: float) -> str:
    least, most = _duration(least_s), _duration(most_s)
    return least if least == most else f"{least} to {most}" if least_s else f"up to {most}"


TARGETS = {
    "node": "{} single components",
    "group": "{} kinds as means over layers",
    "glue": "overhead between the parts of {} components",
    "without": "{} times the model without one kind (differential)",
}


def _stage_lines(plan: Preview) -> Iterator[str]:
    if "benchmark" not in plan.skipped:
        most = "" if plan.trial_seconds is None else f" of {plan.trial_seconds:g} s at most, and their warm-ups"
        yield f"benchmark: {', '.join(plan.precisions)}; {plan.trials} trials{most}"
    if plan.generate_seconds:
        yield f"generate: about {_duration(plan.generate_seconds)}, or 6 generations where those take longer"
    if "profile" not in plan.skipped:
        yield from _profile_lines(plan)
    if plan.alternatives_seconds_most:
        most = _duration(plan.alternatives_seconds_most)
        yield f"alternatives: one setting changed at a time, at most {most}"
    if "ablate" not in plan.skipped:
        yield f"ablate: {plan.ablations} changes of the model, each compared on the evaluation data"
    if plan.plan is not None:
        yield from _plan_lines(plan.plan)


def _plan_lines(plan: PlanPreview) -> list[str]:
    sizes = f"{plan.groups} groups of linears, of {plan.families} kinds and sizes"
    least, most = _duration(plan.seconds), _duration(plan.seconds_most)
    if_all = "if every precision saves, all need more windows and several choices are verified"
    compared = "each compared on half of the data"
    levers = _duration(plan.levers_seconds_most)
    not_counted = "data were not counted: whether they are enough for the budget, only the run can tell"
    return [
        f"plan: {sizes}, in {', '.join(plan.precisions)}; for {', '.join(plan.workloads)}",
        f"plan: {plan.windows} replay windows, about {least} (up to {plan.windows_most} and {most} {if_all})",
        f"plan: {plan.changes} changes of a group and up to {plan.choices} choices, {compared}",
        f"plan: {not_counted if plan.examples is None else f'{plan.examples} examples of data'}",
        *([f"plan: what else saves with it, at most {levers}"] if plan.levers_seconds_most else []),
    ]


def _profile_lines(plan: Preview) -> list[str]:
    if plan.sampling == "triggered":
        seconds = _duration(plan.profile_seconds)
        return [f"profile: reads around {plan.windows} calls of components, about {seconds} besides the passes"]
    counts = [text.format(plan.targets[what]) for what, text in TARGETS.items() if what in plan.targets]
    more = plan.profile_seconds_most > plan.profile_seconds
    most = f"up to {_duration(plan.profile_seconds_most)} if all need more windows; " if more else ""
    longest = f"{most}long calls, pauses, repeated windows and a new board's search for its samples not included"
    return [
        *([f"profile: {', '.join(plan.scenes)}"] if len(plan.scenes) > 1 else []),
        f"profile: {', '.join(counts)}",
        f"profile: {plan.windows} windows, about {_duration(plan.profile_seconds)} ({longest})",
    ]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def show_sweep_plan(settings: SweepSettings, *, as_json: bool) -> None:
    """Print the plan of a new sweep."""
    from energyscope.stages.sweep_dry_run import preview_sweep
    from energyscope.stages.sweep_engine import check_engine

    settings.check()
    if settings.by:
        check_engine(settings)
    _show_sweep([preview_sweep(one) for one in settings.subjects()], as_json=as_json)


def show_resume_plan(path: Path, *, retry: bool, as_json: bool) -> None:
    """Print what a sweep lacks and `--resume` would measure."""
    from energyscope.stages.resume_sweep import preview_resume

    _show_sweep(preview_resume(path, retry=retry), as_json=as_json)


def _show_sweep(plans: Sequence[SweepPlan], *, as_json: bool) -> None:
    """Print a plan for each model and execution; as JSON a list where there are several."""
    if as_json:
        documents = [asdict(plan) for plan in plans]
        typer.echo(json.dumps(documents[0] if len(documents) == 1 else documents, indent=1))
    else:
        lines = [*map(sweep_described, plans), *_time_in_all(plans), "nothing was loaded or measured (--dry-run)"]
        typer.echo("\n".join(lines))
    if all(plan.stopped for plan in plans):
        raise typer.Exit(UsageError.exit_code)  # as the sweep itself would end


def sweep_described(plan: SweepPlan) -> str:
    """Return a plan in lines, without what names and reasons hold that would steer a terminal."""
    from energyscope.reporting.terminal_text import printable
    from energyscope.stages.sweep_dry_run import in_bytes

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
        *(f"  {cell.name:<{width}}  {_cell_line(cell, plan.phase)}" for cell in plan.cells),
        *([f"{_cells(plan.done)} of the sweep {stay}"] if plan.done else []),
        *_time(plan),
        *([HELD_UNKNOWN] if plan.held is None else []),
        *([f"REFUSED: the sweep would not begin: {printable(plan.stopped)}"] if plan.stopped else []),
    ]
    return "\n".join(lines)


def _cell_line(cell: CellPlan, phase: str) -> str:
    from energyscope.reporting.terminal_text import printable
    from energyscope.stages.sweep_dry_run import in_bytes

    shape = f"{cell.batch_size:,} x {cell.tokens:,} tokens{' of context' if phase == 'decode' else ''}"
    if cell.refused:
        return f"{shape}: NOT POSSIBLE HERE: {printable(cell.refused)}"
    return shape if cell.least_bytes is None else f"{shape}: holds {in_bytes(cell.least_bytes)} at least"


def _time(plan: SweepPlan) -> list[str]:
    """Say how long the cells take, as far as that is known: how long a call takes is not."""
    if not plan.measured or plan.stopped:
        return []
    time = _range(plan.measured * plan.seconds, plan.measured * plan.seconds_most)
    windows = f"time: {plan.windows} replay windows a cell, {time} for {_cells(plan.measured)}"
    return [f"{windows} if no call is longer than a window; loading, pauses and long calls not included"]


def _time_in_all(plans: Sequence[SweepPlan]) -> list[str]:
    """Say how long the cells of all plans take, one after the other and by the workers that there are."""
    from energyscope.stages.sweep_dry_run import seconds_of

    plans = [plan for plan in plans if plan.measured and not plan.stopped]
    workers = (plans[0].workers or 1) if plans else 1
    if len(plans) < 2 and workers == 1:
        return []
    at_once = f"; {_range(*seconds_of(plans, workers))} with {workers} workers" if workers > 1 else ""
    return [f"time in all: {_range(*seconds_of(plans, 1))} of measuring{at_once}"]


def _range(least: float, most: float) -> str:
    shortest, longest = _duration(least), _duration(most)
    return shortest if shortest == longest else f"{shortest} to {longest}"


def _cells(amount: int) -> str:
    return "1 cell" if amount == 1 else f"{amount} cells"
