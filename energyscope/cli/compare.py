"""`energyscope compare RUN RUN [RUN ...]`: how runs differ, as tables, JSON and a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import DEFAULT_ROOT, Root
from energyscope.cli.output import draw, path_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from energyscope.comparison.compare import AnyRun
    from energyscope.comparison.gate import Compared, Excess

TOO_MUCH = 3
# What is compared, and what writes its page, makes its JSON and its answer for a terminal.
Shown = tuple[Any, Callable[..., Path], Callable[..., dict[str, Any]], Callable[..., "RenderableType"]]


@report_errors
@reading_runs
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
            help="Exit with 3 if a whole model (eager: its work) or a server's request takes more energy than the "
            "baseline by more than this, such as 5%.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the page [default: ROOT/comparisons/A-vs-B.html].")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no page.")] = False,
    root: Root = DEFAULT_ROOT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; a page only with --report.")] = False,
) -> None:
    """Print how runs differ from a baseline, and draw a page of that."""
    from energyscope.comparison.gate import allowed
    from energyscope.errors import RunError, UsageError

    if report and no_report:
        raise UsageError("--report and --no-report exclude each other: give one of them")
    if len([*runs, *([baseline] if baseline else [])]) < 2:
        raise UsageError("compare needs at least two runs: energyscope compare RUN RUN")
    limit = None if fail_if_more_than is None else allowed(fail_if_more_than)
    shown = _servers if _are_servers([*([baseline] if baseline else []), *runs], root) else _models
    source, writes, record, answer = shown(runs, baseline, root)
    page = unwritten = None
    if report or not (no_report or as_json):
        from energyscope.reporting.comparison.page import default_path

        try:
            path = writes(source, report or default_path([run.name for run in source.runs], root))
            page = path_text(path, sys.stderr if as_json else sys.stdout)
        except RunError as error:  # what was compared is printed all the same
            unwritten = error
    if as_json:
        typer.echo(json.dumps(record(source), indent=1, default=str))
        if page:
            typer.echo(f"report: {page}", err=True)
    else:
        draw(lambda width: answer(source, width, page))
    too_much = limit is not None and _is_too_much(source.comparison, limit)
    if unwritten is not None:
        raise unwritten
    if too_much:
        raise typer.Exit(TOO_MUCH)


def _is_too_much(comparison: Compared, limit: float) -> bool:
    """Whether a run takes more than is allowed, or cannot be judged; prints which."""
    from energyscope.comparison.gate import exceeding
    from energyscope.reporting.terminal_text import printable

    excesses = exceeding(comparison, limit)
    for excess in excesses:
        typer.echo(printable(_excess_line(excess, comparison.baseline)), err=True)
    return bool(excesses)


def _are_servers(references: list[str], root: Path) -> bool:
    """Whether all runs are of servers, and not none."""
    from energyscope.errors import UsageError
    from energyscope.runs.store import find_to_read
    from energyscope.serving.run import is_serving

    paths = [find_to_read(reference, root) for reference in references]
    of_servers = [path for path in paths if is_serving(path)]
    if of_servers and len(of_servers) < len(paths):
        raise UsageError(f"{of_servers[0]} is of a server: compare it with another of a server")
    return bool(of_servers)


def _models(references: list[str], baseline: str | None, root: Path) -> Shown:
    """Return runs of models, and what writes their page, makes their JSON and their answer."""
    from energyscope.reporting.comparison.page import write_comparison
    from energyscope.reporting.comparison.source import ComparedRuns
    from energyscope.reporting.comparison.terminal import answer_of, record
    from energyscope.runs.store import load_run

    return ComparedRuns.of(_load(references, baseline, root, load_run)), write_comparison, record, answer_of


def _servers(references: list[str], baseline: str | None, root: Path) -> Shown:
    """Return the same of measured servers."""
    from energyscope.reporting.serving.comparison import ComparedServers
    from energyscope.reporting.serving.comparison_page import (
        served_answer,
        served_record,
        write_served_comparison,
    )
    from energyscope.serving.run import load_serving

    source = ComparedServers.of(_load(references, baseline, root, load_serving))
    return source, write_served_comparison, served_record, served_answer


def _excess_line(excess: Excess, baseline: str) -> str:
    from energyscope import format as fmt

    where = f" ({excess.at})" if excess.at else ""
    return (
        f"{excess.run}: {excess.item.name}{where} is {fmt.quantity(excess.share, 'share')} more than {baseline}'s"
    )


def _load(
    references: list[str], baseline: str | None, root: Path, load: Callable[[str, Path], AnyRun]
) -> list[AnyRun]:
    """Read the runs, the baseline first."""
    from energyscope.errors import UsageError

    loaded: list[AnyRun] = [load(reference, root) for reference in ([baseline] if baseline else []) + references]
    if baseline:
        first = loaded[0].path.resolve()
        loaded = loaded[:1] + [run for run in loaded[1:] if run.path.resolve() != first]
    if len(loaded) < 2:
        raise UsageError("the baseline is the only run: name another one to compare with it")
    paths = [run.path.resolve() for run in loaded]
    if len(paths) > 2 and len(set(paths)) < len(paths):  # one with itself shows that nothing differs
        raise UsageError("a run is given twice among several: name each once")
    return loaded
