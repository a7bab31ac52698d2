"""What the doctor advises: one reason for each problem, and none where there is none."""

from __future__ import annotations

import pytest

from energyscope.diagnostics.advice import advice
from energyscope.reasons import reason

DEVICE = {"mig": False, "persistence": 1, "power_limit_w": 700.0, "default_power_limit_w": 700.0}
OTHER = reason("other-process", pid=4711)
UNSUPPORTED = reason("meter-unusable", error="NVMLError_NotSupported")
SAME = {"change": 0.001, "low": -0.002, "high": 0.004}
SENSOR = {
    "meter": "nvml",
    "tick_period_s": 0.1,
    "bystanders": [],
    "counter_power": {"ratio": 1.01, "field": "instant"},
    "polling": {"sampler": {"time": SAME, "energy": SAME}, "without a pause": {"time": SAME, "energy": SAME}},
}


def test_a_healthy_gpu_needs_no_advice():
    """GIVEN a GPU of its own with an honest counter THEN nothing is advised."""
    assert advice(DEVICE, SENSOR) == []


def test_what_is_unknown_says_nothing():
    """Facts that a board does not answer are no reason for advice."""
    assert advice(dict.fromkeys(DEVICE), dict.fromkeys(SENSOR)) == []


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ({"mig": True}, reason("mig-on")),
        ({"persistence": 0}, reason("persistence-off")),
        ({"power_limit_w": 500.0}, reason("power-limit-lowered", limit_w=500.0, default_w=700.0)),
    ],
)
def test_what_is_wrong_with_the_board(fact, expected):
    """Each fact that needs a change gives one reason."""
    assert advice({**DEVICE, **fact}, SENSOR) == [expected]


def changed(change):
    return {"change": change, "low": change - 0.001, "high": change + 0.001}


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ({"bystanders": [OTHER]}, reason("gpu-used-by-others", who=OTHER)),
        ({"tick_period_s": 0.5}, reason("slow-ticks", period_s=0.5, window_s=3.0)),
        (
            {"counter_power": {"ratio": 0.5, "field": "instant"}},
            reason("counter-disagrees", share=0.5, field="instant"),
        ),
        ({"meter": "nvml-power", "choice": UNSUPPORTED}, reason("counter-unused", why=UNSUPPORTED)),
        (
            {"polling": {"sampler": {"time": changed(0.03), "energy": None}}},
            reason("polling-changes-time", change=0.03),
        ),
        (
            {"polling": {"sampler": {"time": None, "energy": changed(-0.1)}}},
            reason("polling-changes-energy", change=-0.1),
        ),
        (
            {"polling": {"without a pause": {"time": None, "energy": changed(-0.7)}}},
            reason("polling-alone-changes-energy", change=-0.7),
        ),
    ],
)
def test_what_is_wrong_with_the_sensor(fact, expected):
    """Each fact that needs a change gives one reason."""
    assert advice(DEVICE, {**SENSOR, **fact}) == [expected]


def test_chance_is_no_reason():
    """A change whose interval includes none is not blamed on polling, however large."""
    noisy = {"change": 0.05, "low": -0.1, "high": 0.2}
    assert advice(DEVICE, {**SENSOR, "polling": {"sampler": {"time": noisy, "energy": noisy}}}) == []
