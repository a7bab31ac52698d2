"""Sizes that were left out and foretold from the others: a chart, a table and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from energyscope.reporting import text
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import WHOLE, Found
from energyscope.reporting.laws.plot import Dot, Plot, draw, hollow_said, palette
from energyscope.reporting.laws.weak_cells import invalid_shapes, is_weak
from energyscope.runs.intervals import Interval, finite

SUM = "sum over parts"  # as in `scaling.whole`
_BAND = 15.0  # per cent
_CUT = 100.0


def left_out_said(document: Found) -> list[str]:
    """Say how far each left-out model was from what the others foretold, and whether that extrapolates."""
    models: dict[tuple[str, str], list[Found]] = {}
    for one in _wholes(document):
        if finite(one.get("median")) is not None:
            models.setdefault((str(one["left_out"]), _of(document, one)), []).append(one)
    said = []
    for (model, setting), found in models.items():
        beyond = "beyond the sizes of the others" if found[0].get("extrapolated") else "between the others"
        each = [f"{text.percent(one['median'])} {_by(one)} (worst {_percent(one.get('worst'))})" for one in found]
        cells = text.count(int(found[0].get("cells") or 0), "cell")
        said.append(f"{model}{setting}, {beyond}: {text.listed(each)}, median of {cells}.")
    return said


def left_out_words(document: Found) -> str:
    """Say within what a left-out size is foretold, the median over the models; nothing where none was left out."""
    medians: dict[str, list[float]] = {}
    for one in _wholes(document):
        middle = finite(one.get("median"))
        if middle is not None:
            medians.setdefault(_by(one), []).append(middle)
    each = [f"{text.percent(median(known))} {by}" for by, known in medians.items()]
    return f"a left-out size is foretold within {' and '.join(each)} (medians)" if each else ""


def _by(one: Found) -> str:
    return "as the sum over its parts" if one.get("law") == SUM else "by a law of the whole"


def left_out_table(document: Found, board_names: Mapping[str, str]) -> Table | None:
    """Return a row for each left-out model and subject; None where none was left out."""
    found = document.get("sizes_held_out") or ()
    if not found:
        return None
    rows = [
        [str(one["left_out"]), names.full_label({**one, "model": None}, board_names),
         names.subject_name(one.get("subject") or WHOLE), str(one.get("law") or "\u2013"),
         _percent(one.get("median")), _percent(one.get("worst")), str(one.get("cells") or 0),
         "yes" if one.get("extrapolated") else "no"]
        for one in found
    ]  # fmt: skip
    columns = ["left out", "setting", "subject", "law", "median", "worst", "cells", "extrapolates"]
    return Table(columns, rows)


def left_out_figures(document: Found) -> list[Figure]:
    """Draw each left-out cell's error against its tokens; a chart for each kind of law."""
    ways: dict[str, list[Found]] = {}
    for one in _wholes(document):
        ways.setdefault(_by(one), []).append(one)
    made = [_figure(document, found, by, index) for index, (by, found) in enumerate(ways.items())]
    return [figure for figure in made if figure]


def _figure(document: Found, found: Sequence[Found], by: str, index: int) -> Figure | None:
    dots, rows = [], []
    for one in found:
        name = f"{one['left_out']}{_of(document, one)}"
        weak = invalid_shapes(document, {**one, "model": one["left_out"]})
        for error in one.get("errors") or ():
            share = finite(error.get("relative"))
            if share is None:
                continue
            bad = is_weak(error, weak)
            at, said = names.shape_name(error, one.get("phase")), graded(text.signed_percent(share), bad)
            place = float(error["batch_size"] * error["tokens"])
            dots.append(Dot(name, place, Interval(share * 100), said, at, name, bad))
            rows.append([name, at, said])
    if not dots:
        return None
    cut = sum(abs(dot.y.value) > _CUT for dot in dots)
    end = max(min(max(abs(dot.y.value) for dot in dots) * 1.15, _CUT), _BAND * 1.3)
    summary = f"Relative error of each left-out model's cells, foretold from the other models {by}"
    return Figure(
        name=f"sizes-left-out-{index}",
        section="sizes-left-out",
        title=f"Foretold {by}",
        caption="Foretold less measured, as a share of the measured; every law was fitted without any cell of "
        f"that model. Green: within 15 %.{hollow_said(dots)}",
        summary=summary,
        chart=draw(
            Plot(
                ("Batch \u00d7 tokens", "Foretold less measured (%)"),
                palette(list(dict.fromkeys(dot.series for dot in dots))),
                dots,
                x="doublings",
                y="linear",
                band=(-_BAND, _BAND),
                reference=0.0,
                y_limits=(-end, end),
            ),
            summary,
        ),
        table=Table(["left out", "shape", "foretold less measured"], rows),
        notes=[f"{text.count(cut, 'cell')} beyond \u00b1100 % not drawn: see the numbers."] if cut else [],
    )


def _wholes(document: Found) -> list[Found]:
    found = [one for one in document.get("sizes_held_out") or () if (one.get("subject") or WHOLE) == WHOLE]
    sizes = {
        str(row["model"]): finite(row.get("parameters")) or 0.0
        for one in document.get("sizes") or ()
        for row in one.get("rows") or ()
    }
    return sorted(found, key=lambda one: sizes.get(str(one["left_out"]), 0.0))


def _of(document: Found, one: Found) -> str:
    """Return in what this entry's setting differs from the others', in brackets."""
    fields = [field for field in names.varying(_wholes(document)) if field != "model"]
    said = [names.value_of(field, one.get(field), names.boards(document)) for field in fields]
    return f" ({', '.join(said)})" if said else ""


def _percent(share: object) -> str:
    known = finite(share)
    return "\u2013" if known is None else text.percent(known)
