from __future__ import annotations

import pytest

from energyscope.relating.advice import advise, sensitivity_column
from energyscope.relating.quadrants import Point


def point(quadrant: str, **other: object) -> Point:
    made = Point(
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
        setattr(made, name, value)
    return made


POINTS = [point(f"{heat} energy, {effect} impact") for heat in ("high", "low") for effect in ("high", "low")]
GOOD = {"closure": 1.0, "modelled": False}


def test_each_quadrant_of_sensitivity_has_its_advice() -> None:
    """GIVEN sensitivities, THEN much energy that bears fewer bits is quantized first, and nothing warns."""
    found = {one.quadrant: one for one in advise(POINTS, sensitivity=True, **GOOD)}
    assert {quadrant: one.advice for quadrant, one in found.items()} == {
        "high energy, high impact": "look closer",
        "high energy, low impact": "quantize first",
        "low energy, high impact": "keep",
        "low energy, low impact": "leave",
    }
    assert all(one.warning is None and one.withheld_because is None for one in found.values())
    assert "4 mJ, impact 0.1; in this quadrant in 93 % of resamples" in found["high energy, low impact"].why


def test_criticality_alone_never_says_quantize() -> None:
    """GIVEN that components were only removed, THEN none is to be quantized, and each has the warning."""
    found = advise(POINTS, sensitivity=False, **GOOD)
    assert "quantize first" not in {one.advice for one in found}
    assert all("Only criticality" in str(one.warning) for one in found)


@pytest.mark.parametrize(
    ("closure", "modelled", "reason"),
    [
        (0.9299, False, "92.99 %, outside 93-107 %"),
        (1.08, False, "108 %"),
        (None, False, "not known"),
        (1.0, True, "MODELLED"),
    ],
)
def test_poor_books_withhold_everything(closure: float | None, modelled: bool, reason: str) -> None:
    """GIVEN books that do not close, or joules that are modelled, THEN nothing is advised, and each says why."""
    found = advise(POINTS, sensitivity=True, closure=closure, modelled=modelled)
    assert all(one.advice is None and reason in str(one.withheld_because) for one in found)


@pytest.mark.parametrize("quality", ["C", "invalid", None])
def test_poor_quality_withholds_one(quality: str | None) -> None:
    """GIVEN one component of quality C or worse, THEN its advice alone is withheld."""
    poor = point("high energy, low impact", component="poor", quality=quality)
    found = {one.component: one for one in advise([*POINTS, poor], sensitivity=True, **GOOD)}
    assert found["poor"].advice is None
    assert "quality" in str(found["poor"].withheld_because)
    assert sum(one.advice is None for one in found.values()) == 1


def test_undecided_and_mixed_levels_are_withheld() -> None:
    """GIVEN a component without a quadrant and one that stands for its parts, THEN both say why not."""
    first, second = advise(
        [point("undecided"), point("high energy, low impact", stands_for_parts=True)], sensitivity=True, **GOOD
    )
    assert "holds a threshold" in str(first.withheld_because)
    assert "level" in str(second.withheld_because)


def test_real_kernels_are_preferred() -> None:
    """GIVEN several quantizations, THEN advice rests on the kernels that are deployed; on none without."""
    assert sensitivity_column(["zero:kl", "nf4:kl", "int8:kl"]) == "int8:kl"
    assert sensitivity_column(["int8:kl", "bnb-int8:kl"]) == "bnb-int8:kl"
    assert sensitivity_column(["zero:kl", "int8:top1_agreement"]) is None
