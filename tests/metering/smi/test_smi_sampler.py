"""What nvidia-smi prints becomes records, and its end or silence is told."""

from __future__ import annotations

import os

import pytest

from energyscope.metering.smi import sampler as smi_sampler
from energyscope.metering.smi.query import number, values
from energyscope.metering.smi.sampler import loop_command, reading, relay

KEYS = ("reading_w", "sm_clock_mhz", "throttle")


@pytest.fixture
def pipe(monkeypatch):
    """Return both ends of a pipe; standard input, which ends the loop when it closes, stays open."""
    near, far = os.pipe()
    stay, _hold = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(stay))
    yield near, far
    os.close(near)


def relayed(near, silence_s=5.0):
    records = []
    relay(near, KEYS, silence_s, records.append)
    return records


def test_a_line_is_a_record_with_the_time_of_its_arrival():
    """Numbers, bits and missing values are each read as what they are."""
    record = reading(7.0, "250.10, [N/A], 0x0000000000000004", KEYS)
    assert (record["after_s"], record["reading_w"], record["sm_clock_mhz"], record["throttle"]) == (
        7.0,
        250.1,
        None,
        4,
    )


@pytest.mark.parametrize("line", ["[N/A], 1980, 0x4", "0.00, 1980, 0x4", "GPU is lost", "250.1, 1980", ""])
def test_a_line_without_a_power_is_no_record(line):
    """Not available, 0 W, messages and torn lines give nothing."""
    assert reading(7.0, line, KEYS) is None


@pytest.mark.parametrize(("text", "value"), [("12.5", 12.5), ("0x10", 16.0), ("[N/A]", None), ("0xzz", None)])
def test_values_are_numbers_or_nothing(text, value):
    """Decimal and hexadecimal numbers are read, anything else is None."""
    assert number(text) == value


def test_fields_are_split_at_commas():
    """Blanks around values do not matter."""
    assert values(" 1.0, [N/A] ,0x1\r") == ["1.0", "[N/A]", "0x1"]


def test_the_end_of_the_command_is_told(pipe):
    """WHEN the command ends THEN its last words are the reason, after the records that came before."""
    near, far = pipe
    os.write(far, b"200.0, 1, 0x0\r\n201.0, 1, 0x0\r\nGPU is lost\n")
    os.close(far)
    records = relayed(near)
    assert [record.get("reading_w") for record in records] == [200.0, 201.0, None]
    assert records[-1]["lost"] == "nvidia-smi ended by itself: GPU is lost"


def test_silence_is_told(pipe):
    """WHEN nothing comes for too long THEN the last record says so."""
    assert "said nothing" in relayed(pipe[0], silence_s=0.2)[-1]["lost"]


def test_a_single_bad_line_is_left_out(pipe):
    """Only many lines in a row without a power are an end."""
    near, far = pipe
    bad = smi_sampler.MAXIMUM_FAILURES
    os.write(far, b"[N/A], 1, 0x0\n200.0, 1, 0x0\n" + b"[N/A], 1, 0x0\n" * bad)
    records = relayed(near)
    assert len(records) == 2
    assert "no power any more" in records[-1]["lost"]


def test_the_interval_is_in_whole_milliseconds():
    """The command's own loop is used, on one GPU by its UUID."""
    words = loop_command("GPU-a", 0.1, ["power.draw", "clocks.sm"])
    assert words[-2:] == ["-lms", "100"]
    assert "--id=GPU-a" in words
    assert "--query-gpu=power.draw,clocks.sm" in words
