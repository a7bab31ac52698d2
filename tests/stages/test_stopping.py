"""What an interruption says of a run: where its results are, or that there are none."""

from __future__ import annotations

import pytest

from energyscope.stages.run import run

OPTIONS = {"device": "cpu", "stages": ("profile",), "granularity": "coarse", "sequence_length": 8, "passes": 2,
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
        run("tiny-llama", root=tmp_path, progress=stopping("load", 0), **OPTIONS)
    assert caught.value.__notes__ == ["nothing was finished yet, and nothing was kept"]
    assert not (tmp_path / "stopped").exists()


def test_a_stage_that_finished_nothing_leaves_no_result(tmp_path):
    """GIVEN Ctrl-C at the first word of the profile, THEN the note says so and promises no report."""
    with pytest.raises(KeyboardInterrupt) as caught:
        run("tiny-llama", root=tmp_path, progress=stopping("profile", 0), **OPTIONS)
    (note,) = caught.value.__notes__
    assert "no result was kept" in note
    assert not (tmp_path / "stopped" / "per_layer_energy.csv").exists()


def test_what_was_finished_is_named_with_its_place(tmp_path):
    """GIVEN Ctrl-C in the middle of the profile, THEN the note names the run and the command that shows it."""
    with pytest.raises(KeyboardInterrupt) as caught:
        run("tiny-llama", root=tmp_path, progress=stopping("profile", 8), **OPTIONS)
    place = tmp_path / "stopped"
    assert caught.value.__notes__ == [f"what was finished is in {place}; `energyscope report {place}` shows it"]
    assert (place / "per_layer_energy.csv").is_file()
