"""What a stopped command says: what it was told that is kept, and no more."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from energyscope.cli.guard import Terminated, guarded


def called(error):
    @guarded
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
