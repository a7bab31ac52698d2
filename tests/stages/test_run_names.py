"""The directory of a run: named once there is something to keep, and never another run's."""

from __future__ import annotations

import pytest

from energyscope.errors import UsageError
from energyscope.stages import run as module
from energyscope.stages.run import default_name, run

OPTIONS = {
    "device": "cpu",
    "stages": ("ablate",),
    "weights": "random",
}  # which have no impact: nothing is measured


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

    with pytest.raises(UsageError, match="exists"):
        run("tiny-llama", root=tmp_path, progress=progress, name="mine", **OPTIONS)
