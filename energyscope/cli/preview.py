"""What `energyscope run --dry-run` says of a run: what would be measured, and about how long it would take."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from energyscope.settings.run import RunSettings
    from energyscope.stages.preview import Preview


def show_plan(settings: RunSettings, *, as_json: bool) -> None:
    """Print what a run would measure, and about how long it takes."""
    from energyscope.stages.preview import preview

    plan = preview(settings)
    typer.echo(json.dumps(asdict(plan), indent=1) if as_json else _described(plan))


def _described(plan: Preview) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in plan.kinds.items() if kind != "model")
    tokens = f"{plan.batch_size} x {plan.sequence_length} tokens a pass"
    lines = [
        f"{plan.model} in {plan.precision} on {plan.device}: {plan.parameters:,} parameters, {tokens}",
        f"weights: {plan.weight_bytes / 1e9:.3g} GB in all",
        *([f"REFUSED HERE: {plan.refused}"] if plan.refused else []),
        *([f"measured: {', '.join(plan.gpus)}"] if plan.gpus else []),
        f"{plan.components} components ({kinds})",
        *([] if "benchmark" in plan.skipped else [_benchmark_line(plan)]),
        *([_generate_line(plan)] if plan.generate_seconds else []),
        *([] if "profile" in plan.skipped else _profile_lines(plan)),
        *([_alternatives_line(plan)] if plan.alternatives_seconds_most else []),
        *([] if "ablate" in plan.skipped else [_ablate_line(plan)]),
        *(f"{stage}: skipped ({why.words})" for stage, why in plan.skipped.items()),
        "nothing was loaded or measured (--dry-run)",
    ]
    return "\n".join(lines)


WHAT = {
    "node": "{} single components",
    "group": "{} kinds as means over layers",
    "glue": "overhead between the parts of {} components",
    "without": "{} times the model without one kind (differential)",
}


def _profile_lines(plan: Preview) -> list[str]:
    if plan.sampling == "triggered":
        seconds = _duration(plan.profile_seconds)
        return [f"profile: reads around {plan.windows} calls of components, about {seconds} besides the passes"]
    counted = [text.format(plan.targets[what]) for what, text in WHAT.items() if what in plan.targets]
    more = plan.profile_seconds_most > plan.profile_seconds
    most = f"up to {_duration(plan.profile_seconds_most)} if all need more windows; " if more else ""
    longest = f"{most}long calls, pauses and repeated windows not included"
    return [
        *([f"profile: {', '.join(plan.scenes)}"] if len(plan.scenes) > 1 else []),
        f"profile: {', '.join(counted)}",
        f"profile: {plan.windows} replay windows, about {_duration(plan.profile_seconds)} ({longest})",
    ]


def _benchmark_line(plan: Preview) -> str:
    each = "" if plan.trial_seconds is None else f" of {plan.trial_seconds:g} s at most, and their warm-ups"
    return f"benchmark: {', '.join(plan.precisions)}; {plan.trials} trials{each}"


def _generate_line(plan: Preview) -> str:
    return f"generate: about {_duration(plan.generate_seconds)}, or 6 generations where those take longer"


def _alternatives_line(plan: Preview) -> str:
    most = _duration(plan.alternatives_seconds_most)
    return f"alternatives: one setting changed at a time, at most {most}"


def _ablate_line(plan: Preview) -> str:
    return f"ablate: {plan.ablations} changes of the model, each compared on the evaluation data"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
