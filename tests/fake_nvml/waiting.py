"""Waiting for a meter to notice what was done to it."""

from __future__ import annotations

import time

import pytest

from energyscope.errors import MeterError


def wait_for_error(meter, seconds=8.0):
    """Read a meter until it raises, and return what it says."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            meter.ticks(0.0, end)
        except MeterError as error:
            return str(error)
        time.sleep(0.02)
    return pytest.fail("the meter never said so")
