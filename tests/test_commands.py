"""Commands as functions: they take the options of the command line, and do what it does."""

from __future__ import annotations

import pytest
from prediction_builder import planted_run
from run_builder import build_run

import energyscope
from energyscope import commands
from energyscope.cli.app import COMMANDS
from energyscope.errors import UsageError
from energyscope.runs.sweeps import Sweep, SweepCell, write_sweep
from energyscope.settings.run import RunSettings
from energyscope.stages import run as run_stage

WITHOUT = {  # what is only for a terminal, and `serving`, whose function is measure_server
    "check-adapter", "demo", "doctor", "examples", "models", "prepare", "report", "runs", "serving", "show",
}  # fmt: skip


def test_commands_have_functions() -> None:
    """GIVEN the commands THEN each has a function of its name, but for those that are listed here."""
    assert set(COMMANDS) - set(energyscope.__all__) == WITHOUT


@pytest.fixture
def asked(monkeypatch) -> list[RunSettings]:
    """The settings of runs that would have been made."""
    settings: list[RunSettings] = []
    monkeypatch.setattr(run_stage, "run_settings", lambda given, **_: settings.append(given))
    return settings


def test_a_benchmark_has_the_defaults_of_its_command(asked) -> None:
    """GIVEN options by the command's names THEN the settings of a benchmark; unnamed ones are its defaults."""
    commands.benchmark("tiny-gpt2", precision="fp32,bf16", sequence_length=32)
    [settings] = asked
    assert settings.stages == ("benchmark", "report")
    assert settings.benchmark.precisions == ("fp32", "bf16")
    assert (settings.benchmark.sequence_lengths, settings.benchmark.batch_sizes) == ((32,), (1,))
    assert (settings.benchmark.trials, settings.benchmark.trial_seconds) == (5, 2.0)


def test_a_plan_of_a_run_takes_its_settings(asked, tmp_path) -> None:
    """GIVEN a run in the model's place THEN its settings, but for those that are named."""
    run = build_run(tmp_path / "earlier")
    commands.plan("earlier", root=tmp_path, budget="kl 1", seed=7)
    [settings] = asked
    assert (settings.model, settings.seed, settings.budget) == (run.document["settings"]["model"], 7, "kl 1")
    assert settings.stages == ("plan", "report")


def test_an_option_that_there_is_not_is_told(asked) -> None:
    """GIVEN a misspelt option THEN one that is near is named, and nothing is measured."""
    with pytest.raises(UsageError, match="did you mean 'sequence_length'"):
        commands.sweep("tiny-gpt2", sequnce_length=32)
    with pytest.raises(UsageError, match="'trails'"):
        commands.benchmark("tiny-gpt2", trails=3)
    assert not asked


@pytest.fixture
def swept(tmp_path) -> Sweep:
    """A sweep of tiny-gpt2 over three lengths."""
    cells = [SweepCell("fp32", 1, tokens, "prefill", "done") for tokens in (16, 32, 64)]
    made = Sweep(tmp_path / "swept", "swept", "tiny-gpt2", "2026-11-29T00:00:00Z", None, {}, cells)
    for cell in cells:
        planted_run(made.path / cell.name, cell.tokens)
    write_sweep(made)
    return made


def test_laws_and_predictions_of_a_sweep(swept, tmp_path) -> None:
    """GIVEN a sweep, or its path THEN laws that show their sentence, and the same prediction."""
    assert list(swept.table["cell"]) == [cell.name for cell in swept.cells]
    assert swept.cells[0].name in swept._repr_html_()
    laws = commands.laws(swept, name="fitted", root=tmp_path)
    assert laws.folder == tmp_path / "fitted"
    assert "<b>" in laws._repr_html_()
    by_path = commands.predict("tiny-gpt2", str(swept.path), sequence_length=48)
    assert commands.predict("tiny-gpt2", [swept], sequence_length=48) == by_path
    assert by_path["tokens"] == 48


def test_figures_of_runs(tmp_path) -> None:
    """GIVEN a run, or its path THEN its files; GIVEN it twice, or none THEN what to name."""
    run = build_run(tmp_path / "one")
    written = commands.figures(run, format="svg", output=tmp_path / "figures")
    assert {figure.format for figure in written if figure.path} == {"svg"}
    again = commands.figures(run.path, format=["svg"], output=tmp_path / "figures", force=True)
    assert [figure.path for figure in again] == [figure.path for figure in written]
    with pytest.raises(UsageError, match="given twice"):
        commands.figures(run, run.path)
    with pytest.raises(UsageError, match="of one run, or of two"):
        commands.figures()
