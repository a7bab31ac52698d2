"""Budgets are read as people write them, and spent in a quantity that adds up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from energyscope.errors import UsageError
from energyscope.impact.metrics import Outcomes
from energyscope.planning.budget import Budget, parse_budget


def outcomes(**columns: list[float]) -> Outcomes:
    """Return outcomes of which only some columns matter."""
    count = len(next(iter(columns.values())))
    names = Outcomes.__dataclass_fields__
    return Outcomes(**{name: np.array(columns.get(name, [0.0] * count)) for name in names})


@pytest.mark.parametrize(
    ("text", "budget", "written"),
    [
        ("perplexity +0.5%", Budget("perplexity", 0.005, relative=True), "perplexity +0.5%"),
        ("ppl 0.1", Budget("perplexity", 0.1), "perplexity +0.1"),
        ("Accuracy -1%", Budget("accuracy", 0.01), "accuracy -1%"),
        ("accuracy \u22121 %", Budget("accuracy", 0.01), "accuracy -1%"),
        ("accuracy 0.02", Budget("accuracy", 0.02), "accuracy -2%"),
        ("loss +.01", Budget("loss", 0.01), "loss +0.01"),
        ("loss 2%", Budget("loss", 0.02, relative=True), "loss +2%"),
        ("kl 0.02", Budget("kl", 0.02), "kl 0.02"),
        ("kl 1e-6", Budget("kl", 1e-6), "kl 1e-06"),
    ],
)
def test_a_budget_is_read_as_it_is_written(text, budget, written):
    """GIVEN the usual ways of writing, THEN metric, amount and kind; and it is written in one way."""
    assert parse_budget(text) == budget
    assert str(budget) == written
    assert parse_budget(written) == budget


@pytest.mark.parametrize(
    "text", ["", "0.5%", "loss +0", "perplexity", "bleu -1%", "accuracy +1%", "loss -1", "kl 1%", "acc 2"]
)
def test_what_cannot_be_read_is_refused_with_examples(text):
    """GIVEN no metric, no number, the wrong direction or the wrong unit, THEN one line with examples."""
    with pytest.raises(UsageError, match=r'write it like "perplexity \+0\.5%"'):
        parse_budget(text)


def test_perplexity_is_spent_in_nats():
    """GIVEN 0.5 % of perplexity, THEN the harm is ln(1.005), by which a loss of 2 nats becomes 0.5 % worse."""
    budget = parse_budget("perplexity +0.5%")
    seen = outcomes(nll=[2.1, 4.2], reference_nll=[2.0, 4.0], predictions=[1.0, 2.0])
    baseline = budget.baseline(seen)
    assert baseline == pytest.approx(math.exp(2.0))
    assert budget.harm(seen).value == pytest.approx(0.1)
    assert budget.changed(baseline, budget.limit(baseline)) == pytest.approx(1.005 * baseline)


def test_accuracy_is_spent_in_lost_answers():
    """GIVEN one answer lost of four, THEN a harm of a quarter, whatever the baseline; 1 % takes 300 examples."""
    budget = parse_budget("accuracy -1%")
    seen = outcomes(correct=[1, 0, 1, 0], reference_correct=[1, 1, 1, 0], predictions=[1, 1, 1, 1])
    assert budget.harm(seen).value == 0.25
    assert budget.baseline(seen) == 0.75
    assert budget.changed(0.75, 0.25) == 0.5
    assert budget.fewest_answers() == 300


def test_a_relative_loss_and_kl():
    """GIVEN 2 % of a loss of 3, THEN 0.06 nats; GIVEN KL, THEN nats from 0, each example alike."""
    assert parse_budget("loss +2%").limit(3.0) == pytest.approx(0.06)
    budget = parse_budget("kl 0.02")
    seen = outcomes(kl=[0.01, 0.03], predictions=[5, 50])
    assert budget.harm(seen).value == pytest.approx(0.02)
    assert budget.limit(budget.baseline(seen)) == 0.02


@pytest.mark.parametrize(
    ("text", "harm", "wider"),
    [
        ("perplexity +0.5%", math.log(1.01234), "perplexity +1.3%"),
        ("accuracy -1%", 0.0521, "accuracy -5.3%"),
        ("kl 0.01", 0.0301, "kl 0.031"),
        ("loss +0.01", 0.2, "loss +0.2"),
    ],
)
def test_a_budget_is_widened_to_what_something_takes(text, harm, wider):
    """GIVEN a harm beyond the budget, THEN the budget of its kind that allows it, in two digits, rounded up."""
    budget = parse_budget(text)
    assert str(budget.widened(2.5, harm)) == wider
    assert budget.widened(2.5, harm).limit(2.5) >= harm
