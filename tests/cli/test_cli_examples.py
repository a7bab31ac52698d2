"""`energyscope examples` and `energyscope demo`: a GPU's answer without a GPU, then one of this machine."""

from __future__ import annotations

import json

import pytest

from energyscope.runs.examples import EXAMPLES, example
from energyscope.runs.store import list_runs, load_run


def test_examples_are_listed_with_their_pages(command, tmp_path):
    """GIVEN the package THEN each example is listed with the path of a page that is there."""
    done = command("examples", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in EXAMPLES:
        assert f"{name}: " in done.stdout
        assert str(example(name) / "report.html") in done.stdout
        assert (example(name) / "report.html").stat().st_size > 100_000


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_shown_by_name(command, tmp_path, name):
    """GIVEN an example's name THEN its answer in joules comes, and other commands find it as a run, anywhere."""
    shown = command("examples", name, cwd=tmp_path).stdout
    assert "NVIDIA H" in shown
    assert "MODELLED" not in shown
    answer = json.loads(command("show", name, "--json", cwd=tmp_path).stdout)
    assert answer["path"] == str(example(name))


def test_a_name_that_is_no_example_is_one_line(command, tmp_path):
    """GIVEN a wrong name THEN one line says so, with the one that was meant."""
    done = command("examples", "llama-1b-width-h10", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "did you mean 'llama-1b-width-h100'" in done.stderr
    assert command("examples", "--open", cwd=tmp_path).returncode == 2


@pytest.mark.slow
def test_the_demo_shows_a_gpu_and_measures_here(command, tmp_path):
    """WHEN the demo runs THEN a GPU's answer comes first, then that of a run with impact and times."""
    done = command("demo", "--root", "made", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, _, second = done.stdout.partition("Now tiny-gpt2")
    assert "NVIDIA H100" in first
    assert "Removing " in second
    assert " of them (100 examples)." in " ".join(second.split())
    (path,) = list_runs(tmp_path / "made")
    run = load_run(path)
    assert run.modelled
    assert run.energy["time_us"].gt(0).any()
    assert run.document["environment"]["threads"] == 1
