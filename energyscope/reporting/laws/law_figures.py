"""The charts of one group's laws: energy over FLOPs, what the law leaves, and J/FLOP."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import (
    WHOLE,
    Found,
    checked,
    drawn_subjects,
    fitted,
    item,
    law_at,
    line_over,
    said_by,
    said_over,
    shows_growth,
    worked,
)
from energyscope.reporting.laws.flop_figures import colours_of, per_flop_figure, quotients_figure, work_of
from energyscope.reporting.laws.plot import HOLLOW_WHOLE, Curve, Dot, Plot, draw, flat_said, hollow_said
from energyscope.reporting.laws.weak_cells import Shapes, is_weak_whole
from energyscope.runs.intervals import Interval, finite

_FEW = 3  # parts, up to which each has its roofline drawn
_CUT = 60.0  # per cent: where the axis of residuals ends
_TOLERANCE = 10.0  # per cent, as in `scaling.breaks.TOLERANCE`


def law_figures(group: Found, place: str, word: str, weak: Shapes = ()) -> list[Figure]:
    """Return the charts that a group's points and laws allow; ``place`` begins their names in the page.

    ``weak`` are the shapes whose whole model is below grade C; of parts, a document of laws does not say it.
    """
    subjects = drawn_subjects(group)
    if not subjects:
        return []
    made = [
        _energy(group, subjects, place, word, weak),
        _residuals(group, subjects, place, word, weak),
        per_flop_figure(group, subjects, place, word, weak),
        quotients_figure(subjects, place, word),
    ]
    return [figure for figure in made if figure]


def _energy(group: Found, subjects: Sequence[Found], place: str, word: str, weak: Shapes) -> Figure:
    energies = [energy for one in subjects for point in worked(one) if (energy := item(point["energy_mj"]))]
    divisor, unit = text.scale_of(max(one.value for one in energies), "mJ")
    work, work_unit = work_of(subjects)
    dots, curves = [], []
    parts = [one for one in subjects if one["subject"] != WHOLE]
    for one in subjects:
        points = worked(one)
        dots += [
            _dot(group, one, point, point["flops"] / work, (energy, divisor), is_weak_whole(one, point, weak))
            for point in points
            if (energy := item(point["energy_mj"]))
        ]
        curves += _line(one, points, work, divisor)
        if len(parts) <= _FEW or one["subject"] == WHOLE:
            curves += _roofline(one, points, work, divisor)
    dots = [dot for dot in dots if dot.y.value > 0]
    solid = any(not curve.dashed for curve in curves)
    dashed = any(curve.dashed for curve in curves)
    told = " Solid: E0 + k \u00d7 FLOPs, which is level where E0 rules." if solid else ""
    told += " Dashed: what the roofline law says of the same cells." if dashed else ""
    told += flat_said([names.subject_name(one["subject"]) for one in subjects if _is_flat(one)])
    told += hollow_said(dots, HOLLOW_WHOLE)
    named = [names.subject_name(one["subject"]) for one in subjects]
    summary = f"{word} over FLOPs with the laws of {text.listed(named, 7)}"
    return Figure(
        name=f"{place}-energy",
        section=place,
        title=f"{word} over FLOPs",
        caption=f"Both axes logarithmic. Points: cells with 95 % intervals.{told}",
        summary=summary,
        chart=draw(
            Plot(
                (f"FLOPs of a pass ({work_unit})", f"{word} ({unit})"),
                colours_of(subjects),
                dots,
                curves,
                y="log",
                height=330,
            ),
            summary,
        ),
        table=_points_table(group, subjects, weak),
    )


def _dot(group: Found, subject: Found, point: Found, x: float, energy: tuple[Interval, float], weak: bool) -> Dot:
    value, divisor = energy
    name, at = names.subject_name(subject["subject"]), names.shape_name(point, group.get("phase"))
    said = graded(text.with_limits(value, "mJ"), weak)
    return Dot(name, x, value.scaled(1 / divisor), said, at, str(point["batch_size"]), weak)


def _line(subject: Found, points: Sequence[Found], work: float, divisor: float) -> list[Curve]:
    """Return the two-term line between its cells, where it is positive; none where k may be 0."""
    law = fitted(subject.get("two_term"))
    return _curve(subject, line_over(law, points) if law and shows_growth(law) else [], work, divisor)


def _is_flat(subject: Found) -> bool:
    """Tell whether there is a law that has no line, as its k may be 0."""
    law = fitted(subject.get("two_term"))
    return law is not None and not shows_growth(law)


def _roofline(subject: Found, points: Sequence[Found], work: float, divisor: float) -> list[Curve]:
    """Return what the roofline says of the cells, joined; the costliest where several have one work."""
    law = fitted(subject.get("roofline"))
    return _curve(subject, said_over(law, points) if law else [], work, divisor, dashed=True)


def _curve(
    subject: Found, said: Sequence[tuple[float, float]], work: float, divisor: float, *, dashed: bool = False
) -> list[Curve]:
    points = tuple((flops / work, energy / divisor) for flops, energy in said)
    return [Curve(names.subject_name(subject["subject"]), points, dashed)] if points else []


def _points_table(group: Found, subjects: Sequence[Found], weak: Shapes) -> Table:
    rows = []
    for one in subjects:
        points = worked(one)
        law = fitted(one.get("two_term"))
        for point, roof in zip(points, said_by(one.get("roofline"), points), strict=True):
            rows.append([
                names.subject_name(one["subject"]), names.shape_name(point, group.get("phase")),
                text.quantity(point["flops"], "FLOP"),
                graded(text.with_limits(item(point["energy_mj"]), "mJ"), is_weak_whole(one, point, weak)),
                text.quantity(law_at(law, point["flops"]), "mJ") if law else "\u2013",
                "\u2013" if roof is None else text.quantity(roof, "mJ"),
            ])  # fmt: skip
    return Table(["subject", "cell", "FLOPs", "energy [95 %]", "two-term", "roofline"], rows)


def _residuals(group: Found, subjects: Sequence[Found], place: str, word: str, weak: Shapes) -> Figure | None:
    work, unit = work_of(subjects)
    dots, rows = [], []
    for one in subjects:
        points, law = one.get("points") or [], checked(one.get("two_term"))
        for point, said in zip(points, said_by(law, points), strict=True):
            energy, flops = item(point.get("energy_mj")), finite(point.get("flops"))
            if said is None or energy is None or not flops:
                continue
            share = (energy.value - said) / energy.value * 100
            bad = is_weak_whole(one, point, weak)
            name, told = names.subject_name(one["subject"]), graded(text.signed_percent(share / 100), bad)
            at = names.shape_name(point, group.get("phase"))
            dots.append(Dot(name, flops / work, Interval(share), told, at, str(point["batch_size"]), bad))
            rows.append([name, at, text.quantity(flops, "FLOP"), told])
    if not dots:
        return None
    beyond = [dot for dot in dots if abs(dot.y.value) > _TOLERANCE]
    cut = sum(abs(dot.y.value) > _CUT for dot in dots)
    end = min(max(abs(dot.y.value) for dot in dots) * 1.15, _CUT)
    summary = f"Relative residuals of the two-term law: {len(beyond)} of {len(dots)} beyond 10 %"
    notes = [f"{text.count(cut, 'point')} beyond \u00b1{_CUT:.0f} % not drawn: see the numbers."] if cut else []
    return Figure(
        name=f"{place}-residuals",
        section=place,
        title="What the two-term law leaves",
        caption=f"Measured less law, as a share of the measured. Green: within 10 %; {len(beyond)} of "
        f"{text.count(len(dots), 'point')} lie beyond. A bend from one side to the other is a law that breaks."
        f"{hollow_said(dots, HOLLOW_WHOLE)}",
        summary=summary,
        chart=draw(
            Plot(
                (f"FLOPs of a pass ({unit})", f"{word} less law (%)"),
                colours_of(subjects),
                dots,
                y="linear",
                band=(-_TOLERANCE, _TOLERANCE),
                reference=0.0,
                y_limits=(-max(end, 12.0), max(end, 12.0)),
                height=330,
            ),
            summary,
        ),
        table=Table(["subject", "cell", "FLOPs", "measured less law"], rows),
        notes=notes,
    )
