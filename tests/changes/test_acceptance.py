"""What a token takes with prompt lookup follows from each text's steps, proposals and tokens."""

from __future__ import annotations

import numpy as np
import pytest

from energyscope.changes.acceptance import Acceptance
from energyscope.intervals import Interval

EXACT = Interval(1.0, 1.0, 1.0)


def acceptance(tokens, steps, proposed):
    return Acceptance(tokens, steps, proposed, prompt_tokens=64, same=len(tokens))


def test_a_token_takes_all_steps_by_all_tokens():
    """GIVEN 10 steps for 20 tokens, 6 of them at 1.5 times the energy, THEN (6 x 1.5 + 4) / 20 a token."""
    alike = acceptance([20] * 4, [10] * 4, [6] * 4)
    assert alike.tokens_per_step == Interval(2.0, 2.0, 2.0)
    assert alike.proposed_share == pytest.approx(0.6)
    assert alike.per_token(Interval(1.5, 1.5, 1.5), EXACT).value == pytest.approx(13 / 20)


def test_nothing_accepted_costs_what_verifying_adds():
    """GIVEN no token accepted THEN a token takes more than an ordinary step, by the steps with a proposal."""
    rejected = acceptance([10] * 3, [10] * 3, [5] * 3)
    assert rejected.per_token(Interval(1.2, 1.2, 1.2), EXACT).value == pytest.approx(1.1)


def test_both_errors_are_in_the_interval():
    """GIVEN texts that scatter, or a measurement that does, THEN the interval is as wide; of both it is wider."""
    alike, unlike = acceptance([20] * 8, [10] * 8, [10] * 8), acceptance([20] * 8, [8, 12] * 4, [8, 12] * 4)
    sharp, wide = Interval(1.0, 1.0, 1.0), Interval(1.0, 0.9, 1.1)
    widths = [each.high - each.low for each in (
        alike.per_token(wide, EXACT), unlike.per_token(sharp, EXACT), unlike.per_token(wide, EXACT),
    )]  # fmt: skip
    assert widths[0] == pytest.approx(0.1)
    assert widths[2] == pytest.approx(np.hypot(widths[0], widths[1]))


def test_a_measurement_without_an_interval_gives_none():
    """GIVEN one window, or one text, THEN there is a value without limits."""
    assert acceptance([20] * 8, [10] * 8, [10] * 8).per_token(Interval(1.0), EXACT) == Interval(0.5)
    assert acceptance([20], [10], [10]).per_token(EXACT, EXACT) == Interval(0.5)


def test_plain_steps_that_never_happen_need_no_interval():
    """GIVEN a proposal for every step THEN what plain steps take does not matter, known or not."""
    always = acceptance([20] * 8, [10] * 8, [10] * 8)
    assert always.per_token(EXACT, Interval(7.0)) == Interval(0.5, 0.5, 0.5)


def test_the_interval_holds_what_is_true():
    """GIVEN 16 texts of random acceptance, many times, THEN 95 % of the intervals hold the true joules a token."""
    rng = np.random.default_rng(3)

    def texts(count):
        chance = rng.beta(4, 3, size=count)
        steps = [rng.binomial(30, 1 - 0.6 * each) + 1 for each in chance]
        return acceptance([31] * count, steps, [rng.binomial(step, 0.8) for step in steps])

    true = texts(100_000).per_token(Interval(1.3, 1.3, 1.3), EXACT).value
    intervals = [texts(16).per_token(Interval(1.3, 1.3, 1.3), EXACT) for _ in range(800)]
    held = np.mean([each.low <= true <= each.high for each in intervals])
    assert 0.93 < held < 0.97
