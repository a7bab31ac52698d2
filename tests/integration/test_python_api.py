"""The job as a script would do it."""

from __future__ import annotations

import energyscope
from energyscope.runs import schema
from energyscope.runs.store import list_runs

QUICK = {"granularity": "coarse", "passes": 2, "window_s": 0.05, "component_budget_s": 0.1}


def test_the_python_api_returns_data_frames(tmp_path):
    """`energyscope.run` returns the tables as data frames, and `load_run` the same."""
    run = energyscope.run("tiny-gpt2", max_examples=16, root=tmp_path, stages=("profile", "ablate"), **QUICK)
    assert run.energy["energy_mj"].notna().all()
    assert run.correlation is None
    again = energyscope.load_run(run.name, tmp_path)
    assert again.energy.equals(run.energy)
    assert [path.name for path in list_runs(tmp_path)] == [run.name]


def test_random_weights_have_no_impact_and_say_why(tmp_path):
    """Impact on random weights means nothing: the stage is skipped with that reason, and leaves no file."""
    run = energyscope.run(
        "tiny-gpt2",
        weights="random",
        root=tmp_path,
        stages=("profile", "ablate", "correlate"),
        **QUICK,
    )
    assert run.impact is None
    assert run.document["stages"]["ablate"]["reason"] == "random-weights"
    assert not (run.path / schema.IMPACT_FILE).exists()
    assert not (run.path / schema.CORRELATION_FILE).exists()
