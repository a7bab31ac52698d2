"""A run in the formats of other tools, each in a module of its own that has `content`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from energyscope.errors import RunError, UsageError, did_you_mean
from energyscope.runs.examples import is_example
from energyscope.runs.files import write_text
from energyscope.runs.store import DEFAULT_ROOT, Run, find_to_read, load_run

if TYPE_CHECKING:
    from energyscope.serving.run import ServingRun

FORMATS = {  # and the file in the run's folder; its module has the name of the format
    "perfetto": "perfetto.json",
    "speedscope": "speedscope.json",
    "collapsed": "stacks.collapsed",
    "metrics": "metrics.json",
    "model-card": "model-card.md",
    "parquet": "{table}.parquet",
}
OF_SERVERS = ("metrics", "model-card", "parquet")
COMPONENTS = "components"  # the table that Parquet holds by default


@dataclass(frozen=True)
class Exported:
    """A file that was written, and what it lacks, a sentence each."""

    path: Path
    notes: Sequence[str] = ()


def export(
    run: Run | ServingRun | str | Path,
    format: str,  # noqa: A002 - what everybody calls it
    output: str | Path | None = None,
    *,
    force: bool = False,
    table: str | None = None,
    root: Path = DEFAULT_ROOT,
) -> Exported:
    """Write a run as a file that another tool reads, and return it.

    Args:
        run: as `load_run` returns it, or its path, name, or the beginning of its name.
        format: perfetto, speedscope, collapsed, metrics, model-card or parquet.
        output: the file; None: one in the run's folder, named after the format.
        force: replace a file that is there.
        table: of parquet: components (the default), or another table of the run.
        root: where names of runs are looked for.

    Raises:
        UsageError: no such format or table, a file that is there, or one that cannot be written.
        RunError: the run cannot be read, or has nothing that the format holds.

    """
    if format not in FORMATS:
        raise UsageError(f"no format {format!r}{did_you_mean(format, FORMATS)}")
    if table is not None and format != "parquet":
        raise UsageError(f"--table is for parquet, and not for {format}: leave it out")
    loaded = opened(run, root, format)
    folder = Path() if is_example(loaded.path) else loaded.path  # an example lies in the installed package
    default = folder / FORMATS[format].format(table=table or COMPONENTS)
    path = default if output is None else Path(output)
    _check_free(path, force=force)
    module = importlib.import_module(f"energyscope.exporting.{format.replace('-', '_')}")
    notes: Sequence[str] = ()
    try:
        if format == "parquet":
            module.write(loaded, table or COMPONENTS, path)
        else:
            text, notes = module.content(loaded)
            write_text(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror or error}): choose another --output") from error
    return Exported(path, notes)


def opened(run: Run | ServingRun | str | Path, root: Path, format: str) -> Run | ServingRun:  # noqa: A002
    """Return a run, of a model or of a server, that is to be exported.

    Raises:
        RunError: it cannot be read.
        UsageError: it is of a server, and the format is for models alone.

    """
    from energyscope.serving.run import ServingRun, is_serving, load_serving

    if isinstance(run, str | Path):
        path = find_to_read(run, root)
        run = load_serving(path) if is_serving(path) else load_run(path)
    if isinstance(run, ServingRun) and format not in OF_SERVERS:
        raise UsageError(f"{run.path} is of a server, which has no {format}: choose of {', '.join(OF_SERVERS)}")
    return run


def nothing(run: Run | ServingRun, what: str, option: str = "--format") -> RunError:
    """Return the error of a run that holds nothing of what a format or a table shows."""
    return RunError(f"{run.path} has no {what}: choose another {option}")


def _check_free(path: Path, *, force: bool) -> None:
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file: choose another --output")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists already: choose another --output, or replace it with --force")
