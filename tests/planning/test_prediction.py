"""What choices are expected to take once each precision was measured everywhere."""

from __future__ import annotations

import plan_builder as made
import pytest

from energyscope.planning.record import WHOLE, PlanRecord
from energyscope.planning.replaying import MODEL, applied_target

FP8, PLAN = ["fp8"] * 6, ["fp8", "bf16"] * 3
TAKEN_MJ = 90.0  # by FP8 everywhere, whose groups take 3 x (10 + 9) of 3 x (16 + 8) mJ: 85 of 100


@pytest.fixture(scope="module")
def record():
    entries = [
        {"everywhere": {"precision": "fp8", "families": {group.family: 3 for group in made.GROUPS}}},
        *(made.window(WHOLE, MODEL.key, number, made.MODEL_MJ) for number in range(6)),
        *(made.window(WHOLE, applied_target("all fp8").key, number, TAKEN_MJ) for number in range(5)),
    ]
    return PlanRecord([*made.plan_entries(), *entries])


def test_one_precision_is_expected_to_take_what_it_was_measured_to(record):
    """GIVEN FP8 everywhere at 90 of 100 mJ THEN so much is expected of it, whatever its groups take alone."""
    for quantity in ("energy", "time"):
        share = record.predicted(FP8, quantity)
        assert share.value == pytest.approx(0.90, abs=1e-3)
        assert 0 < share.half < 3e-3


def test_a_mixture_gets_its_part_of_what_they_take_together(record):
    """GIVEN two thirds of what changes, whose groups save 18 mJ alone THEN two thirds of the 5 mJ come on top."""
    assert record.predicted(PLAN).value == pytest.approx(0.82 + 0.05 * 2 / 3, abs=2e-3)


def test_costs_add_up_to_what_was_measured(record):
    """GIVEN the problem that the plan solves THEN FP8 everywhere costs 10 mJ less in it."""
    costs = record.problem().costs
    assert costs[:, 0].sum() - costs[:, 1].sum() == pytest.approx(10.0, abs=0.2)
    assert costs[0] == pytest.approx([16, 10 + 5 * 16 / 72, 12], rel=5e-3)


def test_a_precision_that_was_not_measured_everywhere_is_the_sum_of_its_groups(record):
    """GIVEN INT4 THEN its groups' savings of 4 mJ each are added up."""
    assert record.predicted(["int4"] * 6).value == pytest.approx(1 - 0.24, abs=2e-3)
