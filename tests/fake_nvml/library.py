"""Builds the stand-in for libnvidia-ml.so.1 and puts it under the real binding; the README has its script."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"
COMPILE_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class FakeNvml:
    """One fake machine: the script that drives it, and the environment in which a process meets it."""

    script: Path
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment of a subprocess that shall see this machine."""
        return {**os.environ, **self.variables}

    @property
    def variables(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.script)}

    def write(self, text: str) -> None:
        """Replace the script, in one step: other processes may read it at this moment. Time 0 is now."""
        draft = self.script.with_suffix(".draft")
        draft.write_text(f"origin {time.monotonic()}\n{text}\n")
        draft.replace(self.script)

    def append(self, text: str) -> None:
        """Add lines (for the last device of the script); time goes on. From now on: ``at 0 ...``."""
        draft = self.script.with_suffix(".draft")
        draft.write_text(f"{self.script.read_text()}{text}\n")
        draft.replace(self.script)

    def plan(self, *events: tuple[float, str]) -> float:
        """Add what happens at seconds after a moment that is still to come, and return that moment (monotonic, s).

        A busy machine may hold this process up until it has passed: then a later one is taken.
        """
        before = self.script.read_text()
        origin_s, ahead_s = float(before.split()[1]), 0.3
        while True:
            zero_s = time.monotonic() + ahead_s
            lines = [f"at {zero_s + seconds - origin_s:.6f} {what}" for seconds, what in events]
            draft = self.script.with_suffix(".draft")
            draft.write_text("\n".join([before.rstrip("\n"), *lines, ""]))
            draft.replace(self.script)
            if time.monotonic() < zero_s:
                return zero_s
            ahead_s *= 2

    def run(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run Python code in a process of its own that sees this machine."""
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=500, check=False)


def build(folder: Path) -> Path:
    """Compile the library into a folder and return the folder.

    Without a compiler the test is skipped, except where tests must be complete (CI is set).
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        reason = "the fake NVML library needs a C compiler: install gcc"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    command = [compiler, *COMPILE_FLAGS, f"-Wl,-soname,{LIBRARY}", "-o", folder / LIBRARY, SOURCE, "-lm"]
    subprocess.run(command, check=True)
    return folder


def put_under(monkeypatch: pytest.MonkeyPatch, machine: FakeNvml) -> None:
    """Let the binding of this very process, and of the processes that it starts, meet a fake machine."""
    import pynvml

    for name, value in machine.variables.items():
        monkeypatch.setenv(name, value)
    # the loader read LD_LIBRARY_PATH when this process began: here, the library is handed to the binding
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(machine.folder / LIBRARY)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
