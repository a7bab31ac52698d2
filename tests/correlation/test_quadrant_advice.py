from __future__ import annotations

from dataclasses import replace

import pytest

from energyscope.accounting.checks import Checks, KindCheck
from energyscope.correlation.advice import advise, sensitivity_column
from energyscope.correlation.quadrants import Point
from energyscope.intervals import Interval
from energyscope.reasons import reason


def point(quadrant: str, **other: object) -> Point:
    result = Point(
        component=quadrant,
        kind="mlp",
        layer=0,
        energy_mj=4.0,
        energy_ci_low_mj=3.9,
        energy_ci_high_mj=4.1,
        impact=0.1,
        impact_ci_low=0.09,
        impact_ci_high=0.11,
        quadrant=quadrant,
        quality="A",
        stability=0.93,
    )
    for name, value in other.items():
        setattr(result, name, value)
    return result


POINTS = [point(f"{heat} energy, {effect} impact") for heat in ("high", "low") for effect in ("high", "low")]
AGREEING = KindCheck(Interval(0.3, 0.29, 0.31), Interval(0.3, 0.29, 0.31))
CHECKS = Checks(leaves=Interval(1.0, 0.98, 1.02), kinds={"mlp": AGREEING})
GOOD = {"checks": CHECKS, "modelled": False}


def leaves(value: float, half: float) -> Checks:
    return replace(CHECKS, leaves=Interval(value, value - half, value + half))


def test_each_quadrant_of_sensitivity_has_its_advice() -> None:
    """GIVEN sensitivities, THEN much energy that bears fewer bits is quantized first, and nothing warns."""
    advice = {entry.quadrant: entry for entry in advise(POINTS, sensitivity=True, **GOOD)}
    assert {quadrant: (entry.advice, entry.why) for quadrant, entry in advice.items()} == {
        "high energy, high impact": ("look-closer", "costly-sensitive"),
        "high energy, low impact": ("quantize-first", "costly-tolerant"),
        "low energy, high impact": ("keep", "cheap-sensitive"),
        "low energy, low impact": ("leave", "cheap-tolerant"),
    }
    assert all(entry.warning is entry.withheld_because is entry.unsure is None for entry in advice.values())
    entry = advice["high energy, low impact"]
    assert (entry.energy_mj, entry.impact, entry.stability) == (4.0, 0.1, 0.93)


def test_criticality_alone_never_says_quantize() -> None:
    """GIVEN that components were only removed, THEN none is to be quantized, and each has the warning."""
    advice = advise(POINTS, sensitivity=False, **GOOD)
    assert "quantize-first" not in {entry.advice for entry in advice}
    assert {entry.warning for entry in advice} == {"only-removal"}


@pytest.mark.parametrize(
    ("checks", "modelled", "why"),
    [
        (leaves(0.92, 0.02), False, reason("closure-outside", closure=0.92, low=0.95, high=1.05)),
        (leaves(1.08, 0.02), False, reason("closure-outside", closure=1.08, low=0.95, high=1.05)),
        (Checks(), False, "closure-unknown"),
        (CHECKS, True, "energy-modelled"),
    ],
)
def test_leaves_that_do_not_add_up_withhold_everything(checks: Checks, modelled: bool, why: str) -> None:
    """GIVEN leaves that do not add up, or modelled energy, THEN nothing is advised, and each says why."""
    advice = advise(POINTS, sensitivity=True, checks=checks, modelled=modelled)
    assert {(entry.advice, entry.why, entry.withheld_because, entry.unsure) for entry in advice} == {
        (None, None, why, None)
    }


def test_a_kind_that_the_model_contradicts_has_no_advice() -> None:
    """GIVEN 26 % in replay where the model saves 37 %, THEN advice on that kind is withheld, with both numbers."""
    apart = KindCheck(Interval(0.26, 0.25, 0.27), Interval(0.37, 0.35, 0.39))
    other = point("high energy, low impact", component="other", kind="attention")
    checks = replace(CHECKS, kinds={"mlp": apart, "attention": AGREEING})
    *withheld, last = sorted(
        advise([*POINTS, other], sensitivity=True, checks=checks, modelled=False),
        key=lambda entry: entry.component == "other",
    )
    assert {entry.withheld_because for entry in withheld} == {
        reason("differential-apart", replayed=0.26, saved=0.37, of="energy")
    }
    assert last.advice == "quantize-first"


@pytest.mark.parametrize(
    ("checks", "why"),
    [
        (leaves(0.93, 0.04), "closure-unclear"),
        (replace(CHECKS, kinds={}), "differential-unmeasured"),
        (
            replace(CHECKS, kinds={"mlp": KindCheck(Interval(0.3, 0.29, 0.31), Interval(0.3, 0.1, 0.5))}),
            "differential-unclear",
        ),
    ],
)
def test_what_is_not_confirmed_is_advised_as_unsure(checks: Checks, why: str) -> None:
    """GIVEN a sum or a kind that is not clear, THEN advice stands, with what makes it unsure."""
    advice = advise(POINTS, sensitivity=True, checks=checks, modelled=False)
    assert {entry.unsure for entry in advice} == {why}
    assert all(entry.advice and not entry.withheld_because for entry in advice)


@pytest.mark.parametrize("quality", ["C", "invalid", None])
def test_poor_quality_withholds_one(quality: str | None) -> None:
    """GIVEN one component of quality C or worse, THEN its advice alone is withheld."""
    poor = point("high energy, low impact", component="poor", quality=quality)
    advice = {entry.component: entry for entry in advise([*POINTS, poor], sensitivity=True, **GOOD)}
    assert advice["poor"].advice is None
    assert advice["poor"].withheld_because == reason("energy-quality", quality=quality)
    assert sum(entry.advice is None for entry in advice.values()) == 1


def test_undecided_and_mixed_levels_are_withheld() -> None:
    """GIVEN a component without a quadrant and one that stands for its parts, THEN both say why not."""
    first, second = advise(
        [point("undecided"), point("high energy, low impact", stands_for_parts=True)], sensitivity=True, **GOOD
    )
    assert first.withheld_because == "undecided"
    assert second.withheld_because == "stands-for-parts"


def test_real_kernels_are_preferred() -> None:
    """GIVEN several quantizations, THEN advice rests on the kernels that are deployed; on none without."""
    assert sensitivity_column(["zero:kl", "nf4:kl", "int8:kl"]) == "int8:kl"
    assert sensitivity_column(["int8:kl", "bnb-int8:kl"]) == "bnb-int8:kl"
    assert sensitivity_column(["zero:kl", "int8:top1_agreement"]) is None
