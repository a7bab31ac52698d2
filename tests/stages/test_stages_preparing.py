"""What a run needs before its stages begin: evaluation data is read where a stage uses it."""

from __future__ import annotations

import pytest

from energyscope.loading import load_model
from energyscope.settings.run import RunSettings
from energyscope.stages.preparing import evaluation_of


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
