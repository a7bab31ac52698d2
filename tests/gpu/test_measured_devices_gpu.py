"""On real GPUs: NVML's names and CUDA's devices meet by UUID, and triggered runs name what they measured."""

from __future__ import annotations

import pytest

import energyscope
from energyscope.loading.devices import visible_gpus
from energyscope.metering.nvml.devices import bare, list_gpus
from energyscope.settings.run import RunSettings
from energyscope.stages.measured_devices import find_devices

pytestmark = pytest.mark.gpu


def test_every_visible_gpu_is_found_by_uuid_and_index():
    """GIVEN any GPU that CUDA sees THEN its UUID and NVML's index of it both lead to CUDA's device."""
    known = {bare(gpu.uuid): gpu for gpu in list_gpus()}
    for uuid, device in visible_gpus().items():
        gpu = known[bare(uuid)]
        for name in (gpu.uuid, str(gpu.index)):
            found = find_devices(RunSettings("gpt2", gpu_id=(name,)))
            assert (found.device, found.gpus) == (device, (gpu.uuid,))


def test_a_triggered_run_on_the_named_gpu(tmp_path):
    """Microsecond components have time, power and no energy; the document names the GPU and its idle power."""
    visible = {bare(uuid): device for uuid, device in visible_gpus().items()}
    gpu = next(gpu for gpu in list_gpus() if bare(gpu.uuid) in visible)
    run = energyscope.run(
        "tiny-gpt2", sampling="triggered", gpu_id=(str(gpu.index),), passes=2, stages=("profile",), root=tmp_path
    )
    assert run.document["device"]["measured"] == [gpu.uuid]
    assert run.document["sensor"]["idle_w"] > 10
    leaves = run.energy[run.energy["kind"].isin(["norm", "lm_head", "embedding"])]
    assert leaves["energy_mj"].isna().all()
    assert leaves["reasons"].str.contains("shorter-than-tick").all()
    assert leaves["power_w"].gt(10).all()
    assert leaves["time_us"].lt(1e5).all()
    assert set(run.energy["device"]) == {str(visible[bare(gpu.uuid)])}
