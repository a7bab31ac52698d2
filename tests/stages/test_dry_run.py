"""A plan says what a run would do, and refuses what the run would refuse."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import tiny_models
import torch
from fake_powercap import one_socket

from energyscope.errors import MeterError, UsageError
from energyscope.loading import devices
from energyscope.loading.options import LoadOptions, LoadSettings
from energyscope.metering.rapl.powercap import ROOT_VARIABLE
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.run import RunSettings
from energyscope.stages import dry_run as stage
from energyscope.stages import pace_estimates
from energyscope.stages.dry_run import preview, stage_times
from energyscope.stages.measured_devices import MeasuredDevices


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny_models.save_model(tmp_path_factory.mktemp("model"), "gpt2"))


def plan(model, root, **changes):
    return preview(RunSettings(model, root=root, device="cpu", **changes))


def test_a_plan_counts_what_is_measured(model, tmp_path):
    """Components, targets by what they are, windows and ablations are those of the run."""
    planned = plan(model, tmp_path, granularity="medium", passes=4)
    assert planned.components == sum(planned.kinds.values()) == 15
    assert planned.targets == {"node": 15, "glue": 3}
    assert planned.windows == 4  # of all together
    assert planned.ablations == 14 * 4 + 2 + 4 * 2  # by every method, layers skipped, kinds removed together
    assert (planned.batch_size, planned.sequence_length, planned.gpus) == (1, 32, ())
    assert list(tmp_path.iterdir()) == []


def test_a_plan_says_what_the_weights_take(model, tmp_path):
    """Quantized weights take less than unquantized ones, and both fit here."""
    wide, narrow = (plan(model, tmp_path, precision=precision) for precision in ("fp32", "nf4"))
    assert wide.weight_bytes > narrow.weight_bytes > 0
    assert wide.weight_bytes == 4 * wide.parameters
    assert wide.refused is None


def test_a_plan_says_that_there_is_no_room(model, tmp_path, monkeypatch):
    """GIVEN weights beyond the free memory THEN the plan stands, and says what the run would be refused for."""
    monkeypatch.setattr(devices, "free_bytes", lambda device: 1000)
    assert "and cpu has 0.0 GB free" in plan(model, tmp_path).refused


def test_a_benchmark_alone_needs_room_for_one_of_its_precisions(model, tmp_path, monkeypatch):
    """GIVEN room for half of the FP32 weights THEN a benchmark of FP32 and BF16 would run, and FP32 alone not."""
    room = plan(model, tmp_path, precision="fp32").weight_bytes * 3 // 4
    monkeypatch.setattr(devices, "free_bytes", lambda device: room)
    refused = [
        plan(model, tmp_path, stages=("benchmark",), benchmark=BenchmarkSettings(precisions=names)).refused
        for names in (("fp32", "bf16"), ("fp32",))
    ]
    assert refused[0] is None
    assert "needs about" in refused[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor_parallel": True}, "needs a process for each GPU"),
        ({"precision": "nf4", "skip_modules": ("nope.nope",)}, "nope.nope"),
    ],
)
def test_a_plan_is_refused_for_what_the_run_would_be_refused_for(model, tmp_path, changes, message):
    """What does not fit the model or the machine is refused before anything is planned."""
    with pytest.raises(UsageError, match=message):
        plan(model, tmp_path, **changes)


def test_a_generation_beyond_the_positions_is_skipped(model, tmp_path):
    """GIVEN more new tokens than positions THEN nothing will be generated, and the plan says how many fit."""
    stages = ("generate", "profile")
    planned = plan(model, tmp_path, phase="both", new_tokens=5000, sequence_length=8, stages=stages)
    assert (planned.skipped["generate"].code, planned.skipped["generate"].values["left"]) == (
        "too-few-positions",
        24,
    )
    assert planned.generate_seconds == 0


def test_effort_is_in_the_expected_time(model, tmp_path):
    """More passes take longer; a larger budget only makes the most longer."""
    base, more, longer = (
        plan(model, tmp_path, **change) for change in ({}, {"passes": 10}, {"component_budget_s": 20.0})
    )
    assert base.profile_seconds < base.profile_seconds_most
    assert more.profile_seconds == pytest.approx(2 * base.profile_seconds, rel=0.05)
    assert longer.profile_seconds == base.profile_seconds
    assert longer.profile_seconds_most > 3 * base.profile_seconds_most


def times_of(model, root, **changes):
    settings = RunSettings(model, root=root, device="cpu", **changes)
    return stage_times(settings, preview(settings))


def test_every_stage_of_a_small_model_has_a_time(tmp_path):
    """GIVEN a bundled model THEN trials and ablations have times by a timed pass, the others those of the plan."""
    times = times_of("tiny-llama", tmp_path, phase="both", max_examples=8)
    planned = plan("tiny-llama", tmp_path, phase="both", max_examples=8)
    assert list(times) == ["benchmark", "generate", "profile", "alternatives", "ablate", "correlate", "report"]
    assert 0 < times["ablate"].least_s < times["ablate"].most_s
    assert 0 < times["benchmark"].least_s < times["benchmark"].most_s
    assert planned.profile_seconds <= times["profile"].least_s < times["profile"].most_s
    assert times["generate"].least_s == planned.generate_seconds > 0
    assert 0 < times["correlate"].least_s < times["correlate"].most_s
    assert 0 < times["report"].least_s < times["report"].most_s
    more = times_of("tiny-llama", tmp_path, phase="prefill", stages=("ablate",), max_examples=8)
    assert list(more) == ["ablate"]


def test_a_large_batch_takes_longer(tmp_path):
    """GIVEN passes of 500 examples THEN the profile is foreseen to take longer than with one."""
    one, many = (
        times_of("tiny-gpt2", tmp_path, stages=("profile",), batch_size=size)["profile"] for size in (1, 500)
    )
    assert many.least_s > 3 * one.least_s


def test_what_is_refused_has_no_times(tmp_path):
    """GIVEN a batch beyond the memory THEN no stage is said to take some seconds."""
    assert times_of("tiny-gpt2", tmp_path, batch_size=1_000_000) == {}


def test_data_that_may_have_to_be_downloaded_are_not_read(model, tmp_path, monkeypatch):
    """GIVEN a folder, and no data THEN what is judged on data has no time; nothing is fetched."""
    monkeypatch.setattr(stage, "evaluation_of", Mock(side_effect=AssertionError))
    times = times_of(model, tmp_path)
    assert (times["benchmark"], times["ablate"]) == (None, None)
    assert [stage.why_no_time(name).code for name in ("ablate", "plan")] == ["no-pass-timed", "plan-sets-its-work"]


@pytest.mark.parametrize("changes", [{"weights": "random", "precision": "bf16"}, {"precision": "bf16"}])
def test_a_model_that_is_not_small_or_not_here_is_not_loaded(tmp_path, monkeypatch, changes):
    """GIVEN a model of the hub THEN nothing is loaded; trials have their limits where nothing else is judged."""
    monkeypatch.setattr(stage, "load", Mock(side_effect=AssertionError))
    times = times_of("llama-3.2-1b", tmp_path, **changes)
    trials = plan("llama-3.2-1b", tmp_path, **changes).trials
    if "weights" in changes:
        assert times["benchmark"][:2] == (0.0, 2.0 * trials * BenchmarkSettings().trial_seconds)
        assert "ablate" not in times
    else:
        assert (times["benchmark"], times["ablate"]) == (None, None)
    assert times["profile"].least_s > 0


def test_a_model_that_fails_in_its_pass_has_no_time(tmp_path, monkeypatch):
    """WHEN a pass raises THEN the plan stands, and these stages' times are unknown: the run says why."""
    monkeypatch.setattr(pace_estimates, "_pass_s", Mock(side_effect=RuntimeError))
    times = times_of("tiny-gpt2", tmp_path, max_examples=8)
    assert (times["benchmark"], times["ablate"]) == (None, None)


