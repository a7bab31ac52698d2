"""`energyscope sweep` on the command line."""

from __future__ import annotations

import errno
import fcntl
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from energyscope.cli.app import app
from energyscope.cli.dry_run import HELD_UNKNOWN, sweep_described
from energyscope.errors import UsageError
from energyscope.runs.sweeps import LOCK_FILE, Sweep, sweep_lock, write_sweep
from energyscope.settings.run import RunSettings
from energyscope.stages import resume_sweep as resuming
from energyscope.stages import sweep as sweeping
from energyscope.stages.sweep import SweepSettings
from energyscope.stages.sweep_dry_run import CellPlan, SweepPlan

SHORT = ["--granularity", "coarse", "--passes", "2", "--component-budget", "0.05",
         "--device", "cpu"]  # fmt: skip


def invoke(*words: Any) -> Result:
    return CliRunner().invoke(app, ["sweep", *(str(word) for word in words)])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A sweep of two cells with the name ``one``: what the command said, and the root; not to be changed."""
    root = tmp_path_factory.mktemp("runs")
    return invoke("tiny-gpt2", "--sequence-length", "8,16", *SHORT, "--root", root, "--name", "one"), root


@pytest.fixture
def root(measured: tuple[Result, Path], tmp_path: Path) -> Path:
    """The root of a copy of that sweep."""
    shutil.copytree(measured[1], tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_it_prints_a_table_and_where_the_sweep_is(measured: tuple[Result, Path]) -> None:
    """A line for each cell, MODELLED where no sensor was read, and the directory."""
    result, root = measured
    assert result.exit_code == 0, result.output
    for word in ("MODELLED", "tiny-gpt2, forward passes", "Per token", "Sweep:"):
        assert word in result.output
    assert (root / "one" / "fp32-b1-s8" / "run.json").is_file()
    runs = CliRunner().invoke(app, ["runs", "--root", str(root)])
    assert runs.exit_code == 0, "a sweep is no run, and lists as none"


def test_json_is_the_cells_and_nothing_else(tmp_path: Path) -> None:
    """--json prints the cells on standard output; one cell alone is said to give no law."""
    result = invoke("tiny-gpt2", "--sequence-length", "8", *SHORT, "--json", "--root", tmp_path, "--name", "one")
    assert result.exit_code == 0, result.output
    (cell,) = json.loads(result.stdout)
    assert (cell["cell"], cell["state"], cell["modelled"]) == ("fp32-b1-s8", "done", True)
    shown = invoke("--resume", "one", "--root", tmp_path)
    assert "One cell gives no law" in shown.output


def test_a_file_holds_the_options_and_the_command_line_wins(tmp_path: Path) -> None:
    """GIVEN a TOML file with lists THEN its words are the options', and one that is given beside it counts."""
    file = tmp_path / "two.toml"
    file.write_text(
        'model = "tiny-gpt2"\nsequence-length = [8, 16]\nbatch-size = 2\nprecision = ["fp32"]\npasses = 1\n'
        'granularity = "coarse"\ncomponent-budget = 0.05\ndevice = "cpu"\nname = "of-file"\n'
    )
    result = invoke(file, "--sequence-length", "8", "--json", "--root", tmp_path, "--passes", "2")
    assert result.exit_code == 0, result.output
    assert [cell["cell"] for cell in json.loads(result.stdout)] == ["fp32-b2-s8"]
    settings = json.loads((tmp_path / "of-file" / "sweep.json").read_text())["settings"]
    assert (settings["run"]["passes"], settings["run"]["granularity"]) == (2, "coarse")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('model = "tiny-gpt2"\nsequence-lenght = [8]', "did you mean 'sequence-length'"),
        ('model = "tiny-gpt2"\nresume = "x"', "no option is called 'resume'"),
        ('model = "tiny-gpt2"\npasses = 2.5', "passes = 2.5: give a whole number"),
        ('model = "tiny-gpt2"\npasses = true', "passes = True: give a whole number"),
        ('model = "tiny-gpt2"\nwhole-gpu = 1', "give true or false"),
        ('model = "tiny-gpt2"\nphase = ["decode"]', "give text in quotes"),
        ('model = "tiny-gpt2"\nsequence-length = [8.5]', "give one or a list"),
        ('model = "tiny-gpt2"\nsequence-length = ["many"]', "is no list of whole numbers"),
        ('model = "tiny-llama"\nphase = "decode"\nsequence-length = [8]', "give --context-length"),
        ("sequence-length = [8]", "names no model"),
        ("model = ", "is no TOML file"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_is_one_line_and_makes_nothing(tmp_path: Path, text: str | None, complaint: str) -> None:
    """Exit code 2, with the key and what to give."""
    file = tmp_path / "bad.toml"
    if text is not None:
        file.write_text(text)
    result = invoke(file, "--root", tmp_path / "runs")
    assert result.exit_code == 2, result.output
    assert complaint in " ".join(result.output.split())
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["tiny-gpt2", "--sequence-length", "8,many"], "is no list of whole numbers"),
        (["tiny-gpt2", "--sequence-length", "8,999999"], "is too long"),
        (["tiny-gpt2", "--phase", "sideways"], "--phase"),
        (["tiny-gpt2", "--name", "a/b"], "is not a run name"),
        (["tiny-gpt2", "--resume", "x"], "leave the model out"),
        (["--resume", "x", "--batch-size", "1"], "leave --batch-size out"),
        (["tiny-gpt2", "--retry"], "--resume"),
        ([], "name a model"),
        (["tiny-llama", "--phase", "decode", "--sequence-length", "8"], "give --context-length"),
        (["tiny-llama", "--context-length", "8"], "give --sequence-length"),
    ],
)
def test_bad_options_are_one_line_and_make_nothing(tmp_path: Path, words: list[str], complaint: str) -> None:
    """Exit code 2, with what to do: a resumed sweep takes no settings, and lengths are those of the phase."""
    result = invoke(*words, "--root", tmp_path / "runs")
    assert result.exit_code == 2, result.output
    assert complaint in " ".join(result.output.split())
    assert not (tmp_path / "runs").exists()


