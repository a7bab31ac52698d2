"""What to do about each component, from its quadrant; withheld where the measurements do not support it. Pure.

"Quantize first" needs a *sensitivity*: what quantizing the component does to the predictions. Removal measures how
critical it is, which differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from energyscope.accounting.checks import AGREES, Checks
from energyscope.accounting.closure import CLOSED
from energyscope.correlation.quadrants import UNDECIDED, Point
from energyscope.reasons import Reason, reason

GOOD = ("A", "B")
# the first of these that was measured is used: kernels as deployed before simulated ones, 8 bits before 4
SENSITIVITIES = (
    "fp8-real", "w8a8-real", "w8a16-real", "bnb-int8", "int8", "int8-wa", "int8-tensor", "fp8", "fp8-wa",
    "int4-real", "bnb-nf4", "nf4", "int4",
)  # fmt: skip
QUANTIZE, KEEP, LOOK, LEAVE = "quantize-first", "keep", "look-closer", "leave"
BY_SENSITIVITY = {
    "high energy, low impact": (QUANTIZE, "costly-tolerant"),
    "high energy, high impact": (LOOK, "costly-sensitive"),
    "low energy, high impact": (KEEP, "cheap-sensitive"),
    "low energy, low impact": (LEAVE, "cheap-tolerant"),
}
BY_CRITICALITY = {
    "high energy, low impact": (LOOK, "costly-dispensable"),
    "high energy, high impact": (LOOK, "costly-critical"),
    "low energy, high impact": (KEEP, "cheap-critical"),
    "low energy, low impact": (LEAVE, "cheap-dispensable"),
}


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to do about a component and ``why``, or why nothing is advised (``withheld_because``).

    ``advice`` is `QUANTIZE`, `KEEP`, `LOOK` or `LEAVE`; ``unsure`` says what of its energy was not confirmed. The
    numbers are those of its point (`quadrants.Point`).
    """

    component: str
    quadrant: str
    advice: str | None = None
    why: Reason | None = None
    withheld_because: Reason | None = None
    unsure: Reason | None = None
    warning: Reason | None = None
    energy_mj: float | None = None
    impact: float | None = None
    stability: float | None = None


def sensitivity_column(columns: Sequence[str]) -> str | None:
    """Return the ``method:metric`` that advice is based on; None where no quantization was measured."""
    names = (f"{method}:kl" for method in SENSITIVITIES)
    return next((name for name in names if name in columns), None)


def advise(points: Sequence[Point], *, sensitivity: bool, checks: Checks, modelled: bool) -> list[Advice]:
    """Return the advice for every point, most energy first.

    ``sensitivity`` says that the points' impact is that of quantization. By the ``checks`` of their energies,
    advice is withheld where leaves and overhead do not add up to the model, or that is unknown, and for kinds that
    take another share in replay than the model saves without them; it is unsure where neither is clear.
    """
    for_all = _withheld_for_all(checks, modelled=modelled)
    return [
        _advice(point, for_all or _withheld(point, checks), _unsure(point, checks), sensitivity=sensitivity)
        for point in sorted(points, key=lambda point: -point.energy_mj)
    ]


def _advice(point: Point, withheld: Reason | None, unsure: Reason | None, *, sensitivity: bool) -> Advice:
    table = BY_SENSITIVITY if sensitivity else BY_CRITICALITY
    advice, why = (None, None) if withheld else table[point.quadrant]
    return Advice(
        component=point.component,
        quadrant=point.quadrant,
        advice=advice,
        why=reason(why) if why else None,
        withheld_because=withheld,
        unsure=None if withheld else unsure,
        warning=None if sensitivity else reason("only-removal"),
        energy_mj=point.energy_mj,
        impact=point.impact,
        stability=point.stability,
    )


def _withheld_for_all(checks: Checks, *, modelled: bool) -> Reason | None:
    if modelled:
        return reason("energy-modelled")
    return checks.outside() if checks.leaves is None or checks.add_up_wrongly else None


def _withheld(point: Point, checks: Checks) -> Reason | None:
    if point.quality not in GOOD:
        return reason("energy-quality", quality=point.quality)
    if point.stands_for_parts:
        return reason("stands-for-parts")
    check = checks.kinds.get(point.kind)
    if check is not None and check.disagrees and check.replayed and check.saved:
        return reason("differential-apart", replayed=check.replayed.value, saved=check.saved.value, of=checks.name)
    return reason("undecided") if point.quadrant == UNDECIDED else None


def _unsure(point: Point, checks: Checks) -> Reason | None:
    """Return what keeps a component's energy from being confirmed; None where leaves and its kind agree."""
    if checks.state != CLOSED:
        return reason("closure-unclear")
    check = checks.kinds.get(point.kind)
    if check is None:
        return reason("differential-unmeasured")
    return None if check.verdict == AGREES else reason("differential-unclear")
