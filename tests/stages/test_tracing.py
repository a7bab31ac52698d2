"""The power trace says of every tick what the run was doing then."""

from __future__ import annotations

import pytest

from energyscope.generation.timeline import GenerationTimes
from energyscope.stages.context import generated, trace_row

FIRST, SECOND = GenerationTimes(10.0, (10.5, 10.7, 10.9), 11.0), GenerationTimes(12.0, (12.4, 12.6, 12.8), 12.9)
PROFILED = [(20.0, "prefill"), (30.0, "decode")]


def row(stage, now):
    state = {
        "after_s": now,
        "device": "GPU-a",
        "energy_mj": 1.0,
        "power_w": 2.0,
        "sm_clock_mhz": 3,
        "temperature_c": 4,
    }
    return trace_row(stage, {**state, "throttle": 0}, 5.0, PROFILED, [FIRST, SECOND], [(11.3, 11.6)])


@pytest.mark.parametrize(
    ("now", "phase", "token"),
    [
        (9.9, "generate", None),
        (10.2, "prefill", 1),
        (10.6, "decode", 2),
        (10.8, "decode", 3),
        (11.2, "generate", None),
        (11.5, "step", None),
        (12.1, "prefill", 1),
        (12.7, "decode", 3),
    ],
)
def test_a_tick_of_a_generation_has_its_phase_and_token(now, phase, token):
    """Before the first token it is the prefill, then the decode of the next one; between generations neither.

    While the step is replayed by itself, that is said.
    """
    traced = row("generate", now)
    assert (traced["phase"], traced["token"]) == (phase, token)
    assert traced["time_s"] == pytest.approx(now - 5.0)


def test_a_tick_of_the_profile_has_the_phase_that_was_profiled():
    """Scenes follow one another; before the first the stage itself is named, as for every other stage."""
    assert [row("profile", now)["phase"] for now in (19.0, 21.0, 31.0)] == ["profile", "prefill", "decode"]
    assert row("benchmark", 21.0)["phase"] == "benchmark"


def test_only_what_the_table_holds_is_kept():
    """The row has the columns of the trace and no others."""
    from energyscope.runs.schema import TRACE_COLUMNS

    assert set(row("profile", 21.0)) == set(TRACE_COLUMNS)


def test_the_marks_are_those_of_the_journal():
    """Generations are read from the journal, in their order; other entries are passed over."""
    entries = [
        {"stage": "profile"},
        {"stage": "generate", "generation": vars(FIRST)},
        {"generation": vars(SECOND)},
    ]
    assert generated(entries) == [FIRST, SECOND]
