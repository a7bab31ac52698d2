from __future__ import annotations

from typing import Any

import pandas as pd

from energyscope.correlation.joint import ALIKE, LESS, MORE, joint_effects
from energyscope.reasons import reason


def effects(*rows: tuple[str, float, float, float], **other: Any) -> dict[str, dict[str, Any]]:
    table = pd.DataFrame(rows, columns=["component", "value", "ci_low", "ci_high"])
    table = table.assign(method="zero", metric="kl", valid=True).assign(**other)
    return {effect["component"]: effect for effect in joint_effects(table)}


SINGLE = (("h.0.mlp", 1.0, 0.9, 1.1), ("h.1.mlp", 2.0, 1.9, 2.1), ("h.10.mlp", 3.0, 2.9, 3.1))


def test_joint_effect_against_the_sum() -> None:
    """GIVEN single effects that add up to 6 +- 0.3, THEN 9 is more, 2 is less, and 6.2 is not told from it."""
    for joint, verdict in ((9.0, MORE), (2.0, LESS), (6.2, ALIKE)):
        joints = effects(*SINGLE, ("h.{layer}.mlp", joint, joint - 0.1, joint + 0.1))
        assert set(joints) == {"h.{layer}.mlp"}
        effect = joints["h.{layer}.mlp"]
        assert effect["parts"] == ["h.0.mlp", "h.1.mlp", "h.10.mlp"]
        assert (round(effect["single_sum"] or 0, 6), effect["verdict"]) == (6.0, verdict)


def test_named_parts_and_dots_are_not_patterns() -> None:
    """GIVEN a pair by name and a name that a careless pattern would match, THEN only the parts count."""
    joints = effects(*SINGLE, ("h.0Xmlp", 9.0, 9.0, 9.0), ("h.0.mlp+h.1.mlp", 5.0, 4.9, 5.1))
    assert joints["h.0.mlp+h.1.mlp"]["parts"] == ["h.0.mlp", "h.1.mlp"]
    wide = effects(*SINGLE, ("h.0Xmlp", 9.0, 9.0, 9.0), ("h.{layer}.mlp", 5.0, 4.9, 5.1))
    assert "h.0Xmlp" not in wide["h.{layer}.mlp"]["parts"]


def test_a_missing_part_leaves_the_sum_unknown() -> None:
    """GIVEN a pair of which one was not measured alone, THEN there is no sum, and the reason names it."""
    effect = effects(*SINGLE, ("h.0.mlp+h.7.mlp", 5.0, 4.9, 5.1))["h.0.mlp+h.7.mlp"]
    assert (effect["single_sum"], effect["verdict"]) == (None, None)
    assert effect["reason"] == reason("no-single-effect", components=["h.7.mlp"])


def test_unknown_intervals_give_no_verdict() -> None:
    """GIVEN a part without an interval, THEN the sum stands and there is no verdict."""
    rows = (*SINGLE[:2], ("h.2.mlp", 1.0, float("nan"), float("nan")), ("h.{layer}.mlp", 9.0, 8.9, 9.1))
    effect = effects(*rows)["h.{layer}.mlp"]
    assert effect["single_sum"] == 4.0
    assert effect["verdict"] is None
    assert effect["reason"] == "intervals-incomplete"


def test_an_invalid_part_of_a_kind_leaves_the_sum_unknown() -> None:
    """GIVEN a kind in all layers of which one single removal is invalid, THEN it is a part and no sum is taken."""
    rows = (*SINGLE, ("h.{layer}.mlp", 5.0, 4.9, 5.1))
    effect = effects(*rows, valid=[True, False, True, True])["h.{layer}.mlp"]
    assert effect["parts"] == ["h.0.mlp", "h.1.mlp", "h.10.mlp"]
    assert (effect["single_sum"], effect["verdict"]) == (None, None)
    assert effect["reason"] == reason("no-single-effect", components=["h.1.mlp"])
