"""Shared by all tests; its being here puts this folder on the import path (``run_builder``)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from browsing import browser  # noqa: F401
from commands import Command, caller
from fake_nvml.library import FakeNvml, build, put_under

from energyscope.metering import claims
from energyscope.metering.modelled import ModelledMeter
from energyscope.metering.rapl.powercap import ROOT_VARIABLE

# A shell that starts the tests in the background lets them ignore Ctrl-C, and what they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The longest files, longest first: one that began last would keep one process busy while the other is done.
LONGEST = (
    "stages/test_resume_run.py",
    "stages/test_stages_plan.py",
    "serving/test_serving_run.py",
    "engines/test_engine_cell.py",
    "stages/test_sweep_engine.py",
    "browser/test_hostile_pages.py",
    "integration/test_run.py",
    "browser/test_accessibility.py",
    "browser/test_narrow.py",
    "docs/test_tutorials.py",
    "metering/test_coverage.py",
    "stages/test_session_coverage.py",
    "integration/test_runs_of_others.py",
    "stages/test_benchmark.py",
    "browser/test_laws_page.py",
    "bundled/test_bundled.py",
    "integration/test_interrupted_runs.py",
    "integration/test_third_party_adapter.py",
    "cli/test_cli.py",
    "cli/test_cli_show.py",
    "loading/test_loading.py",
    "stages/test_torchrun_ranks.py",
    "loading/test_tensor_parallel.py",
    "cli/test_cli_sweep.py",
)


def pytest_collection_modifyitems(items):
    """Let the longest files begin first."""
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(autouse=True, scope="session")
def idle_host():
    """Let the host seem idle: tests run beside each other, and a run says so where the load is high."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
        yield


@pytest.fixture(autouse=True, scope="session")
def brief_windows():
    """Shorten windows of time x watts that no test gives a length, and warm-ups: nothing here is precise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelledMeter, "window_s", 0.05)
        # where no test imports torch, nor does this
        if replayer := sys.modules.get("energyscope.replay.replayer"):
            patch.setattr(replayer, "WARM_UP_S", 0.004)
        yield


@pytest.fixture(autouse=True, scope="session")
def own_claims(tmp_path_factory):
    """Keep fake GPUs of one test process from looking like those of another one that runs beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims, "FOLDER", tmp_path_factory.mktemp("claims"))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_powercap(tmp_path_factory):
    """Hide the energy counters of the processor that runs the tests: what is measured must not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ROOT_VARIABLE, str(tmp_path_factory.mktemp("powercap")))
        yield


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
