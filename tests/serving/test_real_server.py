"""`transformers serve` with continuous batching and a bundled model: a real engine, from outside."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from transformers_serve import serving

import energyscope
from energyscope.serving.run import load_serving

MODEL = Path(energyscope.__file__).parent / "bundled" / "tiny-llama"


@pytest.mark.ci
@pytest.mark.slow
def test_a_real_engine_is_measured(tmp_path, command):
    """GIVEN an engine with continuous batching THEN all requests are answered, as long as was asked."""
    words = ("--prompt-tokens", "48", "--new-tokens", "16", "--users", "1,4", "--rate", "2", "--seconds", "1.5")
    with serving(MODEL, tmp_path, "--device", "cpu") as url:
        done = command("serving", url, "--model", str(MODEL), *words, "--name", "real", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = load_serving(tmp_path / "runs" / "real")
    assert (run.loads["failed"] == 0).all()
    requests = pd.read_parquet(tmp_path / "runs" / "real" / "requests.parquet")
    asked = requests[requests["kind"] == "request"]
    assert (asked["new_tokens"] == 16).mean() > 0.9  # the server may not know how to be told not to end early
    assert asked["prompt_tokens"].between(40, 56).all()
    assert not run.loads.set_index("load").loc["requests at 2 per second", "unsent"]
    many, one = (run.loads.set_index("load").loc[f"requests by {users}"] for users in (4, 1))
    assert many["requests_per_s"] > one["requests_per_s"]
