"""What to do about each component, from its quadrant; withheld where the numbers do not carry it. Pure.

"Quantize first" needs a *sensitivity*: what quantizing the component does to the predictions. Removing it says
how critical it is, which is another thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from energyscope.relating.quadrants import UNDECIDED, Point

CLOSED = (0.93, 1.07)
GOOD = ("A", "B")
# the order in which a sensitivity is looked for: kernels as deployed before simulated ones, 8 bits before 4
SENSITIVITIES = (
    "bnb-int8", "int8", "int8-wa", "int8-tensor", "fp8", "fp8-wa", "bnb-nf4", "nf4", "int4",
)  # fmt: skip
QUANTIZE, KEEP, LOOK, LEAVE = "quantize first", "keep", "look closer", "leave"
BY_SENSITIVITY = {
    "high energy, low impact": (QUANTIZE, "it takes much energy and bears fewer bits well"),
    "high energy, high impact": (
        LOOK,
        "it takes much energy and bears fewer bits badly: try its parts, or more bits",
    ),
    "low energy, high impact": (KEEP, "it bears fewer bits badly, and there is little energy to save"),
    "low energy, low impact": (LEAVE, "it bears fewer bits well, but there is little energy to save"),
}
BY_CRITICALITY = {
    "high energy, low impact": (LOOK, "it takes much energy and the predictions need it little"),
    "high energy, high impact": (LOOK, "it takes much energy and the predictions need it"),
    "low energy, high impact": (KEEP, "the predictions need it, and there is little energy to save"),
    "low energy, low impact": (LEAVE, "the predictions need it little, but there is little energy to save"),
}
WARNING = (
    "Only criticality (removal) was measured, not sensitivity (quantization): whether a component bears fewer "
    "bits is not known, so nothing is said to be quantized first. Measure a quantization too, such as int8."
)


@dataclass(frozen=True)
class Advice:
    """What to do about a component, or why nothing is said (``withheld_because``; ``advice`` is then None)."""

    component: str
    quadrant: str
    advice: str | None
    why: str
    withheld_because: str | None
    warning: str | None = None


def sensitivity_column(columns: Sequence[str], metric: str = "kl") -> str | None:
    """Return the ``method:metric`` on which advice rests; None where no quantization was measured."""
    names = (f"{method}:{metric}" for method in SENSITIVITIES)
    return next((name for name in names if name in columns), None)


def advise(points: Sequence[Point], *, sensitivity: bool, closure: float | None, modelled: bool) -> list[Advice]:
    """Return an advice for every point, most energy first.

    ``sensitivity`` says that the points' impact is that of quantization. ``closure`` is the share of the model's
    energy that its components and glue account for; unknown, it withholds as poor closure does.
    """
    for_all = _withheld_for_all(closure, modelled=modelled)
    return [
        _of_point(point, for_all or _withheld(point), sensitivity=sensitivity)
        for point in sorted(points, key=lambda point: -point.energy_mj)
    ]


def _of_point(point: Point, withheld: str | None, *, sensitivity: bool) -> Advice:
    warning = None if sensitivity else WARNING
    table = BY_SENSITIVITY if sensitivity else BY_CRITICALITY
    if point.quadrant == UNDECIDED:
        withheld = withheld or "undecided: an interval holds a threshold, or is not known"
    if withheld is not None:
        return Advice(point.component, point.quadrant, None, _numbers(point), withheld, warning)
    advice, why = table[point.quadrant]
    return Advice(point.component, point.quadrant, advice, f"{why} ({_numbers(point)})", None, warning)


def _numbers(point: Point) -> str:
    text = f"{point.energy_mj:.3g} mJ, impact {point.impact:.3g}"
    if point.stability is not None and point.quadrant != UNDECIDED:
        text += f"; in this quadrant in {100 * point.stability:.0f} % of resamples"
    return text


def _withheld_for_all(closure: float | None, *, modelled: bool) -> str | None:
    if modelled:
        return "the energy is MODELLED (time x stated watts)"
    if closure is None:
        return "the closure of the model's energy is not known"
    if not CLOSED[0] <= closure <= CLOSED[1]:
        low, high = (f"{100 * limit:.0f}" for limit in CLOSED)
        return f"the closure of the model's energy is {100 * closure:.4g} %, outside {low}-{high} %"
    return None


def _withheld(point: Point) -> str | None:
    if point.quality not in GOOD:
        return f"its energy has quality {point.quality or 'unknown'}; advice needs A or B"
    if point.stands_for_parts:
        return "it stands for parts that could not be measured, a level above the others"
    return None
