"""Choices that people make without a plan."""

from __future__ import annotations

import numpy as np
import plan_builder as made

from energyscope.planning.choice import ChoiceProblem
from energyscope.planning.rules import AS_MANY, MLP_RULE, QUADRANT, everywhere, rules

PRECISIONS = ("bf16", "fp8", "int4")


def choices(costs, harms):
    """Return the rules' choices by name, of a cost and a harm for each group; every precision costs the same."""
    table = np.repeat(np.array(costs, dtype=float)[:, None], 3, axis=1)
    harms = np.array(harms)[:, None, None] * np.array([0.0, 1.0, 2.0])[None, :, None] * np.ones(4)
    return dict(rules(ChoiceProblem(table, harms, np.ones(4)), PRECISIONS, made.GROUPS, ~np.isnan(table), "fp8"))


def test_the_quadrant_holds_what_costs_much_and_matters_little():
    """GIVEN six groups THEN those above the median cost and below the median harm are exchanged, together."""
    found = choices([9, 1, 8, 2, 7, 3], [0.1, 0.1, 0.9, 0.2, 0.2, 0.8])
    assert found[QUADRANT].tolist() == [1, 0, 0, 0, 1, 0]
    assert np.count_nonzero(found[AS_MANY]) == 2
    assert set(found[AS_MANY]) <= {0, 1}


def test_each_precision_and_the_mlp():
    """GIVEN groups of the MLP alone THEN its rule is 8 bits everywhere, and INT4 everywhere is another choice."""
    found = choices([1.0] * 6, [0.1] * 6)
    assert found[MLP_RULE].tolist() == found[everywhere("fp8")].tolist() == [1] * 6
    assert found[everywhere("int4")].tolist() == [2] * 6


def test_without_eight_bits_there_is_no_rule_for_them():
    """GIVEN no price at 8 bits THEN the rules that are for them say nothing."""
    table = np.array([[3.0, np.nan, 1.0]] * 6)
    problem = ChoiceProblem(table, np.zeros((6, 3, 4)), np.ones(4))
    found = dict(rules(problem, PRECISIONS, made.GROUPS, ~np.isnan(table), None))
    assert not {MLP_RULE, QUADRANT, AS_MANY} & set(found)
