"""`energyscope figures RUN [RUN2]`: publication figures of a run, and of two side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import DEFAULT_ROOT, AsJson, Root
from energyscope.cli.output import path_text, split_list
from energyscope.reasons import words as reason_words

if TYPE_CHECKING:
    from energyscope.reporting.print.files import WrittenFigure


@report_errors
@reading_runs
def command(
    run: Annotated[str, typer.Argument(help="A run: its path, its name, or the beginning of its name.")],
    other: Annotated[
        str | None, typer.Argument(metavar="[RUN2]", help="A second run to compare with the first.")
    ] = None,
    *,
    formats: Annotated[
        str, typer.Option("--format", help="png, svg or pdf; several with commas between them.")
    ] = "png",
    dpi: Annotated[int, typer.Option(help="Resolution of PNG files, 72 to 1200.")] = 300,
    theme: Annotated[str, typer.Option(help="paper, light or dark.")] = "paper",
    output: Annotated[
        Path | None, typer.Option(help="Directory to write to; figures/ in the first run by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace figures that are in --output already.")] = False,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Write a run's figures for a paper; with RUN2, a comparison too."""
    from energyscope.errors import RunError
    from energyscope.reporting.print import files
    from energyscope.runs.store import load_run

    names = tuple(dict.fromkeys(split_list(formats.lower())))
    options = files.Options(names, dpi, cast("Any", theme), replace=force or output is None)
    runs = [load_run(name, root) for name in (run, other) if name is not None]
    results = []
    for result in files.write_figures(runs, output or runs[0].path / files.DIRECTORY, options):
        results.append(result)
        if not as_json:
            _say(result, first=result.format in {None, names[0]})
    if as_json:
        typer.echo(json.dumps([_record(result) for result in results], indent=1))
    if not any(result.path for result in results):
        raise RunError(f"no figure can be drawn of {runs[0].name}: the lines above say why")


def _say(result: WrittenFigure, *, first: bool) -> None:
    """Print a file's path; what is missing goes to the other stream, once for each figure."""
    from energyscope.reporting.terminal_text import printable

    if result.path is not None:
        typer.echo(path_text(result.path))
    if result.reason is not None and first:
        left_out = "" if result.path else ": left out"
        typer.echo(f"{result.figure}{left_out}: {printable(reason_words(result.reason))}", err=True)


def _record(result: WrittenFigure) -> dict[str, str | None]:
    path = None if result.path is None else str(result.path)
    reason = None if result.reason is None else reason_words(result.reason)
    return {"figure": result.figure, "path": path, "format": result.format, "reason": reason}
