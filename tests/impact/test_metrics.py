from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from energyscope.errors import UsageError
from energyscope.impact.metrics import (
    COUNTS,
    METRICS,
    NEEDS_LABELS,
    Outcomes,
    bootstrap,
    bootstrap_weights,
    by_example,
    estimate,
    perplexity,
)

NAMES = [field.name for field in fields(Outcomes)]


def outcomes(**changed: list[float]) -> Outcomes:
    """Two examples, of 2 and 3 tokens, of which the original gets one each right."""
    values = {
        "kl": [0.1, 0.3],
        "nll": [4.0, 6.0],
        "reference_nll": [2.0, 3.0],
        "predictions": [2.0, 3.0],
        "correct": [0.0, 1.0],
        "reference_correct": [1.0, 1.0],
        "agreement": [0.5, 1.0],
        "js": [0.02, 0.06],
        "margin": [-1.0, 0.5],
        "reference_margin": [1.0, 2.0],
    }
    return Outcomes(**{name: np.array(value) for name, value in (values | changed).items()})


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("kl", 0.2),
        ("top1_agreement", 0.75),
        ("js", 0.04),
        ("logit_difference", (-2.0 - 1.5) / 2),  # with its sign
        ("loss_difference", 1.0),  # 5 nats over 5 tokens, and 10 after the change
        ("perplexity_difference", math.exp(2) - math.e),
    ],
)
def test_metrics_by_hand(metric: str, value: float) -> None:
    """Divergences and margins are means over examples, however many tokens these have; losses are over tokens."""
    assert estimate(metric, outcomes()).value == pytest.approx(value)


def test_loss_difference_weighs_tokens_alike() -> None:
    """GIVEN a change of one of two texts, THEN its nats are spread over the tokens of both."""
    assert estimate("loss_difference", outcomes(nll=[4.0, 3.0])).value == pytest.approx(2 / 5)


def test_unchanged_predictions_have_no_effect_at_all() -> None:
    """GIVEN predictions that stayed bit by bit the same, THEN every difference is exactly 0."""
    same = outcomes(nll=[2.0, 3.0], correct=[1.0, 1.0], margin=[1.0, 2.0], kl=[0.0, 0.0], js=[0.0, 0.0])
    for metric in set(METRICS) - COUNTS:
        result = estimate(metric, same)
        assert (result.value, result.ci_low, result.ci_high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("metric", METRICS)
def test_examples_that_were_not_looked_at_do_not_count(metric: str) -> None:
    """GIVEN examples that were not looked at among others, THEN every metric is that of the others."""
    sample = outcomes()
    padded = Outcomes.concatenate([Outcomes.unseen(1), sample, Outcomes.unseen(2)])
    assert padded.seen().tolist() == [False, True, True, False, False]
    assert estimate(metric, padded) == estimate(metric, sample)
    assert padded.non_finite() == 0


@pytest.mark.parametrize("metric", sorted(NEEDS_LABELS))
def test_metrics_of_answers_need_labels(metric: str) -> None:
    """GIVEN data without labels, THEN what is judged by the right answer is None with the reason."""
    nothing = [math.nan, math.nan]
    result = estimate(metric, outcomes(nll=nothing, reference_nll=nothing, correct=nothing))
    assert (result.value, result.reason) == (None, "no-labels")
    assert estimate("logit_difference", outcomes(nll=nothing, reference_nll=nothing)).value is not None


def test_unknown_metric_is_named_with_the_known() -> None:
    """WHEN a metric does not exist, THEN the error lists those that do."""
    for function in (estimate, by_example):
        with pytest.raises(UsageError, match=r"no such impact metric: 'bleu' \(known: kl, js, "):
            function("bleu", outcomes())


@pytest.mark.parametrize("metric", ["kl", "js", "logit_difference", "accuracy_difference", "top1_agreement"])
def test_metrics_of_examples_average_to_the_metric(metric: str) -> None:
    """The mean of a metric over single examples is the metric of all of them."""
    assert by_example(metric, outcomes()).mean() == pytest.approx(estimate(metric, outcomes()).value)


def test_perplexity_is_over_tokens() -> None:
    """GIVEN 5 nats over 5 tokens, THEN the perplexity is e."""
    assert perplexity(np.array([2.0, 3.0]), np.array([2.0, 3.0])) == pytest.approx(math.e)


def test_accuracy_difference_is_changed_minus_original() -> None:
    """GIVEN four examples, of which the change spoils two and mends one, THEN the difference is -1/4."""
    right = {"correct": [0.0, 0.0, 1.0, 1.0], "reference_correct": [1.0, 1.0, 0.0, 1.0]}
    sample = outcomes(**dict.fromkeys(NAMES, [1.0] * 4) | right)
    assert estimate("accuracy_difference", sample).value == pytest.approx(-0.25)


def test_overflowing_perplexity_is_unknown() -> None:
    """GIVEN a likelihood so small that the perplexity overflows, THEN it is None with a reason."""
    result = estimate("perplexity_difference", outcomes(nll=[4000.0, 6000.0]))
    assert result.value is None
    assert result.reason == "value-not-finite"


def test_one_example_has_no_interval() -> None:
    """GIVEN one example, THEN the value is known and the interval is not, with the reason."""
    result = bootstrap(lambda weights: weights @ np.array([3.0]), 1)
    assert (result.value, result.ci_low, result.ci_high) == (3.0, None, None)
    assert result.reason == "one-example"


def test_non_finite_examples_are_counted() -> None:
    """GIVEN a NaN divergence and, elsewhere, an infinite likelihood, THEN two examples are bad."""
    assert outcomes(kl=[math.nan, 0.0], nll=[1.0, math.inf]).non_finite() == 2
    assert outcomes().non_finite() == 0


def test_concatenate_keeps_the_order() -> None:
    """GIVEN the outcomes of two batches, THEN joined they hold the examples of both in order."""
    joined = Outcomes.concatenate([outcomes(), outcomes(kl=[0.5, 0.7])])
    assert joined.kl.tolist() == [0.1, 0.3, 0.5, 0.7]
    assert len(joined) == 4


def test_same_seed_gives_the_same_interval() -> None:
    """GIVEN the same data, THEN the seed decides the interval."""
    many = Outcomes(np.arange(40.0) ** 1.7, *[np.ones(40)] * 9)
    assert estimate("kl", many, seed=1) == estimate("kl", many, seed=1)
    assert estimate("kl", many, seed=1) != estimate("kl", many, seed=2)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(0, 5))
