"""Pauses between calls: one kernel of one thread behind each of them."""

from __future__ import annotations

import pytest
import torch

from energyscope.replay.replayer import ABOUT_HZ, resting


@pytest.fixture
def ran(monkeypatch):
    """Return what ran, in order; pauses by the cycles that they count."""
    done = []
    monkeypatch.setattr(torch.cuda, "_sleep", done.append)
    return done


def test_every_call_is_followed_by_a_pause(ran):
    """GIVEN two calls THEN each is followed by a pause of about the seconds asked for, in GPU clocks."""
    for step in resting([lambda: ran.append("a"), lambda: ran.append("b")], 50e-6):
        step()
    assert ran == ["a", round(50e-6 * ABOUT_HZ), "b", round(50e-6 * ABOUT_HZ)]


def test_a_round_without_calls_is_one_pause(ran):
    """What the pauses take by themselves is measured as a round of one."""
    steps = resting([], 1e-3)
    for step in steps:
        step()
    assert len(steps) == 1
    assert ran == [1_700_000]


def test_a_pause_is_at_least_one_cycle(ran):
    """GIVEN a call too short to be told in cycles THEN it still is a kernel: no cycles would launch none."""
    (step,) = resting([], 1e-12)
    step()
    assert ran == [1]
