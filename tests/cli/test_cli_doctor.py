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
    "reference": {
        "workload": "transformer-layer-1",
        "energy_mj": 50.0,
        "low_mj": 49.6,
        "high_mj": 50.4,
        "time_us": 120.0,
        "power_w": 416.0,
        "windows": 6,
        "sm_clock_mhz": None,
        "power_limit_w": 700.0,
        "measured": "2026-11-29T09:00:00Z",
        "outdated": ["driver", "PyTorch"],
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
        "transformer-layer-1", "50.0 mJ \u00b1 0.4", "120 \u00b5s", "2026-11-29T09:00:00Z, in 6 windows",
        "measured with another driver and PyTorch: runs do not carry it",
        "- persistence mode is off: [b]turn it on[/b]", FOUND["verdict"],
    ):  # fmt: skip
        assert words in text


def test_json_is_all_that_was_found(shown):
    """`--json` prints the findings and nothing else."""
    text, _ = shown("--json")
    assert json.loads(text) == FOUND


def test_the_options_reach_the_examination(shown):
    """Device, seconds, --thorough and --reference are handed on; without them, the examination is a short one."""
    _, (words, more) = shown("--device", "cuda:1", "--seconds", "5", "--thorough", "--reference")
    assert words == ("cuda:1",)
    assert (more["thorough"], more["seconds"], more["reference"]) == (True, 5.0, True)
    _, (_, more) = shown()
    assert (more["thorough"], more["reference"]) == (False, False)


def test_a_reference_that_could_not_be_measured_says_why(shown, monkeypatch):
    """GIVEN no energy of the reference workload THEN its reason stands there; GIVEN none at all, nothing."""
    unknown = {"energy_mj": None, "reason": reason("wide-interval", half_width=0.05)}
    monkeypatch.setitem(FOUND, "reference", unknown)
    assert "unknown: 95 % interval of ± 5.0 %" in shown()[0]
    monkeypatch.setitem(FOUND, "reference", None)
    assert "Reference workload" not in shown()[0]


def test_what_more_can_be_measured_is_said_once_it_was_not(shown):
    """A short examination of a GPU names --thorough; a thorough one does not."""
    assert "--thorough measures also" in shown()[0]
    assert "--thorough" not in shown("--thorough")[0]


def test_seconds_of_polling_need_a_thorough_examination():
    """GIVEN --seconds alone THEN that is bad usage, in one line, and nothing is measured."""
    done = CliRunner().invoke(app, ["doctor", "--seconds", "5"])
    assert done.exit_code == 2
    assert "--seconds requires --thorough" in done.output
