"""`transformers serve` as a process: a real engine with continuous batching."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STARTING_S = 180.0


@contextmanager
def serving(model: Path, folder: Path, *options: str) -> Iterator[str]:
    """Serve a model's folder and yield the address; what the engine says goes to a file in ``folder``."""
    port, log = _free_port(), folder / "engine.txt"
    start = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model), "--continuous-batching"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as said:
        words = [*start, "--port", str(port), *options]
        process = subprocess.Popen(words, stdout=said, stderr=said, env=environment)
    try:
        _wait_for(f"http://localhost:{port}", process, log)
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTING_S
    while True:
        said = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()  # noqa: S310 - a server of ours
        except OSError:
            time.sleep(0.5)
        else:
            return
