"""Settings are checked before anything is loaded, and their fingerprint follows what is measured."""

from __future__ import annotations

import pytest

from energyscope.errors import UsageError
from energyscope.stages.settings import RunSettings


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"granularity": "fein"}, "did you mean 'fine'"),
        ({"layers": "some"}, "--layers"),
        ({"weights": "none"}, "--weights"),
        ({"phase": "decode"}, "--phase"),
        ({"execution": "cuda-graph"}, "--execution"),
        ({"meter": "nvlm"}, "did you mean 'nvml'"),
        ({"stages": ("profile", "plan")}, "--stages"),
        ({"methods": ("zeros",)}, "did you mean 'zero'"),
        ({"passes": 0}, "1 or more"),
        ({"batch_size": 0}, "1 or more"),
        ({"sequence_length": -1}, "1 or more"),
        ({"max_examples": 1}, "2 or more"),
        ({"window_s": 0.0}, "above 0"),
        ({"watts": float("inf")}, "--watts"),
        ({"watts": -5.0}, "--watts"),
        ({"seed": -1}, "0 or more"),
        ({"methods": ()}, "--methods names nothing"),
        ({"stages": ()}, "--stages names nothing"),
        ({"meter": "recorded"}, "tests"),
    ],
)
def test_impossible_settings_are_refused(change, hint):
    """Each wrong word or number is refused with what to give instead."""
    with pytest.raises(UsageError, match=hint):
        RunSettings("gpt2", **change).check()


def test_the_defaults_are_possible():
    """The defaults pass their own check."""
    RunSettings("gpt2").check()


def test_the_fingerprint_follows_what_is_measured():
    """Another batch size is another fingerprint; another name or place is not."""
    base = RunSettings("gpt2")
    assert base.fingerprint() == RunSettings("gpt2", name="other").fingerprint()
    assert base.fingerprint() != RunSettings("gpt2", batch_size=2).fingerprint()
    assert base.fingerprint(device="a") != base.fingerprint(device="b")
