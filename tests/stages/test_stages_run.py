"""A run's directory, named once there is something to keep, and what an interruption says of it."""

from __future__ import annotations

import pytest

from energyscope.errors import UsageError
from energyscope.stages import run as module
from energyscope.stages.run import default_name, run

OPTIONS = {"device": "cpu", "stages": ("ablate",), "weights": "random"}  # have no impact: nothing is measured


def test_a_run_begun_in_the_same_second_takes_nothing_away(tmp_path):
    """GIVEN the name that was free at the begin is another run's after the load, THEN the run gets another."""
    others, paths = [], []

    def progress(stage, *_):
        if stage == "load":
            for _ in range(3):  # three more runs, begun in this second and the next ones
                others.append(tmp_path / default_name("tiny-llama", tmp_path))
                others[-1].mkdir()

    done = run(
        "tiny-llama", root=tmp_path, progress=progress, on_open=lambda path, _: paths.append(path), **OPTIONS
    )
    assert done.path not in others
    assert paths == [done.path]
    assert done.document["name"] == done.path.name
    assert not any(list(other.iterdir()) for other in others)


def test_a_name_that_is_taken_between_the_look_and_the_making_is_not_the_end(tmp_path, monkeypatch):
    """GIVEN another process that makes the directory in between, THEN the next free name is tried."""
    names = iter(["llama-1", "llama-1-2"])
    (tmp_path / "llama-1").mkdir()
    monkeypatch.setattr(module, "default_name", lambda *_: next(names))
    assert run("tiny-llama", root=tmp_path, **OPTIONS).path == tmp_path / "llama-1-2"


def test_a_name_that_was_asked_for_is_not_changed(tmp_path):
    """GIVEN --name, taken while the model loads, THEN the run is refused rather than named otherwise."""

    def progress(stage, *_):
        if stage == "load":
            (tmp_path / "mine").mkdir()
            (tmp_path / "mine" / "run.json").write_text("{}")

    with pytest.raises(UsageError, match="exists"):
        run("tiny-llama", root=tmp_path, progress=progress, name="mine", **OPTIONS)


def test_the_two_callbacks_before_on_open_still_work(tmp_path):
    """GIVEN the names of earlier versions, THEN both are called, and a warning names the new one."""
    paths, estimates = [], []
    with pytest.warns(DeprecationWarning, match="on_open"):
        done = run("tiny-llama", root=tmp_path, follow=paths.append, on_estimates=estimates.append, **OPTIONS)
    assert paths == [done.path]
    assert set(estimates[0]) >= {"ablate"}


# --- interruptions ----------------------------------------------------------------------------------------------

PROFILE = {"device": "cpu", "stages": ("profile",), "granularity": "coarse", "sequence_length": 8, "passes": 2,
           "component_budget_s": 0.05, "window_s": 0.01, "name": "stopped"}  # fmt: skip


def stopping(stage, after):
    """Return a listener that stops the run as Ctrl-C does once a stage has told of more than so many steps."""
    heard = []

    def progress(name, *_):
        if name == stage:
            heard.append(name)
        if len(heard) > after:
            raise KeyboardInterrupt

    return progress


def test_before_anything_is_finished_nothing_is_kept(tmp_path):
    """GIVEN Ctrl-C while the model loads, THEN there is no run and the note says that nothing was kept."""
    with pytest.raises(KeyboardInterrupt) as caught:
        run("tiny-llama", root=tmp_path, progress=stopping("load", 0), **PROFILE)
    assert caught.value.__notes__ == ["nothing was finished yet, and nothing was kept"]
    assert not (tmp_path / "stopped").exists()


def test_a_stage_that_finished_nothing_leaves_no_result(tmp_path):
    """GIVEN Ctrl-C at the first word of the profile, THEN the note says so and promises no report."""
    with pytest.raises(KeyboardInterrupt) as caught:
        run("tiny-llama", root=tmp_path, progress=stopping("profile", 0), **PROFILE)
    (note,) = caught.value.__notes__
    assert "no result was kept" in note
    assert not (tmp_path / "stopped" / "per_layer_energy.csv").exists()


def test_what_was_finished_is_named_with_its_place(tmp_path):
    """GIVEN Ctrl-C in the middle of the profile, THEN the note names the run and the command that shows it."""
    with pytest.raises(KeyboardInterrupt) as caught:
        run("tiny-llama", root=tmp_path, progress=stopping("profile", 2), **PROFILE)
    place = tmp_path / "stopped"
    assert caught.value.__notes__ == [f"what was finished is in {place}; `energyscope report {place}` shows it"]
    assert (place / "per_layer_energy.csv").is_file()
