"""What a run's directory says of who made it: nothing."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys

import pytest
from whole_run import ENVIRONMENT

from energyscope import bundled
from energyscope.runs import schema
from energyscope.runs.store import RunStore, lacking_stages

USER, SECRET = "alice-smith", "hf_thesecrettoken"
QUICK = ["--granularity", "coarse", "--passes", "2", "--window", "0.03", "--component-budget", "0.2",
         "--stages", "profile,ablate,correlate,report", "--methods", "zero", "--max-examples", "8"]  # fmt: skip


@pytest.fixture
def home(tmp_path):
    """A user's home folder with a model in it."""
    home = tmp_path / USER
    shutil.copytree(bundled.directory("tiny-gpt2"), home / "models" / "mine")
    return home


def energyscope(home, *words):
    """Run a command as that user does, with tokens in the environment."""
    return subprocess.run(
        [sys.executable, "-m", "energyscope", *words],
        cwd=home, env={**ENVIRONMENT, "HOME": str(home), "USER": USER, "HF_TOKEN": SECRET, "API_KEY": SECRET},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


def contents(folder):
    """Return what each file holds, of compressed ones what they unpack to."""
    for file in filter(lambda path: path.is_file(), folder.rglob("*")):
        content = file.read_bytes()
        yield file.name, gzip.decompress(content) if file.suffix == ".gz" else content


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_a_run_tells_nothing_of_its_user(home):
    """GIVEN a model in a home folder, and tokens WHEN it is run THEN no file has the user's name or a token.

    The run can be resumed all the same: its paths are found again in the home folder.
    """
    model = home / "models" / "mine"
    done = energyscope(home, "run", str(model), "--name", "one", "--note", f"see {home}/notes", *QUICK)
    assert done.returncode == 0, done.stderr
    run = home / "runs" / "one"
    found = {name for name, content in contents(home / "runs") if re.search(f"{USER}|{SECRET}".encode(), content)}
    assert found == set()
    document = json.loads((run / schema.RUN_FILE).read_text())
    assert document["settings"]["model"] == "~/models/mine"
    assert document["note"] == "see ~/notes"
    RunStore.open(run).stage("ablate", "interrupted")
    resumed = energyscope(home, "run", "--resume", "one")
    assert resumed.returncode == 0, resumed.stderr
    assert lacking_stages(run) == []
    assert energyscope(home, "runs").returncode == 0
    found = {name for name, content in contents(home / "runs") if USER.encode() in content}
    assert found == set()
