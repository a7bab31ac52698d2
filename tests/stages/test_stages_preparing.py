"""What a run needs before its stages begin: evaluation data is read where a stage uses it."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch

from energyscope.errors import DeviceError
from energyscope.loading import load_model
from energyscope.settings.benchmark import BenchmarkSettings
from energyscope.settings.run import RunSettings
from energyscope.stages import preparing
from energyscope.stages.preparing import evaluation_of, prompt_of


@pytest.mark.parametrize(
    ("stages", "weights", "code"),
    [
        (("alternatives", "report"), "pretrained", None),
        (("profile", "report"), "pretrained", "not-asked-for"),
        (("alternatives", "report"), "random", "random-weights"),
    ],
)
def test_alternatives_read_the_data(stages, weights, code):
    """GIVEN alternatives alone THEN there is data, for prompt lookup; not for a profile, nor on random weights."""
    settings = RunSettings.of("tiny-gpt2", stages=stages, weights=weights, max_examples=20)
    evaluation, why_none = evaluation_of(load_model("tiny-gpt2", device="cpu"), settings)
    assert (evaluation is None) == (code is not None)
    assert (why_none and why_none.code) == code


@pytest.mark.parametrize(
    ("changes", "examples"), [({}, 200), ({"max_examples": 300}, 300), ({"stages": ("plan",)}, 500)]
)
def test_a_bundled_model_takes_a_first_look(changes, examples):
    """GIVEN a bundled model THEN 200 of its 500 examples are used; more if told so, all for a plan."""
    settings = RunSettings.of("tiny-gpt2", **changes)
    evaluation, _ = evaluation_of(load_model("tiny-gpt2", device="cpu"), settings)
    assert evaluation.examples == examples


@pytest.mark.parametrize(("free", "refused"), [(700_000_000, True), (800_000_000, False)])
def test_a_batch_without_room_is_refused_before_it_is_made(monkeypatch, free, refused):
    """GIVEN a batch whose pass holds 730 MB THEN it is refused where it has no room, and only there."""
    monkeypatch.setattr(preparing, "usable_bytes", lambda device: free)
    loaded = load_model("tiny-gpt2", device="cpu")
    settings = RunSettings.of("tiny-gpt2", batch_size=512, sequence_length=128)
    if refused:
        with pytest.raises(DeviceError, match=r"about 0.7 GB .* use a smaller --batch-size"):
            prompt_of(loaded, None, settings)
    else:
        assert prompt_of(loaded, None, settings).batch_size == 512


@pytest.mark.parametrize(
    "changes",
    [{"stages": ("ablate",)}, {"stages": ("profile",), "phase": "decode"}, {"data": "inputs.safetensors"}],
)
def test_what_makes_no_such_pass_is_not_refused_for_it(monkeypatch, changes):
    """GIVEN no memory at all THEN only passes that are profiled or benchmarked are refused, at their lengths."""
    monkeypatch.setattr(preparing, "usable_bytes", lambda device: 0)
    loaded = load_model("tiny-gpt2", device="cpu")
    settings = RunSettings.of("tiny-gpt2")
    assert preparing.why_no_room(settings, loaded, "fp32", loaded.device)
    assert preparing.why_no_room(replace(settings, **changes), loaded, "fp32", loaded.device) is None


def test_every_batch_of_a_benchmark_on_a_processor_has_room(monkeypatch):
    """GIVEN a second batch without room THEN the benchmark is refused on a CPU; a GPU's is halved."""
    loaded = load_model("tiny-gpt2", device="cpu")
    monkeypatch.setattr(preparing, "usable_bytes", lambda device: 100_000_000)
    bench = BenchmarkSettings(batch_sizes=(1, 512))
    settings = RunSettings.of("tiny-gpt2", stages=("benchmark",), benchmark=bench)
    assert "512 x 128" in preparing.why_no_room(settings, loaded, "fp32", loaded.device)
    assert preparing.why_no_room(settings, loaded, "fp32", torch.device("cuda")) is None


@pytest.mark.parametrize(
    ("batch", "workloads", "refused"),
    [(512, (), True), (1, ("prefill:512", "decode"), True), (512, ("prefill:1", "decode:512"), False)],
)
def test_a_plan_has_room_for_its_prefills(monkeypatch, batch, workloads, refused):
    """GIVEN a workload of 512 prompts without room THEN the plan is refused; a step of as many has other needs."""
    loaded = load_model("tiny-gpt2", device="cpu")
    monkeypatch.setattr(preparing, "usable_bytes", lambda device: 100_000_000)
    settings = RunSettings.of("tiny-gpt2", stages=("plan",), batch_size=batch, workloads=workloads)
    assert bool(preparing.why_no_room(settings, loaded, "fp32", loaded.device)) == refused


def test_what_a_pass_holds_whatever_its_batch_counts_once(monkeypatch):
    """GIVEN 50 MB for any batch and 0.1 MB for each sequence THEN 512 sequences need 101 MB, not 26 GB."""
    loaded = load_model("tiny-gpt2", device="cpu")
    settings = RunSettings.of("tiny-gpt2", batch_size=512)
    monkeypatch.setattr(preparing, "pass_bytes", lambda _, inputs: 50_000_000 + 100_000 * len(inputs["input_ids"]))
    for free, refused in ((101_000_000, True), (102_000_000, False)):
        monkeypatch.setattr(preparing, "usable_bytes", lambda device, free=free: free)
        assert bool(preparing.why_no_room(settings, loaded, "fp32", loaded.device)) == refused


def test_a_pass_that_fails_is_not_refused_for_its_room(monkeypatch):
    """GIVEN a model whose pass fails THEN its outputs alone are judged: the run says what fails."""
    loaded = load_model("tiny-gpt2", device="cpu")
    settings = RunSettings.of("tiny-gpt2", batch_size=512)
    monkeypatch.setattr(preparing, "pass_bytes", Mock(side_effect=TypeError))
    for free, refused in ((50_000_000, True), (60_000_000, False)):
        monkeypatch.setattr(preparing, "usable_bytes", lambda device, free=free: free)
        assert bool(preparing.why_no_room(settings, loaded, "fp32", loaded.device)) == refused


@pytest.mark.parametrize(("device", "refused"), [("cpu", True), ("cuda", False)])
def test_int8_has_narrow_activations_on_a_gpu(monkeypatch, device, refused):
    """GIVEN room for logits of 2 bytes (29 MB) and not of 4 THEN INT8 is refused on a CPU alone."""
    monkeypatch.setattr(preparing, "usable_bytes", lambda device: 40_000_000)
    loaded = load_model("tiny-gpt2", device="cpu")
    monkeypatch.setattr(preparing, "_is_on_cpu", lambda loaded: False)
    settings = RunSettings.of("tiny-gpt2", batch_size=512, stages=("profile",))
    assert bool(preparing.why_no_room(settings, loaded, "int8", torch.device(device))) == refused