def test_a_measured_run_idles_and_preheats(model, tmp_path, monkeypatch):
    """GIVEN a GPU THEN its UUID and the longer windows, preheating and idling are in the plan."""
    devices = MeasuredDevices(torch.device("cuda", 0), ("GPU-aaaa",))
    modelled = plan(model, tmp_path, execution="eager")
    monkeypatch.setattr(stage, "find_devices", lambda settings: devices)
    monkeypatch.setattr(stage, "resolve_precision", lambda *words: "fp32")
    monkeypatch.setattr(
        LoadSettings, "resolved", lambda self: LoadOptions(precision="fp32", device=torch.device("cpu"))
    )
    measured = plan(model, tmp_path, stages=("profile",))
    assert measured.gpus == ("GPU-aaaa",)
    assert measured.profile_seconds > 2 * modelled.profile_seconds
    triggered = plan(model, tmp_path, sampling="triggered", passes=2, stages=("profile",))
    assert triggered.profile_seconds > 3


def test_a_processor_that_is_measured_takes_longer_than_a_modelled_one(model, tmp_path, monkeypatch):
    """GIVEN the processor's counters THEN auto plans to measure; without them rapl is refused, as the run is."""
    modelled = plan(model, tmp_path)
    with pytest.raises(MeterError, match="no energy counter of a processor"):
        plan(model, tmp_path, meter="rapl")
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "powercap"))
    with one_socket(tmp_path / "powercap").writing():
        measured = plan(model, tmp_path)
    assert measured.profile_seconds > 2 * modelled.profile_seconds


