"""`energyscope export RUN --format FORMAT`: a run in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import DEFAULT_ROOT, Root
from energyscope.cli.output import path_text


@report_errors
@reading_runs
def command(
    run: Annotated[str, typer.Argument(help="A run: its path, its name, or the beginning of its name.")],
    *,
    format: Annotated[  # noqa: A002 - the option's name
        str,
        typer.Option(
            help="perfetto (power over time), speedscope or collapsed (flame graphs of energy), metrics (a flat "
            "dictionary), model-card (Markdown) or parquet."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write; in the run's folder by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Of parquet: components, impact, merged, trace, benchmark or windows; of a server: loads "
            "[default: components].",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="mlflow", help="Log metrics to MLFLOW_TRACKING_URI; a file only with --output."),
    ] = None,
    root: Root = DEFAULT_ROOT,
) -> None:
    """Write a run in the format of another tool: Perfetto, speedscope, MLflow, a model card, Parquet."""
    from energyscope.errors import UsageError
    from energyscope.exporting import export, opened
    from energyscope.reporting.terminal_text import printable

    if to is not None and (to != "mlflow" or format != "metrics"):
        raise UsageError(f"--to {to} with --format {format}: only metrics can be logged, and only --to mlflow")
    loaded = opened(run, root, format)
    if to is None or output is not None:
        written = export(loaded, format, output, force=force, table=table)
        for note in written.notes:
            typer.echo(printable(note), err=True)
        typer.echo(path_text(written.path))
    if to is not None:
        from energyscope.exporting.metrics import log_to_mlflow

        typer.echo(log_to_mlflow(loaded))
