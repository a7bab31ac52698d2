"""A watching process is started, drained and ended, and never dies unnoticed."""

from __future__ import annotations

import sys

import pytest
from fake_nvml.waiting import wait_until

from energyscope.errors import MeterError
from energyscope.metering.process_meter import Watcher

PATIENT = "import sys; print('{\"n\": 1}', flush=True); sys.stdin.read()"


def drained(watcher):
    """Return the first records that come, or raise what draining raises."""
    records = []
    wait_until(lambda: records.extend(watcher.drain()) or records, "a record")
    return records


def started(code):
    watcher = Watcher([sys.executable, "-c", code])
    watcher.start()
    return watcher


def test_records_come_out_once():
    """Each line is handed out exactly once."""
    watcher = started(PATIENT)
    assert drained(watcher) == [{"n": 1}]
    assert watcher.drain() == []
    watcher.stop()


def test_half_a_line_waits_for_its_rest():
    """A record that is cut by the pipe is handed out when it is whole."""
    watcher = started("import sys,time; w=sys.stdout.write; f=sys.stdout.flush; w('{\"n\"'); f(); time.sleep(0.3);"
                      "w(': 2}\\n'); f(); sys.stdin.read()")  # fmt: skip
    assert drained(watcher) == [{"n": 2}]
    watcher.stop()


def test_stopping_leaves_no_process():
    """The process ends with its standard input, and stopping twice is harmless."""
    watcher = started(PATIENT)
    process = watcher._process
    watcher.stop()
    watcher.stop()
    assert process.poll() is not None


def test_a_process_that_will_not_end_is_killed(monkeypatch):
    """A watcher that ignores its closed input is killed after a while."""
    monkeypatch.setattr("energyscope.metering.process_meter.ENDING_S", 0.2)
    watcher = started("import time; time.sleep(60)")
    process = watcher._process
    watcher.stop()
    assert process.returncode < 0


def test_a_process_that_dies_is_an_error_with_its_last_words():
    """WHEN the process ends by itself THEN the error has its code and the end of what it wrote."""
    watcher = started("raise SystemExit('the driver said no')")
    with pytest.raises(MeterError, match=r"ended \(1\): the driver said no"):
        drained(watcher)
    watcher.stop()


def test_a_process_that_was_killed_is_said_to_be():
    """WHEN somebody kills the process THEN the error names the signal, and where its cause may be found."""
    watcher = started(PATIENT)
    watcher._process.kill()
    watcher._process.wait()
    with pytest.raises(MeterError, match=r"was killed \(SIGKILL\): the kernel's log"):
        wait_until(lambda: watcher.drain() and False, "an error")
    watcher.stop()


def test_a_lost_source_is_told_even_if_the_process_has_ended():
    """The reason that the process wrote last is what the error says."""
    watcher = started('print(\'{"lost": "the GPU is gone"}\')')
    watcher._process.wait()
    with pytest.raises(MeterError, match=r"^the GPU is gone$"):
        drained(watcher)
    watcher.stop()


def test_a_process_that_was_not_started_says_so():
    """Reading before the with block is an error."""
    with pytest.raises(MeterError, match="with"):
        Watcher(["true"]).drain()
