"""What surrounds two runs and is not one key of run.json: driver, clocks, and how passes were launched."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from statistics import median
from typing import Any

from energyscope.runs.intervals import finite
from energyscope.runs.method import execution_of

Document = Mapping[str, Any]

CLOCKS_APART = 0.01  # as far apart as a run's own guard flags
_INFERENCE_MODE, _NO_GRAD = "inference mode (an older energyscope)", "without gradients, as generate does"


def surroundings(
    first: Document, second: Document, ignored: Collection[str], *, same_work: bool
) -> tuple[list[str], list[str]]:
    """Return which surroundings make joules not comparable, and which only differ.

    Clocks are a condition only of ``same_work``: another precision or execution changes them by itself, under a
    power cap. They are those of passes over components, so nothing is said of them where ``sampling`` is ignored,
    nor of launching where ``execution`` is, as of a traced generation.
    """
    obstacles = list(_drivers(first, second))
    obstacles += [] if "execution" in ignored else _launching(first, second)
    clocks = [] if "sampling" in ignored else list(_clocks(first, second))
    return (obstacles + clocks, []) if same_work else (obstacles, clocks)


def driver_of(document: Document) -> str | None:
    """Return the driver's version, which runs note with the device or with the environment."""
    found = (document.get("device") or {}).get("driver") or (document.get("environment") or {}).get("driver")
    return None if found is None else str(found)


def clock_of(document: Document) -> float | None:
    """Return the median clock (MHz) of the passes over the components; None where none was read."""
    read = [finite(one.get("clock_mhz")) for one in document.get("passes") or () if isinstance(one, Mapping)]
    known = [one for one in read if one is not None]
    return median(known) if known else None


def launching_of(document: Document) -> str:
    """Say in which mode passes were launched: the first runs used inference mode, in which a host is faster.

    No key says so; runs know how many tokens to generate since about when that was changed.
    """
    newer = "new_tokens" in (document.get("settings") or {}) or bool(document.get("scenes"))
    return _NO_GRAD if newer else _INFERENCE_MODE


def _drivers(first: Document, second: Document) -> Iterator[str]:
    one, two = driver_of(first), driver_of(second)
    if one != two:
        yield f"driver: {one or 'not stated'} against {two or 'not stated'}"


def _launching(first: Document, second: Document) -> Iterator[str]:
    """Yield the mode of launching where it differs and the host may set the pace, as in eager execution."""
    one, two = launching_of(first), launching_of(second)
    if one != two and "eager" in map(execution_of, (first, second)):
        yield f"launching: {one} against {two}"


def _clocks(first: Document, second: Document) -> Iterator[str]:
    one, two = clock_of(first), clock_of(second)
    if one and two and abs(two / one - 1) > CLOCKS_APART:
        yield f"clocks: {one:.0f} MHz against {two:.0f} MHz"
