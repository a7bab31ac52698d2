"""What the fake counters of this folder show, in a file that every process reads: see `place`."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

VARIABLE = "FAKE_COUNTERS"
FOLDER = Path(__file__).parent
PACKAGES = ("amdsmi", "zeus_apple_silicon")


def place(monkeypatch, file: Path, **scene) -> None:
    """Let this process and those that it starts find the packages here, and a scene of them.

    ``begin_s`` (monotonic) is when the counters were at 0; ``step_s`` is their period; at ``reset_s`` they fall
    to 0 again; from ``lost_s`` on each read fails. The packages say what else.
    """
    file.write_text(json.dumps({"begin_s": time.monotonic() - 100.0, "step_s": 0.001, **scene}))
    monkeypatch.setenv(VARIABLE, str(file))
    paths = [str(FOLDER), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.syspath_prepend(FOLDER)
    for name in PACKAGES:
        monkeypatch.delitem(sys.modules, name, raising=False)


def scene() -> dict:
    return json.loads(Path(os.environ[VARIABLE]).read_text())


def lost(now: dict) -> bool:
    return time.monotonic() >= now.get("lost_s", float("inf"))


def seconds(now: dict) -> float:
    """Return since when a counter has been counting (s), in whole periods."""
    moment = time.monotonic()
    begin_s = now["reset_s"] if moment >= now.get("reset_s", float("inf")) else now["begin_s"]
    return (moment - begin_s) // now["step_s"] * now["step_s"]
