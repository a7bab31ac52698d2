"""`energyscope export`: one file where asked for, notes on the other stream, a line for each bad input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mlflow
import pyarrow.parquet as pq
import pytest
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run
from served_builder import build_served

import energyscope
from energyscope.exporting import FORMATS


@pytest.fixture
def run(tmp_path) -> Path:
    return build_run(tmp_path / "runs" / "first", Shape(layers=2, impact=False, unexplained_share=-0.01)).path


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", FORMATS)
def test_a_modelled_run_says_so_in_every_format(tmp_path, form):
    """GIVEN joules that are time x watts THEN each format says MODELLED; GIVEN measured ones, none does."""
    shape = Inference(layers=1, contexts=(128,))
    for modelled in (True, False):
        sensor = {"meter": "modelled" if modelled else "nvml", "modelled": modelled, "watts": 65.0}
        run = build_inference(tmp_path / f"run-{modelled}", shape, sensor=sensor)
        path = energyscope.export(run, format=form, output=tmp_path / f"{form}-{modelled}").path
        content = str(pq.read_schema(path).metadata) if form == "parquet" else path.read_text()
        assert ("MODELLED" in content) == modelled


@pytest.mark.parametrize("form", [name for name in FORMATS if name != "perfetto"])
def test_one_file_is_written_and_its_path_printed(run, tmp_path, command, form):
    """GIVEN --output THEN that file is all that is written; without, it is in the run's folder."""
    before = files_below(tmp_path)
    done = command("export", "first", "--format", form, "--output", "out.x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "out.x\n")
    assert files_below(tmp_path) - before == {tmp_path / "out.x"}
    done = command("export", str(run), "--format", form, cwd=tmp_path)
    assert files_below(tmp_path) - before - {tmp_path / "out.x"} == {Path(done.stdout.strip())}
    assert Path(done.stdout.strip()).parent == run


def test_what_was_left_out_is_said_on_the_other_stream(run, tmp_path, command):
    """GIVEN remainders below 0 THEN a line names the phase and their sum, and the output is the path alone."""
    done = command("export", "first", "--format", "speedscope", cwd=tmp_path)
    assert done.stdout.count("\n") == done.stderr.count("\n") == 1
    assert done.stderr.startswith("prefill eager: 7 remainders below 0 left out")


def test_a_file_is_replaced_with_force_only(run, tmp_path, command):
    """GIVEN a file, link or folder there THEN it stays; --force replaces a link, not what it leads to."""
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    link = tmp_path / "link"
    link.symlink_to(theirs)
    for place in (theirs, link):
        done = command("export", "first", "--format", "metrics", "--output", str(place), cwd=tmp_path)
        assert done.returncode == 2
        assert "--force" in done.stderr
        assert done.stderr.count("\n") == 1
    done = command("export", "first", "--format", "metrics", "--output", str(link), "--force", cwd=tmp_path)
    assert done.returncode == 0
    assert link.read_text().startswith("{")
    assert theirs.read_text() == "precious"
    done = command("export", "first", "--format", "metrics", "--output", "runs", "--force", cwd=tmp_path)
    assert done.returncode == 2
    assert "is no file" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["first", "--format", "speedscoop"], 2, "did you mean 'speedscope'"),
        (["first", "--format", "metrics", "--table", "trace"], 2, "--table is for parquet"),
        (["first", "--format", "metrics", "--to", "wandb"], 2, "only --to mlflow"),
        (["first", "--format", "parquet", "--to", "mlflow"], 2, "only metrics"),
        (["first", "--format", "parquet", "--table", "../../x"], 2, "--table ../../x"),
        (["first", "--format", "metrics", "--output", "nowhere/out.json"], 2, "choose another --output"),
        (["first", "--format", "perfetto"], 1, "no samples over time"),
        (["server", "--format", "perfetto"], 2, "metrics, model-card, parquet"),
        (["nothing", "--format", "metrics"], 1, "energyscope runs"),
        (["first"], 2, "--format"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, command, arguments, code, word):
    """GIVEN a bad option or run THEN one line says what to do, and nothing is written."""
    build_served(tmp_path / "runs" / "server")
    before = files_below(tmp_path)
    done = command("export", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert word in done.stderr
    assert done.stderr.count("\n") == 1
    assert files_below(tmp_path) == before


def test_mlflow_gets_the_metrics_and_no_file_is_written(run, tmp_path, command):
    """GIVEN --to mlflow THEN the printed ID is that of the run in the store that the environment names."""
    store = tmp_path / "store"
    environment = {"MLFLOW_TRACKING_URI": store.as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    before = files_below(tmp_path)
    arguments = ("export", "first", "--format", "metrics", "--to", "mlflow")
    done = command(*arguments, cwd=tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert all(path.is_relative_to(store) for path in files_below(tmp_path) - before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        logged = mlflow.MlflowClient(store.as_uri()).get_run(done.stdout.strip())
    assert logged.data.metrics["prefill_energy_mj"] > 0


def test_the_module_is_light():
    """Importing the command imports no measuring or tracking library."""
    heavy = "{'torch', 'transformers', 'pandas', 'numpy', 'pyarrow', 'mlflow'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import energyscope.cli.export, sys; print({heavy} or '')"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ""
