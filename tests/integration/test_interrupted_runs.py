"""Runs that are stopped or killed in their profile: what was finished is kept, and can be reported."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from whole_run import ENVIRONMENT

from energyscope.reasons import split
from energyscope.runs import schema
from energyscope.runs.store import lacking_stages, load_run, read_journal

pytestmark = pytest.mark.timeout(2000)
UNTIMED = ["--stages", "profile,ablate,correlate,report"]
REPLAYED = ["--passes", "500", "--window", "0.03", *UNTIMED]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_what_it_finished(number, code, tmp_path, command):
    """WHEN a run is stopped in its profile THEN the code is right, and the run can be reported."""
    process = subprocess.Popen(
        [sys.executable, "-m", "energyscope", "run", "tiny-gpt2", "--name", "cut", *REPLAYED],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _wait_for_windows(tmp_path / "runs" / "cut", 5, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=400)
    assert process.returncode == code
    assert errors.count("\n") == 1
    run = load_run("cut", tmp_path / "runs")
    assert run.document["stages"]["profile"]["state"] == "interrupted"
    assert run.energy is not None
    done = command("report", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (run.path / schema.REPORT_FILE).exists()


def test_an_interrupted_triggered_run_keeps_its_passes(tmp_path, command):
    """WHEN triggered sampling is stopped THEN the passes that it finished make the table, and a report."""
    process = subprocess.Popen(
        [sys.executable, "-m", "energyscope", "run", "tiny-gpt2", "--name", "cut", "--passes", "100000",
         "--sampling", "triggered", *UNTIMED],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _wait_for(tmp_path / "runs" / "cut", "reads", 12, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 130
    assert errors.count("\n") == 1
    run = load_run("cut", tmp_path / "runs")
    assert run.document["stages"]["profile"]["state"] == "interrupted"
    assert (run.energy["passes"] >= 2).all()
    assert run.energy["energy_mj"].notna().all()
    assert "triggered-sampling" in [part.code for part in split(run.energy["reasons"].iloc[0])]
    done = command("report", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_killed_run_is_recovered_from_its_journal(tmp_path, command):
    """WHEN a run is killed without notice THEN `report` makes the table from the journal and the page of it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "energyscope", "run", "tiny-gpt2", "--name", "cut", *REPLAYED],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _wait_for_windows(tmp_path / "runs" / "cut", 5, process)
    process.kill()
    process.wait(timeout=300)
    assert not (tmp_path / "runs" / "cut" / schema.ENERGY_FILE).exists()
    done = command("report", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert load_run("cut", tmp_path / "runs").energy is not None


QUICK = ["--granularity", "coarse", "--layers", "kinds", "--passes", "2", "--window", "0.02",
         "--max-examples", "4", "--component-budget", "0.1", *UNTIMED]  # fmt: skip


def test_a_run_killed_again_and_again_is_whole_in_the_end(tmp_path, command):
    """WHEN a run is killed in its profile and its ablations, and resumed each time, THEN it lacks nothing.

    Its tables have the rows of a run that nobody killed, and resuming it once more measures nothing.
    """
    words = ["tiny-gpt2", "--name", "cut", *QUICK]
    for what, number in (("window", 4), ("window", 12), ("rows", 6)):
        process = subprocess.Popen(
            [sys.executable, "-m", "energyscope", "run", *words],
            cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        _wait_for(tmp_path / "runs" / "cut", what, number, process)
        process.kill()
        process.wait(timeout=300)
        words = ["--resume", "cut"]
    for reference in (["tiny-gpt2", "--name", "whole", *QUICK], words, words):
        done = command("run", *reference, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "nothing to do" in done.stderr
    cut, whole = (load_run(name, tmp_path / "runs") for name in ("cut", "whole"))
    assert lacking_stages(cut.path) == []
    assert cut.energy["component"].tolist() == whole.energy["component"].tolist()
    assert cut.energy["energy_mj"].notna().all()
    names = ["component", "method", "metric"]
    assert sorted(cut.impact[names].to_numpy().tolist()) == sorted(whole.impact[names].to_numpy().tolist())


def _wait_for_windows(path, number, process):
    _wait_for(path, "window", number, process)


def _wait_for(path, what, number, process):
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline and process.poll() is None:
        if sum(what in entry for entry in read_journal(path)) >= number:
            return
        time.sleep(0.05)
    raise AssertionError(process.communicate()[1])
