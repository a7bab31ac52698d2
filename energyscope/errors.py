"""Every error that a user can cause or fix, with its exit code.

Exit codes: 0 done, 1 the run failed, 2 bad usage, 3 `compare` found more than allowed,
130 and 143 interrupted. Messages are one line and say what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable


class EnergyscopeError(Exception):
    """Base of all errors that are shown as one line instead of a traceback."""

    exit_code = 1


class UsageError(EnergyscopeError):
    """A request that cannot be met: an unknown model, a name that exists, a bad option."""

    exit_code = 2


class ModelError(EnergyscopeError):
    """A model could not be loaded or does not fit its adapter."""


class DeviceError(EnergyscopeError):
    """A device is missing, busy, or out of memory."""


class MeterError(EnergyscopeError):
    """A meter could not be read."""


class DataError(EnergyscopeError):
    """A data set is missing, empty or does not fit the model."""


class RunError(EnergyscopeError):
    """A run directory is unreadable, incomplete, or from a newer version."""


def did_you_mean(word: str, known: Iterable[str], command: str = "") -> str:
    """Return ``": did you mean 'x'?"`` for the nearest known words, else the list of what is known.

    Of what is too much for a line, a ``command`` is named that lists it.
    """
    import difflib  # only where a word is wrong

    words = list(known)
    near = difflib.get_close_matches(word, words, n=2, cutoff=0.5)
    meant = "did you mean " + " or ".join(map(repr, near)) + "?" if near else ""
    if command:
        return ": " + " ".join(filter(None, (meant, f"`{command}` lists all names")))
    return f": {meant}" if meant else f" (known: {', '.join(sorted(words))})"