def test_a_sweep_is_gone_on_with_by_its_name(root: Path) -> None:
    """GIVEN a sweep of which a cell waits THEN --resume measures it; with nothing left it shows the table."""
    file = root / "one" / "sweep.json"
    document = json.loads(file.read_text())
    kept = document["cells"][0]["seconds"]
    document["cells"][1] |= {"state": "waiting", "seconds": None}
    file.write_text(json.dumps(document))
    for reference in ("one", str(file)):
        result = invoke("--resume", reference, "--root", root, "--json")
        assert result.exit_code == 0, result.output
        cells = json.loads(result.stdout)
        assert [cell["state"] for cell in cells] == ["done", "done"]
        assert cells[0]["seconds"] == kept
    missing = invoke("--resume", "nowhere", "--root", root)
    assert missing.exit_code == 1
    assert "no sweep 'nowhere'" in missing.output


def test_a_dry_run_says_what_would_be_measured(tmp_path: Path) -> None:
    """--dry-run lists the cells and a time, of a sweep that cannot begin why, and makes nothing."""
    shape = ["tiny-gpt2", "--batch-size", "1,4", "--device", "cpu", "--root", tmp_path / "runs", "--dry-run"]
    result = invoke(*shape, "--sequence-length", "8,16")
    assert result.exit_code == 0, result.output
    for words in (
        "4 cells, each a run at medium granularity",
        "fp32-b4-s16  4 x 16 tokens",
        "time: ",
        "--dry-run",
    ):
        assert words in result.output
    refused = invoke(*shape, "--sequence-length", "8,4096")
    assert refused.exit_code == 2  # as the sweep itself would end
    assert "NOT POSSIBLE HERE: --sequence-length 4096 is too long" in refused.output
    assert "REFUSED: the sweep would not begin" in refused.output
    assert "time: " not in refused.output
    plan = json.loads(invoke(*shape, "--sequence-length", "8", "--json").stdout)
    assert [cell["name"] for cell in plan["cells"]] == ["fp32-b1-s8", "fp32-b4-s8"]
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_says_the_time_of_all_models_and_workers(tmp_path: Path) -> None:
    """GIVEN two models and two workers THEN the time of all cells, and that with these; of one, neither."""
    file = tmp_path / "two.toml"
    file.write_text('model = ["tiny-gpt2", "tiny-llama"]\nsequence-length = [8]\ndevice = "cpu"\n')
    assert "of measuring\n" in invoke(file, "--dry-run").output
    two = invoke(file, "--workers", "2", "--dry-run").output
    assert re.search(r"time in all: .* of measuring; .* with 2 workers", two)
    one = invoke("tiny-gpt2", "--sequence-length", "8", "--device", "cpu", "--dry-run").output
    assert "time in all" not in one


