"""The building blocks do one step each, and what they give agrees with each other."""

from __future__ import annotations

import pytest
import tiny_models
import torch
from clocks import Clock

from energyscope import blocks
from energyscope.benchmarking import loop
from energyscope.blocks import PowerLog, compute_energy, run_inference, warm_up
from energyscope.errors import UsageError
from energyscope.loading import load_model
from energyscope.workloads import profile_inputs

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_model(str(tiny_models.save_model(tmp_path_factory.mktemp("model"), "gpt2")), device="cpu")


def test_a_timed_loop_has_modelled_energy(loaded, monkeypatch):
    """GIVEN a CPU THEN the energy of a pass is its mean time x the stated watts, and says so."""
    clock = Clock(look_s=1e-3)  # which no busy host holds up: a pass takes 2 ms
    for module in (blocks, loop):
        monkeypatch.setattr(module, "time", clock)
    workload = profile_inputs(loaded, sequence_length=8, batch_size=2)
    warm_up(loaded, workload, steps=2)
    hold = loaded.model.register_forward_hook(lambda *_: clock.sleep(1e-3))
    with hold, PowerLog(loaded.device, watts=50.0) as log:
        timing = run_inference(loaded, workload, iterations=100)
    energy = compute_energy(log, timing)
    assert energy.modelled
    assert energy.power_w == pytest.approx(50.0)
    assert timing.mean_latency_s == pytest.approx(2e-3, rel=0.01)
    assert energy.energy_mj == pytest.approx(50e3 * timing.mean_latency_s, rel=0.01)
    assert timing.throughput == pytest.approx(2 / timing.mean_latency_s, rel=0.01)


def test_a_power_meter_is_given_time_to_settle(fake_nvml, monkeypatch, loaded):
    """GIVEN a meter of averaged power THEN a loop that is shorter than its averaging has no energy."""
    fake_nvml("gpu GPU-aaaa Fake T4\nat 0 power_w 60\nat 0 fail field186 3")
    monkeypatch.setattr(blocks, "gpu_uuid", lambda device: "GPU-aaaa")
    workload = profile_inputs(loaded, sequence_length=8)
    with PowerLog(CPU, meter="nvml-power") as log:
        timing = run_inference(loaded, workload, iterations=5)
    energy = compute_energy(log, timing)
    assert energy.energy_mj is None
    assert energy.reason.code == "few-ticks"


def test_the_meters_options_are_handed_on(monkeypatch):
    """The sampling interval and the whole GPU reach the meter that is opened."""
    options = {}

    class Meter:
        modelled = False

    monkeypatch.setattr(blocks, "open_meter", lambda name, **given: options.update(given) or Meter())
    PowerLog(CPU, meter="nvidia-smi", sample_interval_s=0.5, whole_gpu=True)
    assert (options["interval_s"], options["whole_gpu"]) == (0.5, True)


def test_impossible_steps_are_refused(loaded):
    """A loop without iterations, and the energy of a log that still runs, are bad usage."""
    workload = profile_inputs(loaded, sequence_length=8)
    with pytest.raises(UsageError, match="1 or more"):
        run_inference(loaded, workload, iterations=0)
    timing = run_inference(loaded, workload, iterations=1)
    with PowerLog(CPU) as log, pytest.raises(UsageError, match="with block has ended"):
        compute_energy(log, timing)
