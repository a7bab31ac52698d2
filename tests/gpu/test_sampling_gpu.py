"""The interval at which a real board samples its power."""

import subprocess
import sys

import pytest
import torch

from energyscope import user_files
from energyscope.settings.run import RunSettings
from energyscope.stages.measured_devices import find_devices, open_meters
from energyscope.stages.sampling_interval import sampling_interval

pytestmark = pytest.mark.gpu
SEARCHES = 4
CONTEXT_BYTES = 100e6  # the least that one takes


@pytest.mark.timeout(200)
def test_the_interval_found_again_is_the_same(monkeypatch, tmp_path):
    """GIVEN a board that is searched four times THEN the intervals that are found agree to 0.1 %."""
    monkeypatch.setattr(user_files.typer, "get_app_dir", lambda name: str(tmp_path))
    settings = RunSettings("gpt2", weights="random", device="cuda:0")
    where = find_devices(settings)
    with open_meters(settings, where.gpus) as meter:
        found = [sampling_interval(meter, where.device, again=True) for _ in range(SEARCHES)]
    assert all(found)
    assert found == pytest.approx([found[0]] * SEARCHES, rel=0.001)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs a second GPU")
@pytest.mark.timeout(200)
def test_a_second_gpu_is_searched_alone(tmp_path):
    """GIVEN GPU 1 THEN its interval is found, and not even a context (hundreds of MB) is opened on GPU 0."""
    code = (
        "from energyscope import user_files; from energyscope.loading.devices import cuda_uuid; import torch;"
        "from energyscope.metering.nvml.board import Board; from energyscope.stages.doctor import examine;"
        f"user_files.typer.get_app_dir = lambda name: {str(tmp_path)!r};"
        "used = lambda: Board(cuda_uuid(torch.device('cuda:0'))).usage()['memory_used_bytes'];"
        "before = used(); found = examine('cuda:1', thorough=True, seconds=2.0);"
        "print(found['sensor']['sampling_s'], used() - before)"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    interval_s, opened_bytes = asked.stdout.split()
    assert 0.0005 < float(interval_s) < 0.0015
    assert int(opened_bytes) < CONTEXT_BYTES
