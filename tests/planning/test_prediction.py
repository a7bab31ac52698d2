"""What choices are expected to take once each precision was measured everywhere."""

from __future__ import annotations

import plan_builder as made
import pytest

from energyscope.planning.record import STILL, TOGETHER, PlanRecord
from energyscope.planning.replaying import MODEL, applied_target

FP8, PLAN = ["fp8"] * 6, ["fp8", "bf16"] * 3
TAKEN_MJ = 90.0  # by FP8 everywhere, whose groups take 3 x (10 + 9) of 3 x (16 + 8) mJ: 85 of 100


@pytest.fixture(scope="module")
def record():
    entries = [
        {"everywhere": {"precision": "fp8", "families": {group.family: 3 for group in made.GROUPS}}},
        *(made.window(TOGETHER, MODEL.key, number, made.MODEL_MJ) for number in range(6)),
        *(made.window(TOGETHER, applied_target("all fp8").key, number, TAKEN_MJ) for number in range(5)),
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


def test_groups_that_save_nothing_together_cost_what_the_others_save_without_them():
    """GIVEN INT4 that takes 100 of 100 mJ in all groups, and 80 without MLP outputs THEN the outputs cost 20 more.

    Of INT4 in every group so much is expected as was measured, and of the inputs alone, too.
    """
    families = {group.family: 3 for group in made.GROUPS}
    entries = [
        {"everywhere": {"precision": "int4", "families": families}},
        *(made.window(TOGETHER, MODEL.key, number, made.MODEL_MJ) for number in range(6)),
        *(made.window(TOGETHER, applied_target("all int4").key, number, 100.0) for number in range(5)),
        {"everywhere": {"precision": "int4", "families": {made.GROUPS[0].family: 3}, "part": STILL}},
        *(made.window(STILL, MODEL.key, number, made.MODEL_MJ) for number in range(6)),
        *(made.window(STILL, applied_target("all int4").key, number, 80.0) for number in range(5)),
    ]
    record = PlanRecord([*made.plan_entries(), *entries])
    assert record.predicted(["int4"] * 6).value == pytest.approx(1.0, abs=1e-3)
    assert record.predicted(["int4", "bf16"] * 3).value == pytest.approx(0.8, abs=1e-3)
    assert record.predicted(["bf16", "int4"] * 3).value == pytest.approx(1.2, abs=2e-3)
    assert record.problem().costs[:2, 2] == pytest.approx([16 - 20 / 3, 8 + 20 / 3], abs=0.1)
    once = PlanRecord([*made.plan_entries(), *entries[:12]])
    assert record.predicted(["int4"] * 6).half == pytest.approx(once.predicted(["int4"] * 6).half)


def test_a_second_measurement_that_was_cut_off_leaves_the_first():
    """GIVEN INT4 in all groups, and one window of it in some of them THEN what is known of all is kept."""
    families = {group.family: 3 for group in made.GROUPS}
    entries = [
        {"everywhere": {"precision": "int4", "families": families}},
        *(made.window(TOGETHER, MODEL.key, number, made.MODEL_MJ) for number in range(6)),
        *(made.window(TOGETHER, applied_target("all int4").key, number, 100.0) for number in range(5)),
    ]
    cut_off = [
        {"everywhere": {"precision": "int4", "families": {made.GROUPS[0].family: 3}, "part": STILL}},
        made.window(STILL, MODEL.key, 0, made.MODEL_MJ),
        made.window(STILL, applied_target("all int4").key, 0, 80.0),
    ]
    once = PlanRecord([*made.plan_entries(), *entries])
    twice = PlanRecord([*made.plan_entries(), *entries, *cut_off])
    assert twice.predicted(["int4"] * 6) == once.predicted(["int4"] * 6)
    assert twice.problem().costs == pytest.approx(once.problem().costs)
