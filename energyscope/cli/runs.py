"""`energyscope runs`: what has been measured; its tags and notes, and removing and archiving it."""

from __future__ import annotations

import json
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from energyscope.cli.errors import report_errors
from energyscope.cli.options import DEFAULT_ROOT, AsJson, Root, is_given
from energyscope.errors import RunError, UsageError
from energyscope.runs.store import ARCHIVE

if TYPE_CHECKING:
    from energyscope.runs.index import Indexed

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None, add_completion=False)
Names = Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs, sweeps or laws.")]
Name = Annotated[str, typer.Argument(metavar="RUN", help="A run.")]


@app.callback()
@report_errors
def command(
    context: typer.Context,
    *,
    model: Annotated[str | None, typer.Option(help="Only runs whose model's name holds this.")] = None,
    device: Annotated[str | None, typer.Option(help="Only runs on a device whose name holds this.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only runs from a date on, as 2026-11-28 (UTC).")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Only runs before a date (UTC).")] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with a tag.")] = None,
    last: Annotated[
        int, typer.Option(metavar="N", min=1, help="On a terminal: this many runs, the latest ones.")
    ] = 50,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """List runs, then sweeps and laws, oldest first; tag, remove or archive them."""
    if context.invoked_subcommand is not None:
        for name in ("model", "device", "since", "before", "tag", "last", "as_json"):
            if is_given(context, name):
                option = "--json" if name == "as_json" else f"--{name}"
                raise UsageError(
                    f"{option} is of the list: `energyscope runs {context.invoked_subcommand}` has none"
                )
        context.default_map = {context.invoked_subcommand: {"root": str(root)}}
        return
    from energyscope.reporting.listing import Filters, list_of_runs, summaries
    from energyscope.reporting.terminal_text import printable

    since, before = _date("--since", since), _date("--before", before)
    chosen = list_of_runs(root, Filters(model, device, since, before, tag))
    for flaw in (run.flaw for run in chosen if run.flaw):
        typer.echo(f"energyscope: {printable(flaw)}", err=True)
    runs = sorted((run for run in chosen if not run.flaw), key=lambda run: str(run.entry.get("created") or ""))
    if as_json:
        lines = ",\n ".join(map(json.dumps, summaries(runs)))  # with an indent, json takes ten times as long
        typer.echo(f"[{lines}]")
        return
    _print(runs, root, last, {run.path.name for run in chosen}, filtered=any((model, device, since, before, tag)))


def _date(option: str, text: str | None) -> str | None:
    """Return a date, or a date and time, as run.json has them."""
    try:
        return None if text is None else datetime.fromisoformat(text).strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError as error:
        raise UsageError(f"{option} {text!r} is no date: write it as 2026-11-28") from error


def _print(runs: list[Indexed], root: Path, last: int, names: set[str], *, filtered: bool) -> None:
    """Print the runs and, where nothing is filtered, sweeps and laws; tab-separated where that is no terminal."""
    from rich.console import Console

    from energyscope.reporting.listing import collections_table, runs_table
    from energyscope.reporting.terminal_text import print_table, printable

    console = Console()
    tables = []
    if console.is_terminal:
        tables.append(runs_table(runs[-last:], more=max(len(runs) - last, 0)))
    else:
        tables.append(runs_table(runs))
    if not filtered:
        tables.append(collections_table(root, leave=names))
    if not any(tables):
        few = (
            "no run fits" if filtered else f"no runs in {printable(root)}/: `energyscope run tiny-gpt2` makes one"
        )
        typer.echo(few)
    for table in filter(None, tables):
        print_table(table.filled(), console)


@app.command("tag")
@report_errors
def tag_run(
    run: Name,
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="Its tags, in place of those that it has.")],
    root: Root = DEFAULT_ROOT,
) -> None:
    """Give a run tags."""
    _update(run, root, tags=list(dict.fromkeys(tags)))


@app.command("note")
@report_errors
def note_run(
    run: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The note; an empty one removes it.")],
    root: Root = DEFAULT_ROOT,
) -> None:
    """Keep a note with a run."""
    _update(run, root, note=text or None)


def _update(run: str, root: Path, **sections: object) -> None:
    from energyscope.runs.locks import write_lock
    from energyscope.runs.store import RunStore, find_run

    path = find_run(run, root)
    with write_lock(path):
        RunStore.open(path).update(**sections)


@app.command("rm")
@report_errors
def remove_runs(
    runs: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    root: Root = DEFAULT_ROOT,
) -> None:
    """Remove runs, sweeps or laws."""
    from energyscope.reporting.terminal_text import printable
    from energyscope.runs.archive import held, remove

    with held(runs, root) as paths:
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("nobody can be asked here: add --yes to remove them")
            typer.confirm(printable(f"Remove {', '.join(map(str, paths))}?"), abort=True)
        for path in paths:
            remove(path)
            typer.echo(f"removed {printable(path)}")


@app.command("archive")
@report_errors
def archive_runs(
    runs: Names,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where archives go [default: archive, below the root].")
    ] = None,
    root: Root = DEFAULT_ROOT,
) -> None:
    """Pack runs, sweeps or laws into one file each, and remove their directories."""
    from energyscope.reporting.terminal_text import printable
    from energyscope.runs.archive import held, pack, remove

    with held(runs, root) as paths:
        for path in paths:
            try:
                file = pack(path, to or root / ARCHIVE)
            except OSError as error:
                raise RunError(f"{path} cannot be packed ({error}): it is as it was") from error
            try:
                remove(path)
            except OSError as error:
                raise RunError(f"{file} holds {path}, which cannot be removed ({error})") from error
            back = f"tar xzf {shlex.quote(str(file))} -C {shlex.quote(str(path.parent))}"
            typer.echo(printable(f"{file}; back with `{back}`"))
