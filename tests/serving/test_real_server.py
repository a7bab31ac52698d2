"""`transformers serve` with continuous batching and a bundled model: a real engine, from outside."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pandas as pd
import pytest

import energyscope
from energyscope.serving.run import load_serving

MODEL = Path(energyscope.__file__).parent / "bundled" / "tiny-llama"
STARTING_S = 120.0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Start the server, and return its address."""
    port, log = free_port(), tmp_path_factory.mktemp("engine") / "log.txt"
    words = [str(MODEL), "--continuous-batching", "--device", "cpu", "--port", str(port)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    start = [Path(sys.executable).with_name("transformers"), "serve", *words]
    with log.open("wb") as said:
        process = subprocess.Popen(start, stdout=said, stderr=said, env=environment)
    url, deadline = f"http://localhost:{port}", time.monotonic() + STARTING_S
    try:
        while True:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5)  # noqa: S310 - a server of ours
            except OSError:
                time.sleep(0.5)
            else:
                break
        yield url
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.ci
@pytest.mark.slow
def test_a_real_engine_is_measured(engine, tmp_path, command):
    """GIVEN an engine with continuous batching THEN all requests are answered, as long as was asked."""
    words = ("--prompt-tokens", "48", "--new-tokens", "16", "--users", "1,4", "--seconds", "1.5")
    done = command("serving", engine, "--model", str(MODEL), *words, "--name", "real", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = load_serving(tmp_path / "runs" / "real")
    assert (run.loads["failed"] == 0).all()
    requests = pd.read_parquet(tmp_path / "runs" / "real" / "requests.parquet")
    asked = requests[requests["kind"] == "request"]
    assert (asked["new_tokens"] == 16).mean() > 0.9  # the server may not know how to be told not to end early
    assert asked["prompt_tokens"].between(40, 56).all()
    many, one = (run.loads.set_index("load").loc[f"requests by {users}"] for users in (4, 1))
    assert many["requests_per_s"] > one["requests_per_s"]
