"""Clocks of their own: what a busy machine holds up goes by them in a test, so that it cannot."""

from __future__ import annotations

import threading
from types import ModuleType, SimpleNamespace

import pytest

from energyscope.testing import SimulatedGpu


class Clock:
    """Stands for the module `time`: looking at it takes ``look_s``, and a sleep what was asked for."""

    def __init__(self, look_s: float = 1e-4) -> None:
        self.now_s, self.look_s = 0.0, look_s

    def monotonic(self) -> float:
        """Return the time (s)."""
        self.now_s += self.look_s
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.now_s += seconds


class ThreadClock(Clock, threading.local):
    """A clock that stands at 0 in each new thread, and goes on in it alone: threads that begin together."""


class HostOfGpu(SimulatedGpu):
    """A simulated GPU by whose time the host goes, too: each look at the clock takes it ``look_s``, idle.

    The host's own calls take no time, however busy the machine: what shall take some sleeps on this GPU.
    """

    look_s = 1e-5

    def now(self) -> float:
        self.sleep(self.look_s)
        return super().now()

    def rule(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        """Let these modules go by its time."""
        for module in modules:
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=self.now, sleep=self.sleep))