def test_the_benchmark_is_planned(model, tmp_path):
    """Trials are precisions times batch sizes times lengths times trials; without the stage there are none."""
    asked = BenchmarkSettings(("fp32", "bf16"), batch_sizes=(1, 2, 4), trials=5)
    planned = plan(model, tmp_path, benchmark=asked)
    assert (planned.precisions, planned.trials) == (("fp32", "bf16"), 30)
    assert plan(model, tmp_path, stages=("profile",)).trials == 0


def test_triggered_sampling_reads_each_component(model, tmp_path):
    """Without amplification there is one read of each component a pass, and nothing else."""
    planned = plan(model, tmp_path, sampling="triggered", passes=3)
    assert (planned.targets, planned.windows) == ({"node": 15}, 45)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"sequence_length": 33}, "32 positions at most"),
        ({"data": "missing.jsonl"}, "there is no file"),
        ({"name": "taken"}, "--name"),
        ({"precision": "fp7"}, "fp7"),
        ({"execution": "cuda-graph"}, "NVIDIA GPU"),
        ({"gpu_id": ("0",)}, "--gpu-id"),
    ],
)
def test_a_plan_that_would_be_refused_is(model, tmp_path, change, hint):
    """What the run would refuse after loading, the plan refuses without it."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "run.json").write_text("{}")
    with pytest.raises(UsageError, match=hint):
        plan(model, tmp_path, **change)


def test_what_is_skipped_has_its_reason(model, tmp_path):
    """Random weights and stages that were not asked for are skipped, with no ablation counted."""
    planned = plan(model, tmp_path, weights="random", stages=("profile", "ablate"))
    assert planned.skipped["ablate"].code == "random-weights"
    assert planned.ablations == 0


def test_a_plan_of_precisions_is_previewed(model, tmp_path):
    """GIVEN two workloads THEN each has its replays, and groups change once to each other precision."""
    asked = {"stages": ("plan",), "plan_precisions": ("bf16", "int4"), "budget": "loss +0.1"}
    one, two = (
        plan(model, tmp_path, **asked, workloads=workloads).plan
        for workloads in (("prefill",), ("prefill", "decode:8"))
    )
    assert one.precisions == ("fp32", "bf16", "int4")
    assert one.changes == 2 * one.groups > 2 * one.families > 0
    assert (two.workloads, two.changes) == (("prefill:1", "decode:8"), one.changes)
    assert 0 < two.seconds < two.seconds_most
    assert (two.seconds, two.seconds_most) == pytest.approx((2 * one.seconds, 2 * one.seconds_most))
    assert (two.windows, two.windows_most) == (2 * one.windows, 2 * one.windows_most)
    assert one.windows == (1 + 5 * (1 + 3 * one.families)) + (1 + 7 * 2)  # of prices, and of one verified choice
    assert one.choices == (2 + 3 + 3) + (4 + 2 + 4)
    assert one.levers_seconds_most > 0
    without = plan(model, tmp_path, **asked, levers=False).plan
    assert (without.levers_seconds_most, without.seconds_most) == (0, one.seconds_most)
    assert plan(model, tmp_path, stages=("profile",)).plan is None


def test_a_plan_without_another_precision_is_refused(model, tmp_path):
    """GIVEN only the model's own precision to choose from THEN the preview says what the plan would."""
    with pytest.raises(UsageError, match=r"but fp32$"):
        plan(model, tmp_path, stages=("plan",), plan_precisions=("fp32",), budget="loss +0.1")
