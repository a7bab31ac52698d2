"""How `doctor` shows what it found."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from energyscope.cli.app import app
from energyscope.reasons import join, reason

RESPONSE = {"shape": "moving average", "averaging_s": 1.02, "lag_s": 0.05, "refresh_s": 0.1, "reason": None}
SAME = {"change": 0.001, "low": -0.002, "high": 0.004, "pairs": 3}
FOUND = {
    "device": {"type": "cuda", "name": "NVIDIA [H200]", "power_limit_w": 700.0, "mig": None, "processes": []},
    "sensor": {
        "meter": "nvml",
        "tick_period_s": 0.1,
        "idle_w": 77.25,
        "bystanders": [],
        "choice": join([reason("counter-ticks", period_s=0.1)]),
        "notes": [reason("energy-counter")],
        "power_fields": {
            "usage": RESPONSE,
            "instant": {**RESPONSE, "shape": "jump", "averaging_s": None},
            "average": {"lag_s": None, "averaging_s": None, "reason": reason("field-silent")},
        },
        "counter_power": {"ratio": 0.993, "field": "instant", "seconds": 4.9, "reason": None},
        "polling": {"sampler": {"time": SAME, "energy": None, "reason": reason("no-energy-counter")}},
    },
    "advice": ["persistence mode is off: [b]turn it on[/b]"],
    "verdict": "Energy can be measured here: with the reservations above.",
}


@pytest.fixture
def shown(monkeypatch):
    """Return what `doctor` prints, with some options, of given findings."""
    monkeypatch.setenv("COLUMNS", "160")

    def show(*options):
        asked = []
        monkeypatch.setattr(
            "energyscope.stages.doctor.examine", lambda *words, **more: asked.append((words, more)) or FOUND
        )
        done = CliRunner().invoke(app, ["doctor", *options])
        assert done.exit_code == 0, done.output
        return done.stdout, asked[0]

    return show


def test_every_fact_is_a_line_a_person_understands(shown):
    """Units, unknowns, fields of power, agreement, polling, advice and verdict are all there, as plain words."""
    text, _ = shown()
    for words in (
        "NVIDIA [H200]", "power limit, W", "unknown", "tick period, s", "77.25",
        "moving average over 1.02 s, lag 50 ms, renewed every 100 ms",
        "follows at its next renewal", f"unknown: {reason('field-silent').words}",
        "99.3% of the instant power", "+0.10% (-0.20% to +0.40%)",
        f"unknown ({reason('no-energy-counter').words})", reason("counter-ticks", period_s=0.1).words,
        "- persistence mode is off: [b]turn it on[/b]", FOUND["verdict"],
    ):  # fmt: skip
        assert words in text


def test_json_is_all_that_was_found(shown):
    """`--json` prints the findings and nothing else."""
    text, _ = shown("--json")
    assert json.loads(text) == FOUND


def test_the_options_reach_the_examination(shown):
    """Device, seconds and --quick are handed on."""
    _, (words, more) = shown("--device", "cuda:1", "--seconds", "5", "--quick")
    assert words == ("cuda:1", 5.0)
    assert more["quick"] is True
