"""Whether a traced step or prefill is what its parts add up to, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from generation_builder import build_inference

from energyscope.reporting import text
from energyscope.reporting.data import report_data
from energyscope.reporting.data.agreement import Agreement
from energyscope.reporting.data.generation_words import agreement_sentence
from energyscope.runs.intervals import Interval, ratio


def _of(parts: Interval, traced: Interval) -> Agreement:
    return Agreement("decode", "decode at 32", parts, Interval(0.0, 0.0, 0.0), None, parts, traced,
                     ratio(parts, traced), same_execution=True)  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "traced", "verdict", "said"),
    [
        (Interval(104, 100, 108), Interval(100, 99, 101), "agree", "they agree within 4.0 %"),
        (Interval(102, 40, 164), Interval(100, 99, 101), "cannot be told", "whether they agree cannot be told"),
        (Interval(100), Interval(100), "cannot be told", "not both have an interval"),
        (Interval(135, 130, 140), Interval(100, 99, 101), "disagree", "35 % more, which is a disagreement"),
        (
            Interval(135, 80, 190),
            Interval(100, 99, 101),
            "cannot be told",
            "35 % more, which their intervals allow",
        ),
        (Interval(198, -507, 903), Interval(147, 139, 155), "cannot be told", "whether they agree cannot be told"),
        (Interval(10, -1, 21), Interval(100, 99, 101), "disagree", "90 % less, which is a disagreement"),
        (Interval(135), Interval(100, 99, 101), "cannot be told", "35 % more, and not both have an interval"),
    ],
)
def test_only_what_the_intervals_exclude_is_a_disagreement(
    parts: Interval, traced: Interval, verdict: str, said: str
) -> None:
    """Within 7 % parts and trace agree; beyond it, an interval with 1 tells nothing, and one without 1 does."""
    found = _of(parts, traced)
    assert found.verdict == verdict
    assert said in agreement_sentence(found)


def test_a_prefill_has_the_loop_of_a_call_and_of_a_step(tmp_path: Path) -> None:
    """The parts of a prefill are the model's pass and the loop, once per call and once per step."""
    run = build_inference(tmp_path / "run")
    made = report_data(run).generation
    assert made is not None
    found = made.prefill_agreement
    assert found is not None
    assert found.call is not None
    assert made.loop.call_energy is not None
    assert found.parts.value == pytest.approx(found.model.value + found.loop.value + made.loop.call_energy.value)
    prefill = made.phase("prefill")
    assert prefill is not None
    assert found.traced == prefill.energy
    assert agreement_sentence(found).startswith("The prefill: model forward")


def test_a_prefill_with_an_unknown_part_is_not_compared(tmp_path: Path) -> None:
    """GIVEN a loop without a call's share, THEN there is no sentence on the prefill, and that on a step stays."""
    whole = build_inference(tmp_path / "run")
    assert whole.generation is not None
    whole.generation["loop"]["per_call"] = None
    made = report_data(whole).generation
    assert made is not None
    assert made.prefill_agreement is None
    assert made.agreement is not None


def test_a_difference_of_time_is_told_from_a_difference_of_work(tmp_path: Path) -> None:
    """GIVEN parts that take longer at the same idle power, THEN what is beyond idle power stays the same."""
    run = build_inference(tmp_path / "run")
    made = report_data(run).generation
    assert made is not None
    assert made.agreement is not None
    usual = made.agreement.pace
    assert usual is not None

    decode = next(row for row in run.generation["phases"] if row["phase"] == "decode")
    seconds, idle_w = decode["seconds"], decode["static_j"] / decode["seconds"]["value"]
    slower = {key: value * 1.5 for key, value in seconds.items()}
    more_j = idle_w * (slower["value"] - seconds["value"])
    decode["seconds"], decode["static_j"] = slower, decode["static_j"] + more_j
    decode["energy_j"] = {key: value + more_j for key, value in decode["energy_j"].items()}
    found = report_data(run).generation
    assert found is not None
    assert found.agreement is not None
    assert found.agreement.pace is not None
    assert found.agreement.pace.idle_w == pytest.approx(usual.idle_w)
    assert found.agreement.pace.time_ratio == pytest.approx(usual.time_ratio / 1.5)
    assert found.agreement.pace.traced_dynamic.value == pytest.approx(usual.traced_dynamic.value)
    assert found.agreement.pace.parts_dynamic == usual.parts_dynamic
    assert f"In time the parts are {text.percent(1 - usual.time_ratio / 1.5)} shorter" in agreement_sentence(
        found.agreement
    )


def test_pace_adds_the_times_of_the_pass_and_of_the_loop(tmp_path: Path) -> None:
    """The time of a step's parts is the model's and the loop's; idle power x time is taken off both energies."""
    run = build_inference(tmp_path / "run")
    made = report_data(run).generation
    assert made is not None
    found, decode = made.agreement, made.phase("decode")
    assert found is not None
    assert found.pace is not None
    assert decode is not None
    assert decode.energy is not None
    assert decode.static_mj is not None
    assert decode.seconds is not None
    assert decode.power_w is not None
    assert made.loop.seconds is not None
    assert made.new_tokens is not None
    step = run.generation["step"]
    assert found.pace.parts_us == pytest.approx((step["seconds"]["value"] + made.loop.seconds.value) * 1e6)
    assert found.pace.traced_us == pytest.approx(decode.seconds.value / 127 * 1e6)
    loop_mj = found.loop.value - found.pace.idle_w * made.loop.seconds.value * 1e3
    parts = found.pace.parts_dynamic
    assert parts.value == pytest.approx(step["dynamic_mj"]["value"] + loop_mj)
    assert parts.low == pytest.approx(step["dynamic_mj"]["low"] + loop_mj)
    assert found.pace.traced_dynamic.value == pytest.approx((decode.energy.value - decode.static_mj) / 127)
    assert decode.power_w.high is not None
    half = (decode.power_w.high - decode.power_w.value) * decode.seconds.value * 1e3 / 127
    assert found.pace.traced_dynamic.high == pytest.approx(found.pace.traced_dynamic.value + half)


def test_the_pace_of_a_prefill_has_the_share_of_a_call(tmp_path: Path) -> None:
    """Its parts are a pass, a step of the loop and a call of it; what was traced is one prefill."""
    run = build_inference(tmp_path / "run")
    made = report_data(run).generation
    assert made is not None
    prefill = made.phase("prefill")
    assert prefill is not None
    assert prefill.seconds is not None
    assert made.prefill_agreement is not None
    found = made.prefill_agreement.pace
    assert found is not None
    assert made.loop.seconds is not None
    assert made.loop.call_seconds is not None
    root = run.scene("prefill").energy.iloc[0]
    loop_s = made.loop.seconds.value + made.loop.call_seconds.value
    assert found.parts_us == pytest.approx(root["time_us"] + loop_s * 1e6)
    assert found.traced_us == pytest.approx(prefill.seconds.value * 1e6)
    longer = "longer" if found.time_ratio > 1 else "shorter"
    assert f"{text.percent(abs(found.time_ratio - 1))} {longer}" in agreement_sentence(made.prefill_agreement)


def test_without_idle_power_nothing_is_said_of_pace(tmp_path: Path) -> None:
    """GIVEN a trace whose idle energy is unknown, as on the modelled meter, THEN the sentence ends before it."""
    run = build_inference(tmp_path / "run")
    for row in run.generation["phases"]:
        row["static_j"] = row["dynamic_j"] = None
    made = report_data(run).generation
    assert made is not None
    assert made.agreement is not None
    assert made.agreement.pace is None
    assert "In time" not in agreement_sentence(made.agreement)
