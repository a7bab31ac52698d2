"""Commands called in this process: as `python -m energyscope` would run them, without a new interpreter.

Starting one costs seconds, most of them for importing torch. A few tests of each matter start one all the same.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from energyscope.cli.app import main
from energyscope.cli.errors import DEBUG

Command = Callable[..., "CompletedProcess[str]"]


def caller(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command in a folder: its exit code, and what it wrote to each stream."""

    def call(*words: str, cwd: Path, **environment: str) -> CompletedProcess[str]:
        capfd.readouterr()
        handler = signal.getsignal(signal.SIGTERM)
        with monkeypatch.context() as here:
            here.chdir(cwd)
            environment = {"HF_HUB_OFFLINE": "1", "COLUMNS": "200", **environment}
            for name, value in environment.items():
                here.setenv(name, value)
            if constants := sys.modules.get("huggingface_hub.constants"):  # read the environment when imported
                here.setattr(constants, "HF_HUB_OFFLINE", environment["HF_HUB_OFFLINE"] == "1")
            here.setattr(sys, "argv", ["energyscope", *words])
            here.setattr(DEBUG, "on", False)
            try:
                with pytest.raises(SystemExit) as ended:
                    main()
            finally:
                signal.signal(signal.SIGTERM, handler)
        written = capfd.readouterr()
        return CompletedProcess(words, ended.value.code or 0, written.out, written.err)

    return call
