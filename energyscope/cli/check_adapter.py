"""`energyscope check-adapter`: what a run relies on, checked on a tiny model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyscope.adapter_registry import installed
from energyscope.cli.errors import report_errors
from energyscope.cli.output import draw
from energyscope.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from energyscope.testing import Conformance

_VERDICTS = {True: "passed", False: "FAILED", None: "nothing to check"}


@report_errors
def command(
    adapter: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.py|PACKAGE:ATTRIBUTE|FOLDER",
            help="An installed adapter, where one is, or a model folder: the adapter that serves it.",
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="A small configuration, as config.json has it; default: the family's with small sizes.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--adapter", metavar="NAME", help="With a model folder: this adapter, or auto, by structure."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check an adapter on a tiny model on the CPU.

    Exits with 1 where a check fails, with 2 where there is no such adapter or it cannot be imported.
    """
    from energyscope.testing import check_adapter

    words = None if config is None else _configuration(config)
    if Path(adapter).is_dir() and (name is not None or adapter not in installed()):
        found = check_adapter(*_of_folder(adapter, name, words))
    elif name is not None:
        raise UsageError(f"--adapter requires a model folder, and {adapter!r} is none")
    else:
        found = check_adapter(adapter, words)
    if as_json:
        typer.echo(json.dumps({**asdict(found), "passed": found.passed}, indent=1))
    else:
        draw(lambda _: _text(found))
    if not found.passed:
        raise typer.Exit(1)


def _configuration(file: Path) -> dict[str, Any]:
    try:
        words = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--config {file} cannot be read: {error}") from error
    if not isinstance(words, dict):
        raise UsageError(f"--config {file} holds no object: give what a config.json has")
    return words


def _of_folder(folder: str, name: str | None, config: Any) -> tuple[Any, Any]:
    """Return the adapter that serves a model folder, and the folder's configuration with its sizes cut."""
    import torch

    from energyscope.loading.files import model_files
    from energyscope.loading.options import LoadOptions
    from energyscope.loading.sources import find_model
    from energyscope.testing.conformance.tiny import tiny_configuration

    options = LoadOptions(device=torch.device("cpu"), weights="random", adapter=name)
    with model_files(find_model(folder), options) as files:
        words = _configuration(Path(folder) / "config.json")
        return files.adapter, config or tiny_configuration(files.config.model_type, words)


def _text(found: Conformance) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    model = f" on a tiny {found.model}" if found.model else ""
    table = Table(title=f"The adapter {found.adapter!r}{model}", title_justify="left")
    for column in ("check", "verdict", "detail"):
        table.add_column(column, overflow="fold")
    for check in found.checks:
        table.add_row(*map(Text, (check.name, _VERDICTS[check.passed], check.detail)))
    failed = len(found.problems)
    end = f"{failed} of {len(found.checks)} checks failed" if failed else "no check failed"
    return Group(table, Text(f"{end}, in {found.seconds:.1f} s (what they mean: adapters/README.md)"))
