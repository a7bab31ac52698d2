"""`energyscope doctor`: the GPU, the sensor, and what stands in the way of a trustworthy number."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from energyscope.cli.guard import guarded

NAME = "doctor"


@guarded
def command(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    seconds: Annotated[float, typer.Option(min=1.0, help="How long to watch the idle counter.")] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check what can be measured here, and what to change."""
    from energyscope.stages.doctor import examine

    findings = examine(device, seconds)
    if as_json:
        typer.echo(json.dumps(findings, indent=1))
        return
    for section in ("device", "sensor"):
        typer.echo(f"{section}:")
        for key, value in findings[section].items():
            typer.echo(f"  {key}: {_shown(value)}")
    for advice in findings["advice"]:
        typer.echo(f"- {advice}")
    typer.echo(findings["verdict"])


def _shown(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "; ".join(str(item) for item in value) if isinstance(value, list) else str(value)
