"""On a real NVIDIA GPU: the meter, the replayer, loading and the whole job. Run with `pytest -m gpu tests/gpu`."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import energyscope  # noqa: E402
from energyscope.components import component_tree  # noqa: E402
from energyscope.loading import load_model  # noqa: E402
from energyscope.metering.choice import open_meter  # noqa: E402
from energyscope.metering.interval import spread  # noqa: E402
from energyscope.metering.ticks import mean_power  # noqa: E402
from energyscope.metering.window import estimate_window  # noqa: E402
from energyscope.replay.replayer import Replayer  # noqa: E402
from energyscope.stages.ablate import ablate  # noqa: E402
from energyscope.stages.facts import gpu_uuid  # noqa: E402
from energyscope.workloads import load_evaluation  # noqa: E402

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda", 0)


@pytest.fixture(scope="module")
def meter():
    with open_meter("auto", gpu_uuid=gpu_uuid(DEVICE)) as started:
        yield started


@pytest.fixture(scope="module")
def matmul():
    """Return a round over weights beyond the L2 cache, below the power cap, in calls much longer than a launch."""
    inputs = torch.randn(8, 4096, device=DEVICE, dtype=torch.bfloat16)
    weights = [torch.randn(4096, 16384, device=DEVICE, dtype=torch.bfloat16) for _ in range(3)]
    return [lambda weight=weight: inputs @ weight for weight in weights]


def measure(meter, round_, seconds, takes=5):
    """Return a window's estimate; as in the profile, a window in which ticks were missed is taken again."""
    for _ in range(takes):
        calls = Replayer(DEVICE).run(round_, seconds)
        time.sleep(0.02)
        window = estimate_window(meter.ticks(calls.time_s[0] - 3, calls.time_s[-1]), calls)
        if window.energy_mj is not None:
            return window
    pytest.fail(f"no window of {takes} has an energy: {window.reason}")


def test_auto_is_the_counter_and_it_ticks(meter):
    """GIVEN a GPU THEN auto is the NVML counter, which ticks regularly."""
    time.sleep(2)
    facts = meter.describe()
    assert meter.name == "nvml"
    assert 0.005 < facts["tick_period_s"] < 0.25
    assert facts["tick_jitter_s"] < 0.1 * facts["tick_period_s"]
    assert 0 < facts["read_cost_s"] < 0.05


def test_idle_power_is_plausible_and_below_load(meter, matmul):
    """Power under load is above idle power, which is above 0."""
    Replayer(DEVICE).synchronize()
    time.sleep(1)
    begin = time.monotonic()
    time.sleep(1)
    end = time.monotonic()
    idle = mean_power(meter.ticks(begin, end), begin, end)
    assert 5 < idle < measure(meter, matmul, 1.0).power_w


def test_short_windows_agree_with_each_other_and_with_a_long_one(meter, matmul):
    """Ten short windows spread by at most 3 %, and their mean is within 3 % of one of 8 s."""
    measure(meter, matmul, 3.0)
    short = [measure(meter, matmul, meter.window_s).energy_mj for _ in range(10)]
    long = measure(meter, matmul, 8.0).energy_mj
    assert spread(short) < 0.03
    assert np.mean(short) == pytest.approx(long, rel=0.03)


def test_marks_follow_the_gpu_and_not_the_launches(matmul):
    """The replayer's clock agrees with CUDA's own timing of the same calls to 5 %."""
    calls = Replayer(DEVICE).run(matmul, 0.5)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for number in range(2000):
        matmul[number % len(matmul)]()
    end.record()
    end.synchronize()
    assert calls.seconds / calls.count[-1] == pytest.approx(begin.elapsed_time(end) / 2000 / 1e3, rel=0.05)


def test_random_weights_are_built_on_the_device():
    """A model of 2.5 GB grows the process's peak memory by less than half of that."""
    code = (
        "import resource, torch; torch.zeros(1, device='cuda'); from energyscope.loading import load_model\n"
        "load_model('tiny-gpt2', device='cuda'); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "loaded = load_model('llama-3.2-1b', weights='random', precision='bf16', device='cuda')\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(after - before, loaded.model.dtype, loaded.model.device)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown, dtype, device = done.stdout.split()
    assert int(grown) * 1024 < 1.2e9
    assert (dtype, device) == ("torch.bfloat16", "cuda:0")


@pytest.mark.parametrize("precision", ["int8", "nf4"])
def test_quantized_random_weights_run(precision):
    """INT8 and NF4 linears are built with random weights, and a forward pass is finite."""
    pytest.importorskip("bitsandbytes")
    loaded = load_model("llama-3.2-1b", weights="random", precision=precision, device="cuda")
    with torch.inference_mode():
        logits = loaded.model(torch.arange(16, device=DEVICE)[None]).logits
    assert torch.isfinite(logits).all()


def test_a_model_that_does_not_fit_is_refused_in_one_line(tmp_path):
    """70B in FP32 needs more than any single GPU has: one line says how much, and nothing is written."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "energyscope",
            "run",
            "llama-3.3-70b",
            "--weights",
            "random",
            "--precision",
            "fp32",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "memory" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_whole_job_on_the_gpu(tmp_path):
    """A bundled model's coarse run measures joules and splits them, and its parts add up to it within 20 %.

    Eager passes of so small a model scatter by as much: the interval must meet that band.
    """
    run = energyscope.run(
        "tiny-gpt2",
        granularity="coarse",
        root=tmp_path,
        max_examples=64,
        stages=("profile", "ablate", "correlate"),
    )
    assert not run.modelled
    energy = run.energy
    assert np.allclose(energy["static_mj"] + energy["dynamic_mj"], energy["energy_mj"])
    assert (energy["power_w"] > 0).all()
    closure = run.document["closure"]["model"]
    assert closure["energy_low"] < 1.2, closure
    assert closure["energy_high"] > 0.8, closure
    assert run.trace is not None
    assert run.document["device"]["uuid"] == gpu_uuid(DEVICE)
    assert run.document["sensor"]["idle_w"] > 5


def test_impact_on_the_gpu_is_that_on_the_cpu():
    """The same ablations on the CPU and on the GPU give the same KL divergence to a part in a hundred."""
    values = {}
    for device in ("cpu", "cuda"):
        loaded = load_model("tiny-gpt2", device=device)
        tree = component_tree(loaded.model, loaded.adapter, "coarse")
        rows = ablate(loaded.model, tree, load_evaluation(loaded, max_examples=32)).rows
        values[device] = {(row.component, row.method): row.value for row in rows if row.metric == "kl"}
    known = {key: value for key, value in values["cpu"].items() if value is not None}
    assert {key for key, value in values["cuda"].items() if value is not None} == set(known)
    assert {key: values["cuda"][key] for key in known} == pytest.approx(known, rel=0.01, abs=1e-4)


def test_a_thorough_doctor_finds_the_sensor():
    """`doctor --thorough --json` finds idle power, agreement, the effect of polling and a verdict."""
    command = [sys.executable, "-m", "energyscope", "doctor", "--thorough", "--seconds", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["sensor"]["idle_w"] > 5
    assert found["sensor"]["counter_power"]["ratio"] == pytest.approx(1, abs=0.2)
    assert set(found["sensor"]["polling"]) == {"sampler", "without a pause"}
    assert found["verdict"].startswith("energy-measurable")
