"""`energyscope report RUN|SWEEP|LAWS`: render a run or laws again, without measuring and without fitting."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.options import (
    DEFAULT_ROOT,
    Carbon,
    Price,
    QuietPath,
    Rate,
    Root,
    budget_of,
    without_budget,
)
from energyscope.cli.output import path_text
from energyscope.errors import RunError
from energyscope.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from energyscope.runs.store import RunStore

RUNNING, BROKEN_OFF, EITHER = "running", "broken off", "running or broken off"
STATE_WORDS = {
    RUNNING: "the run is in progress: the page shows what was measured so far",
    BROKEN_OFF: "the run was interrupted: the page shows what was measured",
    EITHER: "the run may be in progress (its file system has no locks): the page shows what was measured so far",
}


@dataclass(frozen=True)
class Rendered:
    """A page: its size, the state of what it shows, its figures, and the options that measure missing sections.

    Of a run with a stage that began and did not end, ``state`` is ``running`` while a process writes to it,
    ``broken off`` where none does, and ``running or broken off`` where that is unknown.
    """

    path: str
    bytes: int
    state: str = "done"
    figures: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    recovered: list[str] = field(default_factory=list)


@report_errors
@reading_runs
def command(
    run: Annotated[
        str, typer.Argument(help="A run (its path, its name, or the beginning of it), a sweep, or laws.")
    ],
    root: Root = DEFAULT_ROOT,
    price: Price = None,
    carbon: Carbon = None,
    rate: Rate = None,
    quiet: QuietPath = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: the path, and what was drawn.")] = False,
) -> None:
    """Render the page of a run, a sweep or laws again.

    Nothing is measured. The page of a run in progress shows what was measured so far, and leaves the run as it is.
    Money and CO2e are of runs of models; they are kept with the run.
    """
    from energyscope.runs.laws import find_laws

    budget = budget_of(price, carbon, rate)
    laws, served = find_laws(run, root), None
    if not laws:
        served = _of_server(run, root)
    if budget and (laws or served):
        raise without_budget(run)
    if laws:
        from energyscope.reporting.scaling.page import write_laws_page

        written = write_laws_page(laws)
        page = Rendered(str(written), written.stat().st_size)
    elif served:
        page = _server_page(served)
    else:
        page = _run_page(run, root, budget, drawn=as_json)
    if as_json:
        typer.echo(json.dumps(asdict(page), indent=1))
        return
    for name in [] if quiet else page.recovered:
        typer.echo(f"recovered {name} from the journal")
    if page.state in STATE_WORDS and not quiet:
        typer.echo(STATE_WORDS[page.state], err=True)
    typer.echo(path_text(page.path))


def _of_server(run: str, root: Path) -> Path | None:
    """Return the directory of a run, where that is of a server."""
    from energyscope.runs.store import find_run
    from energyscope.serving.run import is_serving

    path = find_run(run, root)
    return path if is_serving(path) else None


def _server_page(path: Path) -> Rendered:
    """Render the page of a measured server; what a killed one had measured is written first."""
    from energyscope.reporting.serving.page import write_serving_page
    from energyscope.runs.locks import is_being_written
    from energyscope.stages.serving import recover

    if is_being_written(path):
        raise RunError(f"{path} is being measured: its page is drawn at its end")
    recover(path)
    written = write_serving_page(path)
    return Rendered(str(written), written.stat().st_size)


def _run_page(run: str, root: Path, budget: Mapping[str, float], *, drawn: bool) -> Rendered:
    """Render a run's page; with ``drawn``, find out what is in it as well."""
    from energyscope.runs.store import RunStore, find_run
    from energyscope.stages.registry import recover

    path = find_run(run, root)
    if not os.access(path, os.W_OK):
        copy = f"cp -r {shlex.quote(str(path))} COPY"
        raise RunError(f"{path} cannot be written, where its page goes: `{copy}`, then `energyscope report COPY`")
    while _may_be_written(path):
        if budget:
            raise RunError(f"{path} may be being measured: give --price, --carbon and --rate once it is done")
        page = _page_of_a_copy(path, drawn=drawn)
        if page is not None:
            return page
    store = RunStore.open(path)
    if budget:
        store.update(settings={**(store.document.get("settings") or {}), **budget})
    recovered = recover(store)
    report = store.document.get("stages", {}).get("report", {})
    if report.get("state") != "done" and not _unfinished(store.document):  # else it was killed
        store.stage("report", "done")  # the page says so of itself
    page = _rendered(store, recovered, drawn=drawn)
    return replace(page, state=BROKEN_OFF) if page.state == RUNNING else page


