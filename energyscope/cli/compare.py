"""`energyscope compare RUN RUN [RUN ...]`: how runs differ, as tables, JSON and a page."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyscope.cli.guard import guarded
from energyscope.cli.words import path_said

if TYPE_CHECKING:
    from energyscope.runs.store import Run

NAME = "compare"
TOO_MUCH = 3


@guarded
def command(
    runs: Annotated[list[str], typer.Argument(help="Two runs or more: paths, names, or beginnings of names.")],
    *,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="The run that all others are compared with [default: the first]."),
    ] = None,
    fail_if_more_than: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="Exit with 3 if a whole model takes more energy than the baseline by more than this, such as 5%.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the page [default: ROOT/comparisons/A-vs-B.html].")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no page.")] = False,
    root: Annotated[Path, typer.Option(help="Where run directories are.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; a page only with --report.")] = False,
) -> None:
    """Print how runs differ from a baseline, and write a page of it."""
    from rich.console import Console

    from energyscope.errors import UsageError
    from energyscope.reporting.terminal_compare import comparison_table
    from energyscope.reporting.terminal_text import Harmless, printable
    from energyscope.runs.compare import compare
    from energyscope.runs.compare_gate import allowed, exceeding

    if report and no_report:
        raise UsageError("--report and --no-report exclude each other: give one of them")
    limit = None if fail_if_more_than is None else allowed(fail_if_more_than)
    loaded = _load(runs, baseline, root)
    comparison = compare(loaded)
    if as_json:
        typer.echo(json.dumps(asdict(comparison), indent=1, default=str))
    else:
        Console().print(Harmless(comparison_table(comparison)))
    if report or not (no_report or as_json):
        from energyscope.reporting.compare_page import default_path, write_comparison

        written = write_comparison(loaded, report or default_path([run.name for run in loaded], root), comparison)
        said = path_said(written, sys.stderr if as_json else sys.stdout)
        typer.echo(f"report: {said}", err=as_json)
    if limit is not None and (found := exceeding(comparison, limit)):
        for sentence in found:
            typer.echo(printable(sentence), err=True)
        raise typer.Exit(TOO_MUCH)


def _load(references: list[str], baseline: str | None, root: Path) -> list[Run]:
    """Read the runs, the baseline first; names that tell them apart.

    Raises:
        UsageError: fewer than two runs, or one of them twice.

    """
    from energyscope.errors import UsageError
    from energyscope.runs.compare_names import told_apart
    from energyscope.runs.store import load_run

    few = UsageError("compare needs two runs or more: `energyscope runs` lists them")
    if len(references) + bool(baseline) < 2:
        raise few
    loaded = [load_run(reference, root) for reference in ([baseline] if baseline else []) + references]
    if baseline:
        first = loaded[0].path.resolve()
        loaded = [loaded[0], *(run for run in loaded[1:] if run.path.resolve() != first)]
    if len(loaded) < 2:
        raise few
    paths = [run.path.resolve() for run in loaded]
    if len(paths) > 2 and len(set(paths)) < len(paths):  # one with itself shows that nothing differs
        raise UsageError("a run is given twice among several: name each once")
    return told_apart(loaded)
