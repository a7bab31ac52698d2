"""What a command says that is stopped, or finds no room: what is kept, what to do, and no more."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import subprocess
import sys
import termios

import pytest
import typer
from run_builder import Shape, build_run
from typer.testing import CliRunner

from energyscope.cli.errors import reading_runs, report_errors
from energyscope.cli.interrupts import Terminated


def called(error):
    @report_errors
    def command() -> None:
        raise error

    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [])


@pytest.mark.parametrize(("kind", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_a_stopped_command_says_what_is_kept(kind, code):
    """GIVEN an interruption with a note of what is kept, THEN the one line holds it."""
    error = kind()
    error.add_note("what was finished is in runs/x")
    done = called(error)
    assert (done.exit_code, done.stderr) == (code, "energyscope: stopped: what was finished is in runs/x\n")


def test_a_stopped_command_that_keeps_nothing_promises_nothing():
    """GIVEN an interruption that nobody explained, THEN the line does not speak of results."""
    assert called(KeyboardInterrupt()).stderr == "energyscope: stopped\n"


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "No space left on device: free some room there, or use another directory"),
        (errno.EROFS, "Read-only file system: use another directory"),
        (errno.EACCES, "Permission denied: check its permissions, or use another directory"),
    ],
)
def test_a_disk_that_cannot_be_written_is_no_bug(number, says):
    """GIVEN an error of the system that a user can mend, THEN the line names the place and what to do."""
    error = OSError(number, os.strerror(number), "runs/x")
    error.add_note("more is known")
    done = called(error)
    assert (done.exit_code, done.stderr) == (1, f"energyscope: runs/x: {says}; more is known\n")


def test_another_error_of_the_system_is_a_bug():
    """GIVEN an error of the system that no user can mend, THEN the line asks for a report."""
    assert "internal error" in called(OSError(errno.EBADF, os.strerror(errno.EBADF))).stderr


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "internal error, please report it with the output of --debug: KeyError: 'calls'"),
        (
            ["--resume", "runs/x"],
            "runs/x cannot be resumed (KeyError: 'calls'): if files of it were changed, restore",
        ),
    ],
)
def test_a_run_whose_journal_was_changed_cannot_be_resumed(options, line):
    """GIVEN an error of values THEN files are in doubt only where a run was read: one that is resumed."""

    @report_errors
    @reading_runs
    def command(resume: str | None = None) -> None:
        raise KeyError("calls")

    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, options)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"energyscope: {line}")


STOPPED = """
from energyscope.cli.errors import report_errors
@report_errors
def command():
    error = KeyboardInterrupt()
    begun = "no result was kept (runs/ctrlc1 only says what was begun)"
    error.add_note(f"{begun}; `energyscope report runs/a` shows it")
    raise error
command()
"""


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (80, ["energyscope: stopped: no result was kept (runs/ctrlc1 only says what was begun);",
              "`energyscope report runs/a` shows it"]),
        (50, ["energyscope: stopped: no result was kept",
              "(runs/ctrlc1 only says what was begun);",
              "`energyscope report runs/a` shows it"]),
        (20, ["energyscope:", "stopped: no result", "was kept", "(runs/ctrlc1 only", "says what was",
              "begun);", "`energyscope report runs/a`", "shows it"]),
    ],
)  # fmt: skip
def test_a_terminal_gets_lines_that_break_between_words(columns, lines):
    """GIVEN a terminal, THEN no word is broken, and a command is in one piece, however narrow it is."""
    reading, writing = pty.openpty()
    termios.tcsetwinsize(writing, (24, columns))
    subprocess.run([sys.executable, "-c", STOPPED], stderr=writing, check=False)
    os.close(writing)
    printed = b""
    with contextlib.suppress(OSError), open(reading, "rb", buffering=0) as screen:  # noqa: PTH123 - a descriptor
        while part := screen.read(4096):
            printed += part
    assert printed.decode().splitlines()[: len(lines)] == lines


@pytest.mark.parametrize("word", ["report", "show"])
def test_a_run_whose_values_were_changed_is_one_line(word, tmp_path, command):
    """GIVEN a file of a run with a list where a number is, THEN the line names file, key and what to do."""
    run = build_run(tmp_path / "runs/bad", Shape(layers=1, granularity="coarse", impact=False))
    document = {**run.document, "closure": {"model": {"energy": ["half"]}, "leaves": ["of", "it"]}}
    (run.path / "run.json").write_text(json.dumps(document))
    done = command(word, "bad", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "bad/run.json cannot be read (closure.model.energy is a list, and not a number)" in done.stderr
