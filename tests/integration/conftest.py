"""Whole runs, each made once for the class that makes claims on it."""

from __future__ import annotations

import subprocess

import pytest
from whole_run import QUICK, started

from energyscope.runs.store import Run, load_run


@pytest.fixture(scope="class")
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, subprocess.CompletedProcess[str]]:
    """Return a finished run of the class's model, made by the command line, and what the command said."""
    folder = tmp_path_factory.mktemp("work")
    done = started("run", request.cls.model, "--name", "one", *QUICK, *request.cls.options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return load_run("one", folder / "runs"), done
