"""The whole job on a bundled model, as a user and as a script would do it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import energyscope
from energyscope.reasons import split
from energyscope.runs import schema
from energyscope.runs.store import list_runs, load_run, read_journal

ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
pytestmark = pytest.mark.timeout(2000)  # whole runs, and three of them for the fixture
QUICK = ["--passes", "2", "--target-interval", "0.9", "--max-examples", "32", "--sequence-length", "32",
         "--trials", "1", "--benchmark-precision", "fp32,bf16"]  # fmt: skip


UNTIMED = ["--stages", "profile,ablate,correlate,report"]


def command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "energyscope", *arguments],
        cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["tiny-gpt2", "tiny-distilbert", "tiny-llama"])
def finished(request, tmp_path_factory):
    """Return a finished fine run of each bundled model, made by the command line."""
    folder = tmp_path_factory.mktemp("work")
    done = command("run", request.param, "--granularity", "fine", "--name", "one", *QUICK, cwd=folder)
    assert done.returncode == 0, done.stderr
    return load_run("one", folder / "runs"), done


def test_every_file_of_the_design_is_there(finished):
    """All stages ran: tables, correlation, journal and report exist, and no trace of a modelled meter."""
    run, _ = finished
    names = {path.name for path in run.path.iterdir()}
    expected = {
        schema.RUN_FILE, schema.JOURNAL_FILE, schema.ENERGY_FILE, schema.IMPACT_FILE, schema.EXAMPLES_FILE,
        schema.MERGED_FILE, schema.CORRELATION_FILE, schema.REPORT_FILE, schema.BENCHMARK_FILE,
        schema.BENCHMARK_JSON,
    }  # fmt: skip
    if run.document["settings"]["phase"] == "both":  # a chat model's generation
        expected |= {schema.GENERATION_JSON, schema.ALTERNATIVES_JSON}
    assert names == expected


def test_the_tables_begin_with_the_columns_of_the_design(finished):
    """Columns are exactly the schema's, in its order."""
    run, _ = finished
    assert tuple(run.energy.columns) == schema.ENERGY_COLUMNS
    assert tuple(run.impact.columns) == schema.IMPACT_COLUMNS
    assert {"zero:kl", "mean:kl", "mean:top1_agreement"} <= set(run.merged.columns)


def test_learned_structure_shows_in_the_impact(finished):
    """On trained weights, removing some component costs far more than removing another."""
    run, _ = finished
    kl = run.impact[(run.impact["metric"] == "kl") & run.impact["valid"]]["value"]
    assert kl.max() > 10 * kl.min() >= 0


def test_modelled_is_said_everywhere(finished):
    """The terminal, the documents and the page all say that energy is modelled."""
    run, done = finished
    assert run.modelled
    assert "MODELLED" in done.stdout
    assert run.correlation["compared"]["modelled"] is True
    assert "MODELLED" in (run.path / schema.REPORT_FILE).read_text(encoding="utf-8")


def test_the_report_is_self_contained_and_small(finished):
    """No script, style, font or image comes from elsewhere; under 3 MB."""
    page = (finished[0].path / schema.REPORT_FILE).read_text(encoding="utf-8")
    assert len(page.encode()) < 3e6
    assert not [word for word in ('src="http', 'href="http', "@import", "url(http") if word in page]


def test_plain_output_has_no_escape_codes(finished):
    """Without a terminal there are plain lines, which name every stage."""
    _, done = finished
    assert "\x1b" not in done.stdout
    assert [
        word for word in ("load:", "profile:", "ablate:", "correlate:", "report:") if word not in done.stdout
    ] == []


def test_a_report_renders_again_without_measuring(finished):
    """`report` makes the page anew from the tables alone, the journal untouched."""
    run, _ = finished
    page, journal = run.path / schema.REPORT_FILE, (run.path / schema.JOURNAL_FILE).read_bytes()
    page.unlink()
    done = command("report", "one", cwd=run.path.parent.parent)
    assert done.returncode == 0, done.stderr
    assert page.exists()
    assert (run.path / schema.JOURNAL_FILE).read_bytes() == journal


