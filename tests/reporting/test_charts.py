"""The chart grammar: drawings of tables that show their numbers, all of them, unscaled."""

from __future__ import annotations

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
    return [record for held in data.spec(chart)["datasets"].values() for record in held]


def test_bars_show_work_idle_errors_and_noise():
    """GIVEN energies in J, THEN a bar from 0 in two parts, whiskers at its limits, and noisy ones hollow."""
    drawn = records(CHARTS["bars"]())
    mlp = [one for one in drawn if one["name"] == "MLP" and "start" in one]
    assert [(one["start"], one["end"], one["fill"]) for one in mlp] == [(0.0, 0.7, 1.0), (0.7, 1.5, theme.PALE)]
    whisker = next(one for one in drawn if one["name"] == "MLP" and "low" in one)
    assert (whisker["low"], whisker["high"]) == (1.45, 1.55)
    noisy = [one for one in drawn if one["name"] == "attention" and "fill" in one]
    assert max(one["fill"] for one in noisy) == theme.HOLLOW
    assert mlp[0]["colour"] == theme.KINDS["mlp"]


def test_what_is_below_zero_is_drawn_below_zero():
    """GIVEN negative unexplained energy, THEN its bar lies left of 0, in one piece."""
    parts = [one for one in records(CHARTS["bars"]()) if one["name"] == "unexplained" and "start" in one]
    assert [(one["start"], one["end"]) for one in parts] == [(-0.2, 0.0)]


def test_nothing_is_scaled_to_its_whole():
    """GIVEN parts that exceed their whole, THEN each keeps its own size in the flow and in the strip."""
    boxes = {
        one["tip0"]: one["bottom"] - one["top"]
        for one in records(CHARTS["flow"]())
        if "right" in one and "bottom" in one
    }
    assert boxes["MLP"] == pytest.approx(1.5)
    assert boxes["attention"] == pytest.approx(0.7)
    assert boxes["model"] == pytest.approx(2.0)
    cells = {one["tip0"]: one["right"] - one["x"] for one in records(CHARTS["strip"]())}
    assert cells == pytest.approx({"model": 2.0, "MLP": 1.5, "attention": 0.7})
    zoom = {
        one["name"]: one["value"]
        for one in data.spec(CHARTS["strip"]())["params"]
        if one["name"] in {"from", "to"}
    }
    assert zoom == {"from": 0.0, "to": pytest.approx(2.2)}  # what exceeds the model is shown


def test_a_mark_says_all_that_its_row_says():
    """GIVEN a tooltip, THEN it holds every column as the table writes it."""
    tip = next(one for one in records(CHARTS["plane"]()) if one.get("component") == "h.0.mlp")
    assert [tip[f"tip{at}"] for at in range(4)] == ["MLP", "1.50 J ± 0.05", "700 mJ", "2"]


def test_highlighting_knows_kinds_and_components():
    """GIVEN a chart, THEN it has the parameter that the page sets, and lists the kinds that it knows."""
    params = {one["name"]: one.get("value") for one in data.spec(CHARTS["bars"]())["params"]}
    assert params["lit"] is None
    assert params["kinds"] == sorted({row["kind"] for row in ROWS})


def test_many_records_are_held_by_columns():
    """GIVEN hundreds of records, THEN one record of columns holds them, with recurring words once."""
    held = [held for held in data.spec(CHARTS["many"]())["datasets"].values() if len(held) == 1]
    assert held
    assert len(held[0][0]["column"]) == 200
    assert held[0][0]["kind_words"] == ["mlp"]


def test_a_kind_has_one_colour_and_other_things_have_others():
    """GIVEN palettes, THEN kinds, precisions, executions and phases share no colour, and unknown names get one."""
    palettes = [theme.KINDS, theme.PRECISIONS, theme.EXECUTIONS, theme.PHASES]
    for at, first in enumerate(palettes):
        for second in palettes[at + 1 :]:
            assert not set(first.values()) & set(second.values())
    found = theme.palette(["mlp", "mlp.other", "somebody's model", "another"])
    assert found["mlp"] == found["mlp.other"]
    assert len({found["somebody's model"], found["another"], found["mlp"]}) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_words_stand_out_from_the_paper(scheme):
    """GIVEN a theme, THEN text has a contrast of 4.5 to its paper, and lines of intervals and guides of 3."""
    paper = {"light": "#ffffff", "dark": "#14181d"}[scheme]
    styles = theme.config(scheme)["style"]
    assert contrast(styles[theme.INK]["color"], paper) >= 4.5
    assert contrast(styles[theme.FAINT]["color"], paper) >= 4.5
    assert contrast(styles[theme.RANGE]["color"], paper) >= 3
    assert contrast(styles[theme.GUIDE]["color"], paper) >= 3


def contrast(first, second):
    """Return the contrast of two colours (WCAG 2.2)."""

    def luminance(colour):
        shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
