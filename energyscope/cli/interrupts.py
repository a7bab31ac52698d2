"""Ctrl-C and SIGTERM, from the first import to the last moment of the process. Nothing but the standard library.

imports: exit at once | a command: an exception, which keeps what was finished | the end: exit at once
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

INTERRUPTED, TERMINATED = 130, 143
CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
ONE_EVENT_S = 0.5  # `timeout`, for one, sends a signal to the process, and another one to its group
AGAIN_S = 0.05  # after which a signal comes again, if Python lost its exception


class Interrupted(KeyboardInterrupt):
    """SIGINT: a plain KeyboardInterrupt that leaves an `exec` ends `python -m` by the signal, not by its code."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: handled as Ctrl-C is, with its own exit code."""


def exit_on_signals() -> None:
    """Exit on a signal with its code and one line, where there is nothing to keep; at the very end, ignore it.

    While Python ends, it has no handlers: a signal would end it without a word, though all was done.
    """
    _handle(_exit)
    atexit.unregister(_ignore)
    atexit.register(_ignore)


@contextlib.contextmanager
def raising_on_signals() -> Iterator[None]:
    """Raise `Interrupted` or `Terminated` on the first signal, and exit at once on a second one.

    What became of it is raised again as it was, with its notes: an import that is broken off may fail in words of
    its own, and Ray raises a KeyboardInterrupt for either signal. Python loses an exception that is raised in a
    `__del__` or a weakref callback, as imports have: then the signal comes again.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one is told of signals
        yield
        return
    stopping: list[KeyboardInterrupt] = []
    first_s = 0.0
    hook = sys.unraisablehook

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal first_s
        if not stopping:
            stopping.append(Terminated() if number == signal.SIGTERM else Interrupted())
            first_s = time.monotonic()
            raise stopping[0]
        if time.monotonic() - first_s > ONE_EVENT_S:
            os._exit(CODES[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in CODES}
    _handle(stop)
    sys.unraisablehook = functools.partial(_send_again, stopping, hook)
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if not stopping or error is stopping[0]:
            raise
        for note in getattr(error, "__notes__", ()):
            stopping[0].add_note(note)
        raise stopping[0] from error
    finally:
        sys.unraisablehook = hook
        if not stopping:  # else another one may still come
            for number, handler in before.items():
                signal.signal(number, handler)


def _send_again(
    stopping: list[KeyboardInterrupt], hook: Callable[[sys.UnraisableHookArgs], Any], lost: sys.UnraisableHookArgs
) -> None:
    """Send the signal once more whose exception was lost; ``hook`` is told of any other exception."""
    if not stopping or lost.exc_value is not stopping[0]:
        hook(lost)
        return
    number = signal.SIGTERM if isinstance(stopping.pop(), Terminated) else signal.SIGINT
    timer = threading.Timer(AGAIN_S, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def _exit(number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
        sys.stdout.flush()
        sys.stderr.write("energyscope: stopped\n")
        sys.stderr.flush()
    os._exit(CODES[signal.Signals(number)])


def _ignore() -> None:
    _handle(signal.SIG_IGN)


def _handle(handler: object) -> None:
    for number in CODES:
        signal.signal(number, handler)  # type: ignore[arg-type]
