"""Predictions of a model beside the baseline's."""

import copy

import numpy as np
import pytest
import torch

from energyscope.benchmarking.predictions import PredictionComparison
from energyscope.errors import ModelError
from energyscope.impact.metrics import perplexity_estimate, proportion
from energyscope.loading import load_model
from energyscope.workloads import load_evaluation


@pytest.fixture(scope="module")
def judged():
    """tiny-gpt2, its data, and a copy with one weight spoilt."""
    loaded = load_model("tiny-gpt2")
    noisy = copy.deepcopy(loaded.model)
    with torch.no_grad():
        noisy.transformer.h[1].mlp.c_fc.weight *= 0.3
    return loaded.model, noisy, load_evaluation(loaded, max_examples=40)


def test_the_first_is_the_baseline_and_is_compared_with_nothing(judged):
    """Its perplexity is that of plain likelihoods, and there is no difference."""
    model, _, data = judged
    entry = PredictionComparison(data).judge("fp32", model)
    assert entry["metric"] == "perplexity"
    assert entry["value"]["low"] < entry["value"]["value"] < entry["value"]["high"]
    assert entry["kl"] is entry["difference"] is entry["agreement"] is None
    assert entry["correct"] is None


def test_the_same_model_again_does_not_differ(judged):
    """GIVEN the baseline once more THEN KL is 0, every answer agrees, and the difference is 0."""
    model, _, data = judged
    judge = PredictionComparison(data)
    first, again = judge.judge("fp32", model), judge.judge("copy", model)
    assert again["kl"]["value"] == 0
    assert again["agreement"]["value"] == 1
    assert again["difference"]["value"] == 0
    assert again["value"] == first["value"]


@pytest.mark.parametrize("beside", [True, False])
def test_a_changed_model_differs_by_as_much_as_its_perplexity(judged, beside):
    """The paired difference is that of the two values; only where both are there is there a KL."""
    model, noisy, data = judged
    judge = PredictionComparison(data, beside=beside)
    first, second = judge.judge("fp32", model), judge.judge("noisy", noisy)
    expected = second["value"]["value"] - first["value"]["value"]
    assert second["difference"]["value"] == pytest.approx(expected, abs=1e-9)
    assert expected > 0
    assert (second["kl"] is not None) is beside


def test_outputs_that_are_not_finite_are_an_error_and_no_number(judged):
    """GIVEN a model that overflows THEN it is said for how many examples."""
    model, _, data = judged
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.transformer.ln_f.weight.fill_(float("inf"))
    judge = PredictionComparison(data)
    judge.judge("fp32", model)
    with pytest.raises(ModelError, match="not finite for 40 of 40 examples"):
        judge.judge("broken", broken)


def test_wilsons_interval_has_a_width_where_all_answers_are_right():
    """0 and all of n leave room for what was not seen; half of n is symmetric (Wilson 1927)."""
    every = proportion(50, 50)
    assert every.value == every.ci_high == 1
    assert 0.9 < every.ci_low < 0.95
    assert proportion(0, 50).ci_high == pytest.approx(1 - every.ci_low)
    half = proportion(25, 50)
    assert half.ci_high - 0.5 == pytest.approx(0.5 - half.ci_low)
    assert proportion(0, 0).value is None


def test_wilsons_interval_covers():
    """GIVEN 872 answers of which 91 % are right THEN 93 to 97 % of the intervals hold the truth."""
    rng = np.random.default_rng(5)
    shares = [proportion(count, 872) for count in rng.binomial(872, 0.91, size=2000)]
    assert 0.93 < np.mean([share.ci_low <= 0.91 <= share.ci_high for share in shares]) < 0.97


def test_perplexity_has_its_interval_over_examples():
    """GIVEN equal examples THEN no width; GIVEN unequal ones THEN the value lies inside."""
    tokens = np.full(30, 10.0)
    assert perplexity_estimate(np.full(30, 20.0), tokens).value == pytest.approx(np.exp(2.0))
    perplexity = perplexity_estimate(np.linspace(10, 30, 30), tokens)
    assert perplexity.ci_low < perplexity.value < perplexity.ci_high