def test_every_resample_draws_as_many_examples(count: int, seed: int) -> None:
    """Resamples are as large as the sample."""
    weights = bootstrap_weights(count, seed)
    assert (weights.sum(1) == count).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_interval_stays_within_the_examples(values: list[float]) -> None:
    """The interval of a mean lies between the smallest and the largest example, low before high."""
    result = bootstrap(lambda weights: weights @ np.array(values) / len(values), len(values))
    assert result.ci_low is not None
    assert result.ci_high is not None
    slack = 1e-9 * max(values)
    assert min(values) - slack <= result.ci_low <= result.ci_high <= max(values) + slack


def test_bootstrap_interval_covers_the_population() -> None:
    """GIVEN samples of 60 from a skewed population, THEN 95 % intervals of the mean cover it about as often."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        sample = rng.exponential(1.0, 60)
        result = estimate("kl", Outcomes(sample, *[np.ones(60)] * 9))
        assert result.ci_low is not None
        assert result.ci_high is not None
        covered += result.ci_low <= 1.0 <= result.ci_high
    assert 0.90 <= covered / 400 <= 0.98


def test_paired_perplexity_interval_is_narrow() -> None:
    """GIVEN examples that differ a lot and a change that adds the same to each, THEN pairing keeps 0 outside."""
    rng = np.random.default_rng(0)
    tokens = np.full(50, 10.0)
    reference = rng.uniform(5, 35, 50)
    sample = Outcomes(np.ones(50), reference + 0.5, reference, tokens, *[np.ones(50)] * 6)
    result = estimate("perplexity_difference", sample)
    assert result.ci_low is not None
    assert result.ci_low > 0


def test_perplexity_interval_resamples_tokens_with_their_texts() -> None:
    """GIVEN texts of different length that all have the same nats per token, THEN the interval has no width."""
    tokens = np.arange(1.0, 31.0)
    sample = Outcomes(np.ones(30), 2 * tokens, tokens, tokens, *[tokens] * 6)
    result = estimate("perplexity_difference", sample)
    assert result.ci_low == pytest.approx(math.exp(2) - math.e)
    assert result.ci_high == pytest.approx(math.exp(2) - math.e)


def test_what_was_never_seen_may_still_be_rare() -> None:
    """GIVEN 60 right answers that all stayed right, THEN up to 3 in 60 may change (the rule of three)."""
    right = {name: [1.0] * 60 for name in ("predictions", "correct", "reference_correct", "agreement")}
    same = outcomes(kl=[0.0] * 60, nll=[2.0] * 60, reference_nll=[2.0] * 60, **right)
    accuracy, agreement = estimate("accuracy_difference", same), estimate("top1_agreement", same)
    assert (accuracy.value, accuracy.ci_low, accuracy.ci_high) == (0.0, -0.05, 0.05)
    assert (agreement.value, agreement.ci_low, agreement.ci_high) == (1.0, 0.95, 1.0)
    assert (accuracy.reason.code, accuracy.reason.values) == ("no-answer-changed", {"examples": 60})


@pytest.mark.parametrize(("large", "few"), [(2, True), (14, True), (16, False), (40, False)])
@pytest.mark.parametrize("scale", [1.0, 1e-200])
def test_a_mean_that_few_examples_carry_has_no_interval(large: int, few: bool, scale: float) -> None:
    """GIVEN 100 examples of which some carry all of the divergence, THEN of few the value is all that is known."""
    kl = [scale] * large + [1e-9 * scale] * (100 - large)
    ones = {name: [1.0] * 100 for name in ("nll", "reference_nll", "predictions")}
    result = estimate("kl", outcomes(kl=kl, **ones))
    assert result.value == pytest.approx(scale * large / 100)
    if few:
        assert (result.ci_low, result.ci_high, result.reason.code) == (None, None, "few-carriers")
        assert result.reason.values == {"effective": pytest.approx(large, rel=1e-3), "of": 100}
    else:
        assert result.ci_low is not None
        assert result.reason == ""
