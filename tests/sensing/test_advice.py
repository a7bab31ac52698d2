"""What the doctor advises: one sentence for each thing that stands in the way, and none where nothing does."""

from __future__ import annotations

import pytest

from energyscope.sensing.advice import advice

DEVICE = {"mig": False, "persistence": 1, "power_limit_w": 700.0, "default_power_limit_w": 700.0}
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
    ("fact", "words"),
    [
        ({"mig": True}, ("MIG", "--whole-gpu")),
        ({"persistence": 0}, ("persistence", "nvidia-smi -pm 1")),
        ({"power_limit_w": 500.0}, ("500 W", "700 W", "nvidia-smi -pl 700")),
    ],
)
def test_what_is_wrong_with_the_board(fact, words):
    """Each fact that stands in the way gives one sentence, which names what to do."""
    (sentence,) = advice({**DEVICE, **fact}, SENSOR)
    assert [word for word in words if word not in sentence] == []


def changed(change):
    return {"change": change, "low": change - 0.001, "high": change + 0.001}


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ({"bystanders": ["process 4711 also uses this GPU"]}, ("4711", "end it")),
        ({"tick_period_s": 0.5}, ("0.50 s", "--window 3.0")),
        ({"counter_power": {"ratio": 0.5, "field": "instant"}}, ("50%", "instant", "nvml-power")),
        ({"meter": "nvml-power", "choice": "nvml-power: NVMLError_NotSupported"}, ("NotSupported", "counter")),
        ({"polling": {"sampler": {"time": changed(0.03), "energy": None}}}, ("+3.0%", "busy host")),
        ({"polling": {"sampler": {"time": None, "energy": changed(-0.1)}}}, ("-10.0%", "nvml-power")),
        (
            {"polling": {"without a pause": {"time": None, "energy": changed(-0.7)}}},
            ("-70.0%", "no other monitor"),
        ),
    ],
)
def test_what_is_wrong_with_the_sensor(fact, words):
    """Each fact that stands in the way gives one sentence, which names what to do."""
    (sentence,) = advice(DEVICE, {**SENSOR, **fact})
    assert [word for word in words if word not in sentence] == []


def test_chance_is_no_reason():
    """A change whose interval includes none is not blamed on polling, however large."""
    noisy = {"change": 0.05, "low": -0.1, "high": 0.2}
    assert advice(DEVICE, {**SENSOR, "polling": {"sampler": {"time": noisy, "energy": noisy}}}) == []