def test_a_dry_run_of_a_resume_says_what_is_lacking(root: Path) -> None:
    """GIVEN a sweep of which a cell's run is gone THEN that cell alone would be measured."""
    (root / "one" / "fp32-b1-s16" / "run.json").unlink()
    result = invoke("--resume", "one", "--root", root, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "1 cell, each a run at coarse granularity" in result.output
    assert "1 cell of the sweep stays as it is" in result.output
    assert "fp32-b1-s8 " not in result.output


def begun(root: Path) -> Path:
    """Return a sweep of which no cell was measured yet."""
    settings = SweepSettings(RunSettings("tiny-gpt2", root=root, device="cpu", phase="prefill"), lengths=(8,))
    made = Sweep(root / "one", "one", "tiny-gpt2", "", None, sweeping._plain(settings), settings.cells())
    made.path.mkdir(parents=True)
    write_sweep(made)
    return made.path


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_dry_run_of_a_sweep_that_another_process_measures_is_refused(tmp_path: Path, more: list[str]) -> None:
    """GIVEN another holder of the sweep THEN the dry run says so, with exit code 2; once it has gone, not."""
    path = begun(tmp_path)
    with sweep_lock(path):
        result = invoke("--resume", "one", "--root", tmp_path, "--dry-run", *more)
    assert result.exit_code == 2
    assert "is being measured by another process: wait for its end, or stop it" in result.output
    assert ("REFUSED: the sweep would not begin" in result.output) == (not more)
    free = invoke("--resume", "one", "--root", tmp_path, "--dry-run", *more)
    assert free.exit_code == 0, free.output
    assert "another process" not in free.output


def test_a_sweep_of_which_nobody_can_tell_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a lock that cannot be read THEN the dry run says so, and the sweep before it begins."""
    path = begun(tmp_path)
    (path / LOCK_FILE).touch()
    monkeypatch.setattr(fcntl, "flock", without_locks)
    planned = invoke("--resume", "one", "--root", tmp_path, "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert HELD_UNKNOWN in planned.output
    assert json.loads(invoke("--resume", "one", "--root", tmp_path, "--dry-run", "--json").stdout)["held"] is None
    monkeypatch.setattr(resuming, "resume", lambda *_, **__: (_ for _ in ()).throw(UsageError("enough")))
    assert HELD_UNKNOWN in invoke("--resume", "one", "--root", tmp_path).stderr
    assert HELD_UNKNOWN not in invoke("--resume", "one", "--root", tmp_path, "--quiet").stderr


def without_locks(_file: object, _how: int) -> None:
    raise OSError(errno.ENOLCK, "no locks")


def test_a_plan_shows_no_control_characters(tmp_path: Path) -> None:
    """GIVEN names and reasons that would steer a terminal THEN a plan shows their letters alone, a line each."""
    hostile = "a\x1b[2Jb\r\nc"
    cell = CellPlan("fp32-b1-s8", "fp32", 1, 8, None, hostile)
    plan = SweepPlan(
        model=hostile, phase="prefill", device="cpu", gpus=(), parameters=None, granularity="coarse",
        execution="eager", cells=(cell,), done=0, windows=0, seconds=0.0, seconds_most=0.0, free_bytes=None,
        stopped=hostile,
    )  # fmt: skip
    lines = sweep_described(plan).split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    assert sum("a [2Jb c" in line for line in lines) == 3
