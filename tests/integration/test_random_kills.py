"""Runs that are killed at a random moment, and resumed."""

import subprocess
import sys
from pathlib import Path

import pytest
from whole_run import ENVIRONMENT

SCRIPT = Path(__file__).parents[2] / "tools/random_kills.py"


@pytest.mark.ci
@pytest.mark.timeout(2000)
def test_twenty_runs_killed_at_random_moments_are_recovered(tmp_path):
    """WHEN twenty runs are killed at random moments, and resumed, THEN each has what a whole run has, once."""
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, "--kills", "20", "--seed", "1"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 of 20 runs were recovered" in done.stdout
