"""Waiting for what a meter's process does, for as long as a busy machine may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from energyscope.errors import MeterError

PATIENCE_S = 120.0  # for what comes within milliseconds on an idle machine


def wait_until(true: Callable[[], Any], what: str) -> None:
    """Return once something is true; ``what`` says of a failure what never came."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > end:
            pytest.fail(f"never came: {what}")
        time.sleep(0.02)


def wait_for_error(meter: Any) -> str:
    """Read a meter until it raises, and return what it says."""
    said: list[str] = []

    def raised() -> bool:
        try:
            meter.ticks(0.0, time.monotonic())
        except MeterError as error:
            said.append(str(error))
        return bool(said)

    wait_until(raised, "an error of the meter")
    return said[0]
