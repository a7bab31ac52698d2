"""Shared by all tests; its being here puts this folder on the import path (``run_builder``)."""

from __future__ import annotations

import signal

import pytest
from browsing import browser  # noqa: F401
from commands import Command, caller
from fake_nvml.library import FakeNvml, build, put_under

# A shell that starts the tests in the background lets them ignore Ctrl-C, and what they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def fake_nvml_folder(tmp_path_factory):
    """The folder with the compiled fake NVML library."""
    return build(tmp_path_factory.mktemp("fake-nvml"))


@pytest.fixture
def fake_nvml(fake_nvml_folder, tmp_path, monkeypatch):
    """Return a function that turns a script into a machine that this process and its children see."""

    def machine(script: str) -> FakeNvml:
        made = FakeNvml(tmp_path / "machine.nvml", fake_nvml_folder)
        made.write(script)
        put_under(monkeypatch, made)
        return made

    return machine


@pytest.fixture
def command(monkeypatch, capfd) -> Command:
    """Return a function that runs a command in this process: its exit code, and what it wrote to each stream."""
    return caller(monkeypatch, capfd)