def test_a_run_compared_with_itself_shows_no_difference(finished):
    """`compare` of a run with itself finds nothing that is less or more."""
    run, _ = finished
    done = command("compare", "one", "one", "--json", cwd=run.path.parent.parent)
    assert done.returncode == 0, done.stderr
    assert '"more"' not in done.stdout
    assert '"less"' not in done.stdout


def test_runs_are_listed(finished):
    """`runs --json` gives the run with its state."""
    run, _ = finished
    listed = json.loads(command("runs", "--json", cwd=run.path.parent.parent).stdout)
    assert [(one["name"], one["state"]) for one in listed] == [("one", "done")]


def test_a_name_that_exists_is_refused_and_nothing_is_lost(finished):
    """A second run of the same name is refused with exit code 2, and the first one is as it was."""
    run, _ = finished
    before = (run.path / schema.RUN_FILE).read_bytes()
    done = command("run", "tiny-gpt2", "--name", "one", cwd=run.path.parent.parent)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--name" in done.stderr
    assert (run.path / schema.RUN_FILE).read_bytes() == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_what_it_finished(number, code, tmp_path):
    """WHEN a run is stopped in its profile THEN the code is right, and the run can be reported."""
    process = subprocess.Popen(
        [sys.executable, "-m", "energyscope", "run", "tiny-gpt2", "--name", "cut", "--passes", "500", *UNTIMED],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _wait_for_windows(tmp_path / "runs" / "cut", 5, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=400)
    assert process.returncode == code
    assert errors.count("\n") == 1
    run = load_run("cut", tmp_path / "runs")
    assert run.document["stages"]["profile"]["state"] == "interrupted"
    assert run.energy is not None
    done = command("report", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (run.path / schema.REPORT_FILE).exists()


def test_an_interrupted_triggered_run_keeps_its_passes(tmp_path):
    """WHEN triggered sampling is stopped THEN the passes that it finished make the table, and a report."""
    process = subprocess.Popen(
        [sys.executable, "-m", "energyscope", "run", "tiny-gpt2", "--name", "cut", "--passes", "100000",
         "--sampling", "triggered", *UNTIMED],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _wait_for(tmp_path / "runs" / "cut", "reads", 12, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 130
    assert errors.count("\n") == 1
    run = load_run("cut", tmp_path / "runs")
    assert run.document["stages"]["profile"]["state"] == "interrupted"
    assert (run.energy["passes"] >= 2).all()
    assert run.energy["energy_mj"].notna().all()
    assert "triggered-sampling" in [one.code for one in split(run.energy["reasons"].iloc[0])]
    done = command("report", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_killed_run_is_recovered_from_its_journal(tmp_path):
    """WHEN a run is killed without notice THEN `report` makes the table from the journal and the page of it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "energyscope", "run", "tiny-gpt2", "--name", "cut", "--passes", "500", *UNTIMED],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _wait_for_windows(tmp_path / "runs" / "cut", 5, process)
    process.kill()
    process.wait(timeout=300)
    assert not (tmp_path / "runs" / "cut" / schema.ENERGY_FILE).exists()
    done = command("report", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert load_run("cut", tmp_path / "runs").energy is not None


def _wait_for_windows(path, number, process):
    _wait_for(path, "window", number, process)


def _wait_for(path, what, number, process):
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline and process.poll() is None:
        if sum(what in entry for entry in read_journal(path)) >= number:
            return
        time.sleep(0.05)
    raise AssertionError(process.communicate()[1])


def test_the_python_api_returns_data_frames(tmp_path):
    """`energyscope.run` returns the tables as data frames, and `load_run` the same."""
    run = energyscope.run(
        "tiny-gpt2", granularity="coarse", passes=2, max_examples=16, root=tmp_path, stages=("profile", "ablate")
    )
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
        passes=2,
        granularity="coarse",
        root=tmp_path,
        stages=("profile", "ablate", "correlate"),
    )
    assert run.impact is None
    assert run.document["stages"]["ablate"]["reason"] == "random-weights"
    assert not (run.path / schema.IMPACT_FILE).exists()
    assert not (run.path / schema.CORRELATION_FILE).exists()
