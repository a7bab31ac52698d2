"""The chart of the laws that a run is a cell of: the whole model over FLOPs, with the run's own cell marked."""

from __future__ import annotations

from collections.abc import Sequence

from energyscope.reporting import text
from energyscope.reporting.charts import theme
from energyscope.reporting.data.scaling import LawCell, OwnLaw, ScalingData
from energyscope.reporting.figure import Figure, Table
from energyscope.reporting.grade_figures import graded
from energyscope.reporting.laws import names
from energyscope.reporting.laws.document import WHOLE
from energyscope.reporting.laws.plot import HOLLOW, Curve, Dot, Plot, draw, flat_said

SECTION, NAME = "scaling", "scaling-law"
_CELLS, _OWN = "cells of the law", "this run"
_COLOURS = {_CELLS: theme.colour(WHOLE), _OWN: "#d55e00"}


def figure_name(index: int) -> str:
    """Return the name of the chart of a run's law, from 0."""
    return NAME if index == 0 else f"{NAME}-{index + 1}"


def scaling_figures(found: ScalingData | None) -> list[Figure]:
    """Draw each law that joins cells of different work."""
    laws = found.groups if found else []
    several = len(laws) > 1
    return [
        _figure(law, figure_name(index), found.word, law.label if several else "")
        for index, law in enumerate(laws)
        if found and len({cell.flops for cell in law.cells}) > 1
    ]


def _figure(law: OwnLaw, name: str, word: str, label: str) -> Figure:
    own = [cell for cell in law.cells if cell.own]
    told = " Solid: E0 + k \u00d7 FLOPs." if law.line else ""
    told += " Dashed: what the roofline law says of the same cells." if law.roofline else ""
    here = [f"{_energy(cell)} at {cell.at}" for cell in own]
    amount = text.count(len(law.cells), "cell")
    summary = f"{word} of the whole model over FLOPs in {amount}; {_OWN}: {text.listed(here)}"
    told += flat_said([names.subject_name(WHOLE)]) if law.flat else ""
    told += HOLLOW if any(cell.invalid for cell in law.cells) else ""
    return Figure(
        name=name,
        section=SECTION,
        title=f"{word} of the whole model over FLOPs{f', {label}' if label else ''}",
        caption=f"Both axes logarithmic. Points: cells with 95 % intervals; ringed: {_OWN}.{told}",
        summary=summary,
        chart=_chart(law, word, summary),
        table=_table(law.cells),
    )


def _chart(law: OwnLaw, word: str, summary: str) -> object:
    work, work_unit = text.scale_of(max(cell.flops for cell in law.cells), "FLOP")
    divisor, unit = text.scale_of(max(cell.energy.value for cell in law.cells), "mJ")
    dots = [
        Dot(
            _OWN if cell.own else _CELLS,
            cell.flops / work,
            cell.energy.scaled(1 / divisor),
            _energy(cell),
            cell.at,
            weak=cell.invalid,
        )
        for cell in sorted(law.cells, key=lambda cell: cell.own)  # the run's own on top
    ]
    curves = [
        Curve(_CELLS, tuple((flops / work, energy / divisor) for flops, energy in said), dashed)
        for said, dashed in ((law.line, False), (law.roofline, True))
        if said
    ]
    plot = Plot(
        (f"FLOPs of a {law.unit} ({work_unit})", f"{word} ({unit})"),
        _COLOURS,
        dots,
        curves,
        y="log",
        marks=[(_OWN, cell.flops / work, cell.energy.value / divisor, _OWN) for cell in law.cells if cell.own],
        height=330,
    )
    return draw(plot, summary)


def _energy(cell: LawCell) -> str:
    return graded(text.with_limits(cell.energy, "mJ"), cell.invalid)


def _table(cells: Sequence[LawCell]) -> Table:
    """Return the cells with what each law says of them, where there is such a law."""
    laws = {
        "two-term": [cell.line for cell in cells],
        "roofline": [cell.roofline for cell in cells],
    }
    shown = {name: said for name, said in laws.items() if any(value is not None for value in said)}
    rows = [
        [
            f"{cell.at} ({_OWN})" if cell.own else cell.at,
            text.quantity(cell.flops, "FLOP"),
            _energy(cell),
            *(
                "\u2013" if (value := said[index]) is None else text.quantity(value, "mJ")
                for said in shown.values()
            ),
        ]
        for index, cell in enumerate(cells)
    ]
    return Table(["cell", "FLOPs", "energy [95 %]", *shown], rows)
