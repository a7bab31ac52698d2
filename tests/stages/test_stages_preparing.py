"""What a run needs before its stages begin: evaluation data is read where a stage uses it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from energyscope.errors import DeviceError
from energyscope.loading import load_model
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


@pytest.mark.parametrize(("free", "refused"), [(50_000_000, True), (60_000_000, False)])
def test_a_batch_without_room_is_refused_before_it_is_made(monkeypatch, free, refused):
    """GIVEN a batch whose logits (58 MB) have no room THEN it is refused; with room it is not."""
    monkeypatch.setattr(preparing, "usable_bytes", lambda device: free)
    loaded = load_model("tiny-gpt2", device="cpu")
    settings = RunSettings.of("tiny-gpt2", batch_size=512, sequence_length=128)
    assert loaded.model.config.vocab_size * 4 * 512 * 128 == 57_671_680
    if refused:
        with pytest.raises(DeviceError, match=r"pass of 512 x 128 tokens .* use a smaller --batch-size"):
            prompt_of(loaded, None, settings)
    else:
        assert prompt_of(loaded, None, settings).batch_size == 512


@pytest.mark.parametrize(
    "changes", [{"stages": ("benchmark",)}, {"phase": "decode"}, {"data": "inputs.safetensors"}]
)
def test_what_makes_no_such_pass_is_not_refused_for_it(monkeypatch, changes):
    """GIVEN no memory at all THEN only the pass that is profiled is refused, at the length that is asked for."""
    monkeypatch.setattr(preparing, "usable_bytes", lambda device: 0)
    loaded = load_model("tiny-gpt2", device="cpu")
    settings = RunSettings.of("tiny-gpt2")
    assert preparing.why_no_room(settings, loaded, "fp32", loaded.device)
    assert preparing.why_no_room(replace(settings, **changes), loaded, "fp32", loaded.device) is None
