"""`energyscope plan`: a table, an answer and exit codes; settings of an earlier run."""

from __future__ import annotations

import json

import pytest
from plan_builder import build_plan

from energyscope.errors import RunError
from energyscope.settings.fields import values_of
from energyscope.settings.single_stage import PLAN, plan_settings

SHORT = ("--passes", "2", "--window", "0.02", "--max-examples", "30", "--plan-precisions", "bf16")


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """What the command line gives where nothing is named."""
    defaults, _ = values_of(PLAN, {})
    return {**defaults, "root": tmp_path_factory.mktemp("runs")}


def test_a_plan_is_printed_with_its_answer(tmp_path, command):
    """GIVEN a bundled model THEN the choices, a verdict, and where the page is; --json prints the file."""
    done = command("plan", "tiny-gpt2", *SHORT, "--budget", "perplexity +5%", "--name", "made", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The plan, and other choices" in done.stdout
    assert "BF16 everywhere" in done.stdout
    assert "Report: runs/made/report.html" in done.stdout
    file = json.loads((tmp_path / "runs/made/plan.json").read_text(encoding="utf-8"))
    assert file["budget"]["text"] == "perplexity +5%"
    assert file["precisions"] == ["fp32", "bf16"]


def test_a_run_gives_its_settings(tmp_path, values):
    """GIVEN a run in the model's place THEN its model and settings, but for what was named, its name and place."""
    run = build_plan(values["root"] / "earlier")
    recorded = run.document["settings"]
    settings = plan_settings("earlier", {**values, "seed": 5, "budget": "kl 1"}, ["seed", "budget"])
    assert (settings.model, settings.precision) == (recorded["model"], "bf16")
    assert (settings.seed, settings.budget, settings.name) == (5, "kl 1", None)
    assert settings.execution == recorded["execution"]
    assert settings.stages == ("plan", "report")
    assert plan_settings(str(run.path), values, []).model == recorded["model"]


def test_a_model_is_a_model_whatever_runs_are_called(values):
    """GIVEN a run with the name of a model THEN that model is planned, with the settings of the command line."""
    build_plan(values["root"] / "tiny-llama")
    settings = plan_settings("tiny-llama", values, [])
    assert (settings.model, settings.precision) == ("tiny-llama", "auto")


def test_a_folder_here_is_meant_before_a_run(values, tmp_path, monkeypatch):
    """GIVEN a model's folder and a run of the same name THEN the folder is planned."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    build_plan(values["root"] / "mine")
    for name in ("./mine", "mine"):
        assert plan_settings(name, values, []).model == name


def test_a_budget_that_does_not_hold_is_a_failure(tmp_path, monkeypatch):
    """GIVEN a plan over its budget on the second half THEN one line with what to do, after the answer."""
    from energyscope.cli import plan as module
    from energyscope.settings.run import RunSettings

    run = build_plan(tmp_path / "over", held_out=6e-3)
    monkeypatch.setattr("energyscope.cli.progress.measured_in_view", lambda *_, **__: run)
    with pytest.raises(RunError, match=r"perplexity \+0\.5% does not hold on the second half of the data"):
        module.planned(RunSettings("tiny-gpt2"), quiet=True, as_json=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budget", "0.5%"), 'write it like "perplexity +0.5%"'),
        (("--weights", "random", "--budget", "loss +1"), 'these are random: use --budget "kl 0.01"'),
        (("--objective", "money"), "--objective 'money' is not known"),
        (("--precision", "int8"), "the model is quantized already (int8)"),
        (("--plan-precisions", "int3"), "there is no precision 'int3'"),
    ],
)
def test_bad_input_gets_one_line(tmp_path, command, options, words):
    """GIVEN what cannot be planned THEN exit code 2 and one line."""
    done = command("plan", "tiny-gpt2", *SHORT[:-2], *options, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
