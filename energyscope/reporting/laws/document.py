"""What the page reads out of a laws document: intervals, points and the amounts of work they are drawn over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from energyscope.runs.intervals import Interval, finite, interval

Found = Mapping[str, Any]
WHOLE, DECODE = "model", "decode"
LENGTH, BATCH, CELL = "length", "batch", "cell"
REMAINDERS = ("glue", "unexplained")  # subjects that no component is
TWO_TERM = "two-term"
_STEPS = 40  # of a curve


def item(found: object) -> Interval | None:
    """Return a value with its limits; None where it is unknown."""
    if not isinstance(found, Mapping):
        return None
    return interval(found.get("value"), found.get("low"), found.get("high"))


def holds_zero(value: Interval | None) -> bool:
    """Tell whether a value cannot be told from nothing: its interval is known, and holds 0."""
    return value is not None and value.known and not value.excludes(0.0)


def shows_growth(law: Found) -> bool:
    """Tell whether a two-term law's k can be told from nothing; where not, there is no line to draw of it."""
    return not holds_zero(item(law.get("marginal_pj_per_flop")))


def fitted(law: object) -> Found | None:
    """Return a law; None where only a reason stands in its place."""
    return law if isinstance(law, Mapping) and "flags" in law else None


def checked(law: object) -> Found | None:
    """Return a law that has cells to spare; None for a line through two cells, which any two give."""
    found = fitted(law)
    return found if found is not None and found.get("r2") is not None else None


def why(law: object) -> str:
    """Return the reason that stands in a law's place."""
    return str((law.get("reason") if isinstance(law, Mapping) else None) or "no reason was given")


def whole_of(group: Found) -> Found | None:
    """Return a group's whole model; None where it was not measured."""
    return next((one for one in group.get("subjects") or () if one.get("role") == "whole"), None)


def drawn_subjects(group: Found, most: int = 6) -> list[Found]:
    """Return the subjects that charts show: the whole and the costliest parts that have FLOPs."""
    subjects = group.get("subjects") or ()
    parts = [one for one in subjects if one.get("role") == "part" and worked(one)]
    parts.sort(key=lambda one: -total_energy(one))
    chosen = [one for one in subjects if one.get("role") == "whole" and worked(one)]
    return chosen + parts[: most - len(chosen)]


def worked(subject: Found) -> list[Found]:
    """Return the points of a subject that have FLOPs and an energy."""
    return [
        point
        for point in subject.get("points") or ()
        if (finite(point.get("flops")) or 0.0) > 0 and item(point.get("energy_mj"))
    ]


def total_energy(subject: Found) -> float:
    """Return the energy of all points of a subject (mJ): how subjects are ranked."""
    energies = [item(point.get("energy_mj")) for point in subject.get("points") or ()]
    return sum(energy.value for energy in energies if energy)


def law_at(law: Found, flops: float) -> float:
    """Return what a two-term law says of this many FLOPs, in mJ: E0 + k x FLOPs, with 1 mJ = 1e9 pJ."""
    fixed, marginal = item(law["fixed_mj"]), item(law["marginal_pj_per_flop"])
    if fixed is None or marginal is None:
        return float("nan")
    return fixed.value + marginal.value * flops * 1e-9


def line_over(law: Found, points: Sequence[Found]) -> list[tuple[float, float]]:
    """Return what a two-term law says between the points, where it is positive, as pairs of FLOPs and mJ.

    Steps are even on a logarithmic axis; there are none where all points have the same FLOPs.
    """
    places = [point["flops"] for point in points]
    if len(set(places)) < 2:
        return []
    low, high = min(places), max(places)
    steps = [low * (high / low) ** (step / _STEPS) for step in range(_STEPS + 1)]
    found = [(flops, law_at(law, flops)) for flops in steps]
    return [pair for pair in found if pair[1] > 0]


def said_over(law: object, points: Sequence[Found]) -> list[tuple[float, float]]:
    """Return what a law says of its own cells, where it is positive, as sorted pairs of FLOPs and mJ.

    Of several cells with the same FLOPs, it is the most.
    """
    found: dict[float, float] = {}
    for point, value in zip(points, said_by(law, points), strict=True):
        if value is not None and value > 0:
            found[point["flops"]] = max(value, found.get(point["flops"], 0.0))
    return sorted(found.items())


def said_by(law: object, points: Sequence[Found]) -> list[float | None]:
    """Return what a law says of each of its own cells, in mJ, from its residuals (measured - law) / measured."""
    residuals = law.get("residuals") if isinstance(law, Mapping) else None
    if not isinstance(residuals, list) or len(residuals) != len(points):
        return [None] * len(points)
    energies = [item(point.get("energy_mj")) for point in points]
    return [
        None if energy is None or (share := finite(residual)) is None else energy.value * (1 - share)
        for energy, residual in zip(energies, residuals, strict=True)
    ]


def tokens_of(group: Found, point: Found) -> int:
    """Return how many tokens a pass reads: batch x length in a prefill, the batch in a decode step."""
    batch = int(point["batch_size"])
    return batch if group.get("phase") == DECODE else batch * int(point["tokens"])


def measured_groups(document: Found) -> list[Found]:
    """Return the groups of which at least one subject has points."""
    return [
        group
        for group in document.get("groups") or ()
        if any(subject.get("points") for subject in group.get("subjects") or ())
    ]


def main_group(document: Found) -> Found | None:
    """Return the group that the first sentences speak of: the first with most cells of those with a checked law.

    A law that shows growth goes before one that does not, whose numbers tell nothing; sentences name the others.
    """
    able = [
        (one, law)
        for one in measured_groups(document)
        if (whole := whole_of(one)) and (law := checked(whole.get("two_term")))
    ]
    able.sort(key=lambda found: (shows_growth(found[1]), len(found[0].get("cells") or ())), reverse=True)
    return able[0][0] if able else None
