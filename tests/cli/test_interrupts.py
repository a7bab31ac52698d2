"""Signals to stop: the right exit code and at most one line, from the first import to the last moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from energyscope.cli.interrupts import Terminated, raising_on_signals

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
EARLY = """
import time
from energyscope.cli.interrupts import exit_on_signals
exit_on_signals()
print("up", flush=True)
time.sleep(60)
"""
WORKING = """
import sys, time
from energyscope.cli.interrupts import exit_on_signals, raising_on_signals
exit_on_signals()
try:
    with raising_on_signals():
        print("up", flush=True)
        time.sleep(60)
except KeyboardInterrupt as error:
    print(type(error).__name__, flush=True)
    time.sleep({saving})
    sys.exit(7)
"""
LOSING = """
import signal, time, typer, weakref
from energyscope.cli.errors import report_errors
class Thing: pass
class Deleted:
    def __del__(self): signal.raise_signal({number})
@report_errors
def command():
    thing = Thing()
    watch = weakref.ref(thing, lambda _: signal.raise_signal({number}))
    {losing}
    time.sleep(30)
typer.run(command)
"""
ENDING = """
import atexit, time
from energyscope.cli.interrupts import exit_on_signals
atexit.register(lambda: (print("up", flush=True), time.sleep(0.5)))  # runs after the one below: the last of all
exit_on_signals()
"""


def started(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("number", CODES)
def test_before_anything_is_done_a_signal_ends_it_in_one_line(number: signal.Signals) -> None:
    """GIVEN imports that take their time WHEN a signal comes THEN its code, and one line."""
    process = started(EARLY)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (CODES[number], "energyscope: stopped\n")


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Interrupted"), (signal.SIGTERM, "Terminated")])
def test_in_a_command_a_signal_is_an_exception(number: signal.Signals, name: str) -> None:
    """GIVEN a command WHEN a signal comes twice at once, as from `timeout`, THEN what stops it may save."""
    process = started(WORKING.replace("{saving}", "0.1"))
    process.send_signal(number)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=30)
    assert (process.returncode, printed) == (7, f"{name}\n")


@pytest.mark.parametrize("number", CODES)
def test_a_second_signal_ends_it_at_once(number: signal.Signals) -> None:
    """GIVEN a command that saves after a first signal WHEN another comes THEN it ends now, without a traceback."""
    process = started(WORKING.replace("{saving}", "60"))
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "Interrupted\n"
    time.sleep(0.6)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == CODES[number]
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("losing", ["del thing", "Deleted()"])
def test_a_signal_whose_exception_python_loses_comes_again(number: signal.Signals, losing: str) -> None:
    """GIVEN a signal in a weakref callback or a `__del__` THEN the command ends, with no traceback."""
    code = LOSING.format(number=int(number), losing=losing)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == CODES[number]
    assert "Traceback" not in ended.stderr
    assert "ignored" not in ended.stderr


@pytest.mark.parametrize("number", CODES)
def test_a_signal_in_code_that_is_made_ends_python_m_with_its_code(number: signal.Signals, tmp_path: Path) -> None:
    """GIVEN a signal while a library runs code that it has written THEN the process still ends with its code."""
    losing = f"import energyscope.reporting.terminal_text; exec('signal.raise_signal({int(number)})')"
    (tmp_path / "losing.py").write_text(LOSING.format(number=int(number), losing=losing))
    words = [sys.executable, "-m", "losing"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == CODES[number]


def test_other_lost_exceptions_go_to_the_hook_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no signal WHEN Python loses an exception THEN who was told of it before is told of it."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_value))
    hook, error = sys.unraisablehook, ValueError("lost")

    class Failing:
        def __del__(self) -> None:
            raise error

    with raising_on_signals():
        Failing()
    assert told == [error]
    assert sys.unraisablehook is hook


@pytest.mark.parametrize("number", CODES)
def test_when_all_is_done_a_signal_changes_nothing(number: signal.Signals) -> None:
    """GIVEN a process at its very end WHEN a signal comes THEN its exit code says that all was done."""
    process = started(ENDING)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")


def test_an_error_that_a_signal_became_is_the_signal() -> None:
    """GIVEN an import that fails in its own words as it is broken off THEN what comes out is the interrupt."""
    before = {number: signal.getsignal(number) for number in CODES}

    def broken_off() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise ImportError("could not import") from error

    try:
        with pytest.raises(Terminated), raising_on_signals():
            broken_off()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_other_errors_stay_what_they_are() -> None:
    """GIVEN no signal THEN an error passes, and the handlers are those of before."""
    before = [signal.getsignal(number) for number in CODES]
    with pytest.raises(ImportError), raising_on_signals():
        raise ImportError("could not import")
    assert [signal.getsignal(number) for number in CODES] == before
