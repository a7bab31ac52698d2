"""`energyscope report`: what it prints, and what it leaves alone."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from contextlib import ExitStack

import pytest
import typer
from run_builder import Shape, build_run
from typer.testing import CliRunner

from energyscope.cli import report
from energyscope.reasons import WORDS
from energyscope.reporting.run.page import write_report
from energyscope.runs.locks import write_lock
from energyscope.runs.store import RunStore, read_document


@pytest.fixture
def run(tmp_path):
    """A run with a small page, which is soon drawn."""
    return build_run(tmp_path / "first", Shape(layers=1, granularity="coarse", impact=False)).path


def call(root, *arguments):
    app = typer.Typer()
    app.command()(report.command)
    return CliRunner().invoke(app, [*arguments, "--root", str(root)])


def alerts(run):
    return " ".join(re.findall(r'<p class="alert">([^<]*)', (run / "report.html").read_text()))


def stages(path):
    return {name: stage["state"] for name, stage in read_document(path)["stages"].items()}


def test_the_path_is_printed(run):
    """GIVEN a run, THEN its page is written, its path is the output, and the run says that it has a report."""
    done = call(run.parent, "first", "--quiet")
    assert (done.exit_code, done.stdout) == (0, f"{run / 'report.html'}\n")
    assert stages(run)["report"] == "done"


def test_json_says_what_was_drawn(tmp_path):
    """GIVEN --json, THEN one document holds path, size, figures, and which options measure what is missing."""
    run = build_run(tmp_path / "first", Shape(impact=False)).path
    done = call(run.parent, "first", "--json")
    record = json.loads(done.stdout)
    page = run / "report.html"
    assert (record["path"], record["bytes"], record["state"]) == (str(page), page.stat().st_size, "done")
    assert "energy-blocks" in record["figures"]
    assert "energy" not in record["missing"]
    assert record["missing"]["quality"] == "--stages ablate,correlate"


def test_a_run_that_is_still_going_is_shown_and_left_alone(run):
    """GIVEN a run that a process writes to, THEN its page is of what there is, and run.json stays."""
    RunStore.open(run).stage("ablate", "running")
    before = (run / "run.json").read_bytes()
    tables = sorted(path.name for path in run.iterdir())
    with write_lock(run):
        done = call(run.parent, "first")
    assert done.exit_code == 0, done.output
    assert report.STATE_WORDS[report.RUNNING] in done.stderr
    assert done.stdout.splitlines()[-1] == str(run / "report.html")
    assert (run / "run.json").read_bytes() == before
    assert sorted({*tables, "report.html"}) == sorted(path.name for path in run.iterdir())
    assert WORDS["still-running"].partition("{")[0] in alerts(run)
    with write_lock(run):
        assert json.loads(call(run.parent, "first", "--json").stdout)["state"] == "running"


@pytest.mark.parametrize("ends", [True, False])
def test_a_run_that_ends_meanwhile_keeps_the_page_of_its_end(run, monkeypatch, ends):
    """GIVEN a run that ends, or writes its page, while one of a copy is made, THEN the last page is complete."""
    RunStore.open(run).stage("ablate", "running")
    with ExitStack() as mark:
        mark.enter_context(write_lock(run))
        rendered = report._rendered

        def meanwhile(store, recovered, **options):
            page = rendered(store, recovered, **options)
            if read_document(run)["stages"]["ablate"]["state"] == "running":
                store = RunStore.open(run)
                store.stage("ablate", "done")
                store.stage("report", "done")
                write_report(run)
                if ends:
                    mark.close()
            return page

        monkeypatch.setattr(report, "_rendered", meanwhile)
        done = call(run.parent, "first")
    assert done.exit_code == 0, done.output
    assert alerts(run) == ""
    assert report.STATE_WORDS[report.RUNNING] not in done.stderr


def test_a_run_that_ends_while_it_is_copied_is_drawn_as_it_ended(run, monkeypatch):
    """GIVEN a run whose journal is compressed under the hands of `report`, THEN the page is that of its end."""
    RunStore.open(run).stage("ablate", "running")
    with ExitStack() as mark:
        mark.enter_context(write_lock(run))

        def vanishing(*_arguments, **_options):
            store = RunStore.open(run)
            store.stage("ablate", "done")
            store.compress_journal()
            mark.close()
            raise shutil.Error([(str(run / "journal.jsonl"), "", "No such file or directory")])

        monkeypatch.setattr(shutil, "copytree", vanishing)
        done = call(run.parent, "first", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["state"] == "done"
    assert not (run / "journal.jsonl").exists()


def test_a_run_that_was_killed_has_no_stage_called_done(run):
    """GIVEN a stage called running that nobody measures, THEN a page, and no report stage in the run."""
    store = RunStore.open(run)
    store.document["stages"].pop("report", None)
    store.stage("ablate", "running")
    done = call(run.parent, "first")
    assert done.exit_code == 0
    assert done.stderr.strip() == report.STATE_WORDS[report.BROKEN_OFF]
    assert json.loads(call(run.parent, "first", "--json").stdout)["state"] == "broken off"
    assert "report" not in stages(run)
    assert "Ablate" in alerts(run)


def test_a_run_of_which_nobody_can_tell_is_left_alone(run, monkeypatch):
    """GIVEN a file system without locks, THEN an unfinished run is not called either way, nor changed."""
    RunStore.open(run).stage("ablate", "running")
    (run / "journal.jsonl").touch()
    before = (run / "run.json").read_bytes()
    monkeypatch.setattr(fcntl, "flock", without_locks)
    done = call(run.parent, "first")
    assert done.exit_code == 0, done.output
    assert report.STATE_WORDS[report.EITHER] in done.stderr
    assert (run / "run.json").read_bytes() == before
    assert WORDS["maybe-running"].partition("{")[0] in alerts(run)
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


def test_a_run_that_may_not_be_written_says_how_to_draw_it(run, monkeypatch):
    """GIVEN a run on a read-only disk, THEN one line says how to get its page, and nothing is changed."""
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    monkeypatch.setattr(report.os, "access", lambda path, mode: path != run or not mode & os.W_OK)  # root may all
    done = call(run.parent, "first")
    assert done.exit_code == 1
    assert f"`cp -r {run} COPY`, then `energyscope report COPY`" in done.stderr
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before
