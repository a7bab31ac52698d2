"""The one place that turns errors into a line and an exit code."""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from energyscope.cli.interrupts import INTERRUPTED, TERMINATED, Terminated, raising_on_signals
from energyscope.errors import EnergyscopeError, RunError


class _Debug:
    on = False


DEBUG = _Debug()
FREE_ROOM = "free some room there, or use another directory"
CHECK_PERMISSIONS = "check its permissions, or use another directory"
# What code raises that meets another value than it was written for.
OF_VALUES = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)
NAMING_RUNS = ("resume", "run", "runs", "measured", "from_runs")  # options and arguments of commands
REMEDIES = {  # of errors of the system that no stage knows better
    errno.ENOSPC: FREE_ROOM,
    errno.EDQUOT: FREE_ROOM,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or use another directory",
    errno.EIO: "the disk or the network behind it fails: use another directory",
    errno.EROFS: "use another directory",
    errno.EACCES: CHECK_PERMISSIONS,
    errno.EPERM: CHECK_PERMISSIONS,
}


def report_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that what a user can mend shows as one line, without a traceback.

    So does a disk without room, or a directory that may not be written. A bug shows as one line as well, which
    asks for a report; `--debug` shows any traceback.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            with raising_on_signals():
                return command(*args, **kwargs)
        except EnergyscopeError as error:
            _say(_with_notes(str(error), error))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            kept = "; ".join(getattr(error, "__notes__", ()))  # what was stopped knows what it leaves
            _say(f"stopped: {kept}" if kept else "stopped")
            raise typer.Exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED) from error
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BrokenPipeError:
            sys.stderr.close()  # the reader of the output left: nobody would read an error
            raise typer.Exit(1) from None
        except OSError as error:
            _say(_of_system(error) or _with_notes(_of_bug(error), error))
            raise typer.Exit(1) from error
        except Exception as error:
            from energyscope.failures import explained

            _say(_with_notes(str(explained(error) or _of_bug(error)), error))
            raise typer.Exit(1) from error

    return wrapped


def reading_runs(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command that reads runs: a value of another kind in one of their files is one line that says so.

    Files come from anybody, and not every value in them is checked. A run that is resumed is read as well.
    """

    @functools.wraps(command)
    def wrapped(**options: Any) -> Any:
        try:
            return command(**options)
        except (typer.Exit, typer.Abort):  # both are RuntimeErrors
            raise
        except Exception as error:
            from energyscope.failures import explained, first_line

            given = next((options[name] for name in NAMING_RUNS if options.get(name)), None)
            of_values = isinstance(error, OF_VALUES) or type(error).__module__.startswith("jinja2")
            if given is None or options.get("new_run") or not of_values or explained(error):
                raise
            names = given if isinstance(given, str | Path) else ", ".join(given)
            unread = RunError(
                f"{names} cannot be {'resumed' if options.get('resume') else 'read'} "
                f"({type(error).__name__}: {first_line(error)}): if files of it were changed, restore them; "
                "if not, this is a bug: please report it with the output of --debug"
            )
            raise unread from error

    return wrapped


def _of_system(error: OSError) -> str | None:
    """Return what a user can do about a disk or a file; None where it is nothing of that kind."""
    remedy = REMEDIES.get(error.errno or 0)
    if remedy is None:
        return None
    where = "a file" if error.filename is None else f"{error.filename}"
    return _with_notes(f"{where}: {error.strerror}: {remedy}", error)


def _with_notes(message: str, error: Exception) -> str:
    """Return a message with what those whom the error passed have added: what is kept, and how to go on."""
    return "; ".join([message, *getattr(error, "__notes__", ())])


def _of_bug(error: Exception) -> str:
    return f"internal error, please report it with the output of --debug: {type(error).__name__}: {error}"


def _say(message: str) -> None:
    if DEBUG.on:
        traceback.print_exc()
    from energyscope.reporting.terminal_text import printable

    typer.echo(_folded(f"energyscope: {printable(message)}", _columns()), err=True)


def _columns() -> int | None:
    """Return the width of the terminal that reads our errors; None where a file or a pipe does."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or None
    except (OSError, ValueError):  # no terminal, or no file behind the stream
        return None


def _folded(line: str, columns: int | None) -> str:
    """Break a line between its words, and neither in a word nor in a command in backquotes: one copies them."""
    if columns is None:
        return line
    whole = re.sub(r"`[^`]*`", lambda command: command[0].replace(" ", "\0"), line)
    folded = textwrap.fill(whole, columns, break_long_words=False, break_on_hyphens=False)
    return folded.replace("\0", " ")
