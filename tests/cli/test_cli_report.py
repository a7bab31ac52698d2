"""`energyscope report`: what it prints, and what it leaves alone."""

from __future__ import annotations

import errno
import fcntl
import json
from contextlib import ExitStack

import pytest
import typer
from run_builder import Shape, build_run
from typer.testing import CliRunner

from energyscope.cli import report
from energyscope.reporting.html import write_report
from energyscope.runs.store import RunStore, read_document
from energyscope.runs.writing import writing


@pytest.fixture
def run(tmp_path):
    return build_run(tmp_path / "first").path


def call(root, *arguments):
    app = typer.Typer()
    app.command(report.NAME)(report.command)
    return CliRunner().invoke(app, [*arguments, "--root", str(root)])


def stages(path):
    return {name: stage["state"] for name, stage in read_document(path)["stages"].items()}


def test_the_path_is_printed(run):
    """GIVEN a run, THEN its page is written, its path is the output, and the run says that it has a report."""
    done = call(run.parent, "first", "--quiet")
    assert (done.exit_code, done.stdout) == (0, f"{run / 'report.html'}\n")
    assert stages(run)["report"] == "done"


def test_json_says_what_was_drawn(tmp_path):
    """GIVEN --json, THEN one document holds path, size, figures, and why other stages have nothing to show."""
    run = build_run(tmp_path / "first", Shape(impact=False)).path
    done = call(run.parent, "first", "--json")
    found = json.loads(done.stdout)
    page = run / "report.html"
    assert (found["path"], found["bytes"], found["state"]) == (str(page), page.stat().st_size, "done")
    assert "energy-by-kind" in found["figures"]
    assert "profile" not in found["missing"]
    assert found["missing"]["ablate"] == "The ablate stage was skipped: the weights are random."


def test_a_run_that_is_still_going_is_shown_and_left_alone(run):
    """GIVEN a run that a process writes to, THEN its page is of what there is, and run.json stays."""
    RunStore.open(run).stage("ablate", "running")
    before = (run / "run.json").read_bytes()
    tables = sorted(path.name for path in run.iterdir())
    with writing(run):
        done = call(run.parent, "first")
    assert done.exit_code == 0, done.output
    assert "still going" in done.stderr
    assert done.stdout.splitlines()[-1] == str(run / "report.html")
    assert (run / "run.json").read_bytes() == before
    assert sorted({*tables, "journal.jsonl", "report.html"}) == sorted(path.name for path in run.iterdir())
    page = (run / "report.html").read_text()
    assert "INCOMPLETE RUN" in page
    assert "the run was still going when this page was made" in page
    assert "as far as it was measured when this page was made" in page
    assert "as they were written" not in page
    with writing(run):
        assert json.loads(call(run.parent, "first", "--json").stdout)["state"] == "running"


@pytest.mark.parametrize("ends", [True, False])
def test_a_run_that_ends_meanwhile_keeps_the_page_of_its_end(run, monkeypatch, ends):
    """GIVEN a run that ends, or writes its page, while one of a copy is made, THEN the last page is complete."""
    RunStore.open(run).stage("ablate", "running")
    with ExitStack() as mark:
        mark.enter_context(writing(run))
        rendered = report._rendered

        def meanwhile(store, recovered, **options):
            found = rendered(store, recovered, **options)
            if read_document(run)["stages"]["ablate"]["state"] == "running":
                store = RunStore.open(run)
                store.stage("ablate", "done")
                store.stage("report", "done")
                write_report(run)
                if ends:
                    mark.close()
            return found

        monkeypatch.setattr(report, "_rendered", meanwhile)
        done = call(run.parent, "first")
    assert done.exit_code == 0, done.output
    page = (run / "report.html").read_text()
    assert "INCOMPLETE RUN" not in page
    assert "as they were written" in page
    assert "still going" not in done.stderr


def test_a_run_that_was_killed_has_no_stage_called_done(run):
    """GIVEN a stage called running that nobody measures, THEN a page, and no report stage in the run."""
    store = RunStore.open(run)
    store.document["stages"].pop("report", None)
    store.stage("ablate", "running")
    done = call(run.parent, "first")
    assert done.exit_code == 0
    assert "the run was broken off" in done.stderr
    assert "still going" not in done.output
    assert json.loads(call(run.parent, "first", "--json").stdout)["state"] == "broken off"
    assert "report" not in stages(run)
    assert "The ablate stage has not finished" in (run / "report.html").read_text()


def test_a_run_of_which_nobody_can_tell_is_left_alone(run, monkeypatch):
    """GIVEN a file system without locks, THEN an unfinished run is not called either way, nor changed."""
    RunStore.open(run).stage("ablate", "running")
    (run / "journal.jsonl").touch()
    before = (run / "run.json").read_bytes()
    monkeypatch.setattr(fcntl, "flock", without_locks)
    done = call(run.parent, "first")
    assert done.exit_code == 0, done.output
    assert "cannot be told" in done.stderr
    assert (run / "run.json").read_bytes() == before
    page = (run / "report.html").read_text()
    assert "whether the run was still going when this page was made" in page
    assert "INCOMPLETE RUN" in page
    assert json.loads(call(run.parent, "first", "--json").stdout)["state"] == "running or broken off"


def test_a_finished_run_needs_no_locks(run, monkeypatch):
    """GIVEN a file system without locks, THEN a run whose stages all ended is rendered as ever."""
    (run / "journal.jsonl").touch()
    monkeypatch.setattr(fcntl, "flock", without_locks)
    done = call(run.parent, "first")
    assert (done.exit_code, done.stderr) == (0, "")
    assert stages(run)["report"] == "done"


def test_a_journal_that_cannot_be_read_is_one_line(run):
    """GIVEN an unfinished run whose journal cannot be opened, THEN the complaint names it, and no bug."""
    RunStore.open(run).stage("ablate", "running")
    (run / "journal.jsonl").symlink_to("journal.jsonl")
    done = call(run.parent, "first")
    assert done.exit_code == 1
    assert "cannot be read" in done.stderr
    assert "internal error" not in done.stderr


def without_locks(_file, _how):
    raise OSError(errno.ENOLCK, "no locks")
