"""GPM counters and the memory's power, through the real binding, on a fake library."""

from __future__ import annotations

import time

import pytest
from fake_nvml.waiting import wait_until

from energyscope.errors import MeterError
from energyscope.metering.activity import activity_of, limited_by
from energyscope.metering.nvml.activity import APART_S, ActivityReader, GpmCounters, activity_problems
from energyscope.metering.nvml.board import Board
from energyscope.metering.nvml.meter import NvmlMeter

BARE = "gpu GPU-aaaa Fake H200\nat 0 power_w 200"
HOPPER = f"{BARE}\nat 0 gpm 1\nat 0 gpm2 90\nat 0 gpm5 70\nat 0 gpm10 20\nat 0 gpm12 15\nat 0 gpm4 30"


def read_pair(counters):
    """Read until a pair of samples was far enough apart."""
    pairs = []
    wait_until(lambda: pairs.append(counters.read()) or pairs[-1], "a pair of samples")
    return pairs[-1]


def test_shares_are_those_between_two_samples(fake_nvml):
    """GIVEN steady percentages THEN they are read as shares with their times, the busiest pipe for CUDA cores."""
    fake_nvml(HOPPER)
    begin = time.monotonic()
    counters = GpmCounters(Board("GPU-aaaa"))
    pair = read_pair(counters)
    assert {key: pair[key] for key in ("sm", "tensor", "cuda_cores", "dram")} == {
        "sm": 0.9, "tensor": 0.7, "cuda_cores": 0.3, "dram": 0.2
    }  # fmt: skip
    assert begin <= pair["begin_s"] < pair["end_s"] - APART_S
    counters.close()


def test_no_pair_is_closer_than_a_tenth_of_a_second(fake_nvml):
    """WHEN reads come faster THEN they give nothing, and no sample is taken: the pairs follow on each other."""
    fake_nvml(HOPPER)
    counters = GpmCounters(Board("GPU-aaaa"))
    first, second = read_pair(counters), read_pair(counters)
    assert second["end_s"] - second["begin_s"] > APART_S
    assert second["begin_s"] == pytest.approx(first["end_s"], abs=0.05)
    assert counters.read() == {}


def test_a_board_without_counters_says_why(fake_nvml):
    """GIVEN a board before Hopper THEN both lacks are reasons, and reading gives nothing."""
    fake_nvml(BARE)
    board = Board("GPU-aaaa")
    gpm, memory = activity_problems(board)
    assert (gpm.code, memory.code) == ("activity-unknown", "memory-power-unknown")
    assert "Hopper" in gpm.words
    assert "does not offer it" in memory.words
    assert ActivityReader(board).read() == {}


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("nvmlGpmQueryDeviceSupport", 13, "driver is too old"),
        ("nvmlGpmSampleGet", 3, "does not offer it"),
        ("nvmlGpmSampleGet", 4, "administrator"),
    ],
)
def test_counters_that_cannot_be_read_say_why(fake_nvml, call, code, words):
    """An old driver, MIG mode and missing permission are told apart."""
    fake_nvml(f"{HOPPER}\nat 0 fail {call} {code}")
    with pytest.raises(MeterError, match=words):
        GpmCounters(Board("GPU-aaaa"))
    assert words in activity_problems(Board("GPU-aaaa"))[0].words


@pytest.mark.parametrize("call", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_a_read_that_fails_says_why_and_the_next_pair_begins_afresh(fake_nvml, call):
    """WHEN a read fails in mid-run THEN it gives its reason, and a later pair does not reach back beyond it."""
    machine = fake_nvml(HOPPER)
    counters = GpmCounters(Board("GPU-aaaa"))
    machine.append(f"at 0 fail {call} 999")
    assert "NVMLError_Unknown" in read_pair(counters)["reason"]
    failed_s = time.monotonic()
    machine.append(f"at 0 fail {call} 0")
    assert read_pair(counters)["begin_s"] > failed_s - APART_S


def test_a_metric_that_does_not_answer_is_none(fake_nvml):
    """A single metric that fails is unknown, never 0; of the CUDA cores' pipes the others still count."""
    fake_nvml(f"{HOPPER}\nat 0 fail gpm10 3\nat 0 fail gpm4 3")
    pair = read_pair(GpmCounters(Board("GPU-aaaa")))
    assert (pair["dram"], pair["cuda_cores"], pair["tensor"]) == (None, 0.15, 0.7)


def test_the_memorys_power_is_a_part_of_the_boards(fake_nvml):
    """GIVEN a board that measures its memory THEN that is read, beside the shares or alone."""
    fake_nvml(f"{BARE}\nat 0 memory_w 45")
    board = Board("GPU-aaaa")
    assert board.memory_power_w() == 45
    assert ActivityReader(board).read() == {"memory_w": 45}
    assert [problem.code for problem in activity_problems(board)] == ["activity-unknown"]


def test_a_driver_that_gives_the_boards_power_is_not_believed(fake_nvml):
    """WHEN the driver ignores which power is asked for THEN the memory's is unknown, and not the whole board's."""
    fake_nvml(f"{BARE}\nat 0 memory_w 45\nat 0 ignores_scope 1")
    with pytest.raises(MeterError, match="200 W of 200 W"):
        Board("GPU-aaaa").memory_power_w()


def test_activity_comes_with_the_ticks(fake_nvml):
    """GIVEN a Hopper board THEN the sampler adds samples to its ticks, from which a load's limit follows."""
    fake_nvml(f"{HOPPER}\nat 0 memory_w 45\nat 0 period_s 0.05")
    with NvmlMeter("GPU-aaaa") as meter:
        begin = time.monotonic()

        def pairs():
            ticks = meter.ticks(begin, time.monotonic())
            states = meter.states(begin, time.monotonic()) if len(ticks) else []
            return [state["activity"] for state in states if "begin_s" in state.get("activity", {})]

        wait_until(lambda: len(pairs()) >= 3, "three pairs of samples")
        end = time.monotonic()
        activity = activity_of(meter.states(begin, end), begin, end)
        assert meter.describe()["notes"] == [meter.notes[0]]  # nothing is amiss
    assert (activity.sm, activity.tensor, activity.memory_w) == pytest.approx((0.9, 0.7, 45))
    assert limited_by(activity) == "tensor cores"


def test_a_meter_of_a_board_without_counters_has_a_note(fake_nvml):
    """WHEN a board has no counters THEN the sensor's notes say why, and states have no activity."""
    fake_nvml(f"{BARE}\nat 0 period_s 0.05")
    with NvmlMeter("GPU-aaaa") as meter:
        wait_until(lambda: len(meter.ticks(0.0, time.monotonic())) >= 3, "three ticks")
        assert not any("activity" in state for state in meter.states(0.0, time.monotonic()))
        assert "activity-unknown" in [note.code for note in meter.describe()["notes"]]