def _may_be_written(path: Path) -> bool:
    """Tell whether another process writes to a run, or may do so: a stage did not end."""
    from energyscope.runs.locks import is_being_written
    from energyscope.runs.store import read_document

    written = is_being_written(path)
    return _unfinished(read_document(path)) if written is None else written


def _unfinished(document: Mapping[str, Any]) -> bool:
    """Tell whether a stage began, and nothing says how it ended."""
    return any(stage.get("state") == RUNNING for stage in document.get("stages", {}).values())


def _page_of_a_copy(path: Path, *, drawn: bool) -> Rendered | None:
    """Render the page of a run that is, or may be, being measured; its files belong to whoever measures it.

    None, and nothing written, where that process ended meanwhile, or wrote a page itself, which is more complete.
    """
    from energyscope.runs.files import write_bytes
    from energyscope.runs.locks import is_being_written
    from energyscope.runs.schema import REPORT_FILE
    from energyscope.runs.store import RunStore
    from energyscope.stages.registry import recover

    before, state = _version(path / REPORT_FILE), RUNNING if is_being_written(path) else EITHER
    with tempfile.TemporaryDirectory() as place:
        try:
            store = RunStore.open(_copied(path, Path(place)))
        except RunError:  # it ended meanwhile, and its journal was compressed
            if _may_be_written(path):
                raise
            return None
        recovered = recover(store)
        going = _is_going(store)
        code, now = (
            "still-running" if state == RUNNING else "maybe-running",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        )
        for name, stage in list(store.document.get("stages", {}).items()):
            if stage.get("state") == RUNNING:
                store.stage(name, RUNNING, reason=reason(code, at=now))
        page = _rendered(store, recovered, drawn=drawn)
        if not _may_be_written(path) or _version(path / REPORT_FILE) != before:
            return None
        write_bytes(path / REPORT_FILE, Path(page.path).read_bytes())
    return replace(page, path=str(path / REPORT_FILE), state=state if going else page.state)


def _copied(path: Path, place: Path) -> Path:
    """Copy what a page is made of, and return the copy."""
    from energyscope.runs.schema import REPORT_FILE

    try:
        return shutil.copytree(
            path, place / path.name, symlinks=True, ignore=shutil.ignore_patterns(REPORT_FILE, "figures", ".*")
        )
    except shutil.Error as error:
        raise RunError(f"{path} cannot be read: {error.args[0][0][2]}") from error


def _is_going(store: RunStore) -> bool:
    """Tell whether stages of a run are still to come, if its process lives."""
    states = {name: stage.get("state") for name, stage in store.document.get("stages", {}).items()}
    return RUNNING in states.values() or states.get("report") not in {"done", "skipped"}


def _version(file: Path) -> tuple[int, int] | None:
    """Return what changes whenever a file is written anew; None where there is none."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _rendered(store: RunStore, recovered: list[str], *, drawn: bool) -> Rendered:
    from energyscope.reporting.run.answer import Answer
    from energyscope.reporting.run.page import write_report
    from energyscope.reporting.run.report import RUN, Report
    from energyscope.reporting.section import figures
    from energyscope.runs.store import load_run
    from energyscope.runs.summary import state

    written = write_report(store.path)
    report = Report(load_run(store.path))
    shown = RUN.shown(report) if drawn else []
    return Rendered(
        str(written),
        written.stat().st_size,
        state(store.document),
        [figure.name for figure in (*Answer(report).figures, *figures(shown))] if drawn else [],
        RUN.missing(report, shown) if drawn else {},
        recovered,
    )
