"""What `energyscope run` adds to the errors of a run that was begun."""

import errno
import os
from dataclasses import replace

import pytest
from run_builder import build_run

import energyscope
from energyscope.cli import run as command
from energyscope.errors import RunError
from energyscope.runs.store import read_document
from energyscope.settings.run import RunSettings


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), RuntimeError("CUDA error: no such")],
)
def test_a_run_that_ends_early_says_how_to_go_on(error, tmp_path, monkeypatch):
    """GIVEN a run that was begun, and is stopped or fails, THEN a note says how to go on with it."""

    def cut_off(_settings, _console, paths, **_):
        paths.append(tmp_path / "my run")
        raise error

    monkeypatch.setattr("energyscope.cli.progress.measured_in_view", cut_off)
    with pytest.raises(type(error)) as raised:
        command.measure(RunSettings("tiny-gpt2"), None, quiet=True, as_json=False)
    assert raised.value.__notes__ == [f"`energyscope run --resume '{tmp_path}/my run'` goes on"]


def test_a_run_in_which_every_stage_was_skipped_fails(tmp_path, command):
    """GIVEN a stage that has nothing to work on THEN it exits with 1, says why, and leaves no run."""
    done = command("run", "tiny-gpt2", "--stages", "correlate,report", "--name", "empty", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "energyscope: nothing was done (correlate: no energy was measured"
    )
    assert "runs/empty" not in done.stdout
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_resumed_run_of_which_nothing_was_done_is_kept(tmp_path, monkeypatch):
    """GIVEN a run whose stages were all skipped WHEN it was resumed THEN it fails likewise, and the run stays."""
    run = energyscope.run("tiny-gpt2", stages="correlate", max_examples=8, root=tmp_path, name="resumed")
    monkeypatch.setattr("energyscope.cli.progress.measured_in_view", lambda *_, **__: run)
    settings = RunSettings("tiny-gpt2", stages=("correlate",), root=tmp_path)
    for lacking, kept in ((["correlate"], True), (None, False)):
        with pytest.raises(RunError, match="nothing was done"):
            command.measure(settings, lacking, quiet=True)
        assert run.path.is_dir() is kept


def test_a_dry_run_that_is_refused_is_a_failure(tmp_path, command):
    """GIVEN a batch that no memory holds THEN the plan stands and says so, and the exit code is 1."""
    done = command("run", "tiny-gpt2", "--dry-run", "--batch-size", "100000000", cwd=tmp_path)
    assert done.returncode == 1
    assert "REFUSED HERE: a pass of 100000000 x 128 tokens" in done.stdout


@pytest.mark.parametrize("stage", ["generate", "correlate"])
def test_a_dry_run_of_nothing_is_a_failure(stage, tmp_path, command):
    """GIVEN stages that would all be skipped THEN the exit code is that of the run, and the line says why."""
    done = command("run", "tiny-gpt2", "--dry-run", "--stages", stage, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"energyscope: nothing would be done ({stage}: ")


def test_a_new_run_has_the_settings_of_another(command, tmp_path):
    """GIVEN a cell of a sweep that locked the clock WHEN run anew THEN the settings are its, without a lock."""
    settings = RunSettings("tiny-gpt2", stages=("profile",), granularity="coarse", sequence_length=8, device="cpu")
    settings = replace(settings, passes=2, component_budget_s=0.05, window_s=0.01, locked_clock_mhz=1200.0)
    build_run(tmp_path / "cell", settings=settings.document())
    done = command("run", "--resume", "cell", "--root", ".", "--new-run", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (made,) = (path for path in tmp_path.iterdir() if path.name != "cell")
    now = read_document(made)["settings"]
    assert (now["granularity"], now["sequence_length"], now["locked_clock_mhz"]) == ("coarse", 8, None)
