"""`energyscope show RUN|SWEEP`: the tables of a run, or of a sweep, in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import DEFAULT_ROOT, Carbon, Price, Rate, Root, budget_of, without_budget
from energyscope.cli.output import draw
from energyscope.errors import UsageError
from energyscope.reporting.terminal_text import print_table


@report_errors
@reading_runs
def command(
    run: Annotated[str, typer.Argument(help="A run (its path, its name, or the beginning of it), or a sweep.")],
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="One table in full: summary, blocks, energy, changes, impact, trust and others (an unknown name "
            "lists all) [default: the answer and the main tables].",
        ),
    ] = None,
    price: Price = None,
    carbon: Carbon = None,
    rate: Rate = None,
    root: Root = DEFAULT_ROOT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with raw numbers.")] = False,
) -> None:
    """Print a run's answer and main tables, or one table in full (in a pipe: tab-separated).

    With --price, --carbon or --rate, also what tokens or requests take in kWh, money and CO2e; the run stays as it
    is (`energyscope report` keeps them with it).
    """
    from rich.console import Console

    from energyscope.reporting.run.budget import priced
    from energyscope.reporting.run.terminal import record, show
    from energyscope.runs.store import find_to_read, load_run
    from energyscope.runs.sweeps import is_sweep
    from energyscope.serving.run import is_serving

    budget = budget_of(price, carbon, rate)
    sweep = next((path for path in (Path(run), root / run) if is_sweep(path)), None)
    path = sweep or find_to_read(run, root)
    if sweep is not None or is_serving(path):
        if budget:
            raise without_budget(run)
        (_show_server if sweep is None else _show_sweep)(path, table, as_json=as_json)
        return
    if budget and table not in {None, "summary", "budget"}:
        raise UsageError(f"--price, --carbon and --rate change the table budget alone: leave out --table {table}")
    loaded = priced(load_run(path), budget) if budget else load_run(path)
    if as_json:
        typer.echo(json.dumps(record(loaded, table), indent=1, default=str))
    else:
        show(loaded, Console(), table)


def _show_server(path: Path, table: str | None, *, as_json: bool) -> None:
    """Print what requests cost on a server, or one table in full."""
    from rich.console import Console

    from energyscope.reporting.serving.served import Server
    from energyscope.reporting.serving.terminal import serving_text, table_of
    from energyscope.runs.locks import is_being_written
    from energyscope.runs.schema import SERVING_JSON

    if not (path / SERVING_JSON).is_file() and not is_being_written(path):
        from energyscope.stages.serving import recover

        recover(path)
    server = Server.load(path)
    if as_json:
        named = None if table is None else table_of(server, table)
        typer.echo(json.dumps(server.document if named is None else named.records(), indent=1))
    elif table is None:
        draw(lambda width: serving_text(server, width))
    else:
        print_table(table_of(server, table), Console(), modelled=server.run.modelled)


def _show_sweep(path: Path, table: str | None, *, as_json: bool) -> None:
    """Print a sweep's cells and the gist of its laws."""
    from energyscope.reporting.scaling.sweep import sweep_text
    from energyscope.runs.sweeps import load_sweep, sweep_rows

    if table is not None:
        raise UsageError(f"--table {table} is of a run: name one of the runs in {path}")
    sweep = load_sweep(path)
    if as_json:
        typer.echo(json.dumps(sweep_rows(sweep), indent=1))
    else:
        draw(lambda width: sweep_text(sweep, width))
