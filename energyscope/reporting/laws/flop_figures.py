"""The charts of J/FLOP of one group: over tokens, and of a further FLOP between neighbouring cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import DECODE, Found, fitted, holds_zero, item, tokens_of, worked
from energyscope.reporting.laws.plot import HOLLOW_WHOLE, Curve, Dot, Plot, Segment, draw, flat_said, hollow_said
from energyscope.reporting.laws.weak_cells import Shapes, is_weak_whole
from energyscope.runs.intervals import Interval

_FAR_OFF = 4.0  # times k


def colours_of(subjects: Sequence[Found]) -> dict[str, str]:
    """Return each subject's colour by its name."""
    return {names.subject_name(one["subject"]): theme.colour(str(one["subject"])) for one in subjects}


def work_of(subjects: Sequence[Found]) -> tuple[float, str]:
    """Return the divisor and the unit in which the subjects' FLOPs are best read."""
    return text.scale_of(max(point["flops"] for one in subjects for point in worked(one)), "FLOP")


def per_flop_figure(
    group: Found, subjects: Sequence[Found], place: str, word: str, weak: Shapes = ()
) -> Figure | None:
    """Draw all energy of each subject over its FLOPs; ``weak`` are the shapes whose whole model is invalid."""
    along_context = group.get("phase") == DECODE and _contexts(subjects) > _batches(subjects)
    dots, rows = [], []
    for one in subjects:
        name = names.subject_name(one["subject"])
        for point in worked(one):
            price = item(point.get("pj_per_flop"))
            if price is None or price.value <= 0:
                continue
            x = point["tokens"] if along_context else tokens_of(group, point)
            line = point["batch_size"] if along_context or group.get("phase") != DECODE else point["tokens"]
            at = names.shape_name(point, group.get("phase"))
            bad = is_weak_whole(one, point, weak)
            told = graded(text.with_limits(price, "pJ/FLOP"), bad)
            dots.append(Dot(name, float(x), price, told, at, str(line), bad))
            rows.append([name, at, told])
    if not dots:
        return None
    axis = "Tokens of context" if along_context else "Tokens of a pass, batch \u00d7 length"
    axis = "Sequences of a step (batch)" if group.get("phase") == DECODE and not along_context else axis
    amounts = Counter((dot.series, dot.line) for dot in dots)
    several = len({dot.line for dot in dots}) > 1 and max(amounts.values()) > 1  # a point alone has no line
    each = "context" if group.get("phase") == DECODE and not along_context else "batch size"
    least = min(dots, key=lambda dot: dot.y.value)
    summary = f"{word} per FLOP by subject; least: {least.series}, {least.said}, at {least.at}"
    return Figure(
        name=f"{place}-per-flop",
        section=place,
        title=f"{word} per FLOP",
        caption=f"All of a subject's energy over all of its FLOPs, E0 included; 95 % intervals."
        f"{f' One line for each {each}.' if several else ''}{hollow_said(dots, HOLLOW_WHOLE)}",
        summary=summary,
        chart=draw(
            Plot((axis, f"{word} per FLOP (pJ)"), colours_of(subjects), dots, x="doublings", joined=True), summary
        ),
        table=Table(["subject", "cell", f"{word.lower()} per FLOP [95 %]"], rows),
    )


def _batches(subjects: Sequence[Found]) -> int:
    return len({point["batch_size"] for one in subjects for point in one["points"]})


def _contexts(subjects: Sequence[Found]) -> int:
    return len({point["tokens"] for one in subjects for point in one["points"]})


def quotients_figure(subjects: Sequence[Found], place: str, word: str) -> Figure | None:
    work, unit = work_of(subjects)
    segments, curves, rows, vague, flat = [], [], [], 0, []
    for one in subjects:
        name = names.subject_name(one["subject"])
        law, points = fitted(one.get("two_term")), worked(one)
        slope = item(law.get("marginal_pj_per_flop")) if law else None
        for found in one.get("quotients") or ():
            price = item(found.get("pj_per_flop"))
            if price is None:
                continue
            told = text.with_limits(price, "pJ/FLOP")
            ends = found["from_flops"] / work, found["to_flops"] / work
            rows.append([name, *(text.quantity(end * work, "FLOP") for end in ends), told])
            if _told(price, slope):
                segments.append(Segment(name, *ends, price, told))
            else:
                vague += 1
        if holds_zero(slope):
            flat.append(name)
        elif slope and len(points) > 1:
            reach = [limit(point["flops"] for point in points) / work for limit in (min, max)]
            curves.append(Curve(name, tuple((end, slope.value) for end in reach), dashed=True))
    if not segments:
        return None
    summary = f"Marginal {word.lower()} per FLOP between neighbouring cells"
    aside = f" {text.count(vague, 'difference')} not drawn, of which the interval is wider than k on either side."
    aside = (aside if vague else "") + flat_said(flat)
    return Figure(
        name=f"{place}-marginal",
        section=place,
        title="What a further FLOP costs",
        caption="Level pieces: the difference between two neighbouring cells over their difference in FLOPs, with "
        f"95 % intervals; neighbours share a cell. Dashed: the law's k.{aside}",
        summary=summary,
        chart=draw(
            Plot(
                (f"FLOPs of a pass ({unit})", f"Marginal {word.lower()} (pJ/FLOP)"),
                colours_of(subjects),
                (),
                curves,
                segments,
                y="linear",
            ),
            summary,
        ),
        table=Table(["subject", "from", "to", "marginal [95 %]"], rows),
    )


def _told(price: Interval, slope: Interval | None) -> bool:
    """Whether a quotient says anything: no wider to either side than k, nor further from it than four times k."""
    if slope is None or slope.value <= 0:
        return price.known and max(price.below, price.above) <= abs(price.value)
    near = abs(price.value - slope.value) <= _FAR_OFF * slope.value
    return near and max(price.below, price.above, 0.0) <= slope.value if price.known else near
