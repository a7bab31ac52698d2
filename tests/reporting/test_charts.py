"""The chart grammar: drawings of tables that show their numbers, all of them, unscaled."""

from __future__ import annotations

import itertools

import altair as alt
import pytest

from energyscope.intervals import Interval
from energyscope.reporting.charts import data, theme
from energyscope.reporting.charts.bars import bars, dots
from energyscope.reporting.charts.grid import grid
from energyscope.reporting.charts.plane import Axis, curves, plane, spans
from energyscope.reporting.charts.tree import flow, strip
from energyscope.reporting.table import Column, Table

COLUMNS = [
    Column("part", "Part"),
    Column("energy", "Energy", "mJ"),
    Column("work", "Work", "mJ"),
    Column("layer", "Layer", "count"),
]
ROWS = [
    {"part": "model", "kind": "model", "depth": 0, "layer": 1,
     "energy": Interval(2000.0, 1900.0, 2100.0), "work": 800.0},
    {"part": "MLP", "kind": "mlp", "component": "h.0.mlp", "depth": 1, "layer": 2,
     "energy": Interval(1500.0, 1450.0, 1550.0), "work": 700.0},
    {"part": "attention", "kind": "attention", "depth": 1, "layer": 3, "noisy": True,
     "energy": Interval(700.0, 500.0, 900.0), "work": 90.0},
    {"part": "unexplained", "kind": "unexplained", "depth": 1, "layer": 4, "rest": True,
     "energy": Interval(-200.0, -300.0, -100.0), "work": None},
]  # fmt: skip
TABLE = Table(COLUMNS, ROWS)
MANY = Table(
    COLUMNS, [{**ROWS[1], "part": f"p{at}", "layer": at, "energy": Interval(10.0 + at)} for at in range(200)]
)
CHARTS = {
    "bars": lambda: bars(TABLE, "part", "energy", work="work"),
    "bars in series": lambda: bars(TABLE, "part", "energy", series="kind"),
    "dots": lambda: dots(TABLE, "part", "energy", series="kind", reference=1.0),
    "plane": lambda: plane(TABLE, Axis("layer", guides=[2.5]), Axis("energy"), name="part", lines=TABLE),
    "curves": lambda: curves(TABLE, Axis("layer"), Axis("energy"), series="kind"),
    "spans": lambda: spans(TABLE, "layer", "energy", "work", series="kind"),
    "grid": lambda: grid(TABLE, "part", "layer", "energy"),
    "diverging grid": lambda: grid(
        Table(COLUMNS, [{**ROWS[0], "energy": 0.5}]), "part", "layer", "energy", diverging=True, written=True
    ),
    "flow": lambda: flow(TABLE, "energy"),
    "strip": lambda: strip(TABLE, "energy"),
    "many": lambda: grid(MANY, "part", "layer", "energy"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_valid_and_takes_its_theme_from_the_page(name):
    """GIVEN any drawing, THEN it is valid Vega-Lite, as wide as its place, without colours of text or paper."""
    chart = CHARTS[name]()
    chart.to_dict(validate=True)
    spec = data.spec(chart)
    assert spec["width"] == "container"
    assert isinstance(spec["height"], int | float)
    assert "config" not in spec
    alt.Chart.from_dict({**spec, "width": 300, "config": theme.config("dark")})


def records(chart):
    """Return all records of a chart."""
    return [record for rows in data.spec(chart)["datasets"].values() for record in rows]


def test_bars_show_work_idle_errors_and_noise():
    """GIVEN energies in J, THEN a bar from 0 in two parts, whiskers at its limits, and noisy ones hollow."""
    drawn = records(CHARTS["bars"]())
    mlp = [bar for bar in drawn if bar["name"] == "MLP" and "start" in bar]
    assert [(bar["start"], bar["end"], bar["fill"]) for bar in mlp] == [(0.0, 0.7, 1.0), (0.7, 1.5, theme.PALE)]
    whisker = next(mark for mark in drawn if mark["name"] == "MLP" and "low" in mark)
    assert (whisker["low"], whisker["high"]) == (1.45, 1.55)
    noisy = [bar for bar in drawn if bar["name"] == "attention" and "fill" in bar]
    assert max(bar["fill"] for bar in noisy) == theme.HOLLOW
    assert mlp[0]["colour"] == theme.KINDS["mlp"]


def test_what_is_below_zero_is_drawn_below_zero():
    """GIVEN negative unexplained energy, THEN its bar lies left of 0, in one piece."""
    bars = [mark for mark in records(CHARTS["bars"]()) if mark["name"] == "unexplained" and "start" in mark]
    assert [(bar["start"], bar["end"]) for bar in bars] == [(-0.2, 0.0)]


def test_nothing_is_scaled_to_its_whole():
    """GIVEN parts that exceed their whole, THEN each keeps its own size in the flow and in the strip."""
    sizes = {"model": 2.0, "MLP": 1.5, "attention": 0.7}
    boxes = [mark for mark in records(CHARTS["flow"]()) if {"right", "bottom"} <= set(mark)]
    heights = {box["tip0"]: box["bottom"] - box["top"] for box in boxes}
    assert {name: heights[name] for name in sizes} == pytest.approx(sizes)
    cells = {cell["tip0"]: cell["right"] - cell["x"] for cell in records(CHARTS["strip"]())}
    assert cells == pytest.approx(sizes)
    params = {param["name"]: param["value"] for param in data.spec(CHARTS["strip"]())["params"]}
    assert (params["from"], params["to"]) == (0.0, pytest.approx(2.2))  # what exceeds the model is shown


def test_a_mark_says_all_that_its_row_says():
    """GIVEN a tooltip, THEN it holds every column as the table writes it."""
    mark = next(mark for mark in records(CHARTS["plane"]()) if mark.get("component") == "h.0.mlp")
    assert [mark[f"tip{at}"] for at in range(4)] == ["MLP", "1.50 J ± 0.05", "700 mJ", "2"]


def test_highlighting_knows_kinds_and_components():
    """GIVEN a chart, THEN it has the parameter that the page sets, and lists the kinds that it knows."""
    params = {param["name"]: param.get("value") for param in data.spec(CHARTS["bars"]())["params"]}
    assert params["lit"] is None
    assert params["kinds"] == sorted({row["kind"] for row in ROWS})


def test_many_records_are_held_by_columns():
    """GIVEN hundreds of records, THEN one record of columns holds them, with recurring words once."""
    columns = next(rows[0] for rows in data.spec(CHARTS["many"]())["datasets"].values() if len(rows) == 1)
    assert len(columns["column"]) == 200
    assert columns["kind_words"] == ["mlp"]


def test_a_kind_has_one_colour_and_other_things_have_others():
    """GIVEN palettes, THEN kinds, precisions, executions and phases share no colour, and unknown names get one."""
    palettes = [theme.KINDS, theme.PRECISIONS, theme.EXECUTIONS, theme.PHASES]
    for first, second in itertools.combinations(palettes, 2):
        assert not set(first.values()) & set(second.values())
    colours = theme.palette(["mlp", "mlp.other", "somebody's model", "another"])
    assert colours["mlp"] == colours["mlp.other"]
    assert len({colours["somebody's model"], colours["another"], colours["mlp"]}) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_words_stand_out_from_the_paper(scheme):
    """GIVEN a theme, THEN text has a contrast of 4.5 to its paper, and lines of intervals and guides of 3."""
    paper = {"light": "#ffffff", "dark": "#14181d"}[scheme]
    styles = theme.config(scheme)["style"]
    for style, least in ((theme.INK, 4.5), (theme.FAINT, 4.5), (theme.RANGE, 3), (theme.GUIDE, 3)):
        assert contrast(styles[style]["color"], paper) >= least, style


def contrast(first, second):
    """Return the contrast of two colours (WCAG 2.2)."""

    def luminance(colour):
        shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_a_written_grid_keeps_cells_without_a_value():
    """GIVEN a cell without a value, THEN a dash stands in it where values are written; else it is left out."""
    table = Table(COLUMNS, [{**ROWS[0], "energy": 0.5}, {**ROWS[1], "energy": None}])
    written, plain = (
        records(grid(table, "part", "layer", "energy", diverging=True, written=way)) for way in (True, False)
    )
    assert [(cell["value"], cell["text"]) for cell in written] == [(500.0, "500"), (None, "\u2013")]
    assert [cell["row"] for cell in plain] == ["model"]
