from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.charts import grades, profile, theme
from energyscope.reporting.charts.theme import magnitude
from energyscope.reporting.data import report_data
from energyscope.reporting.figure import Figure
from energyscope.reporting.figures import figures


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        (Shape(), ["energy-by-kind", "energy-flow", "energy-icicle", "energy-by-layer", "energy-heatmap",
                   "power-intensity", "impact-kl", "impact-perplexity-difference", "impact-heatmap-zero",
                   "energy-impact", "simpler-methods", "anchors"]),
        (Shape(granularity="coarse", impact=False), ["energy-by-kind", "energy-flow", "energy-icicle",
                                                     "energy-by-layer", "power-intensity", "simpler-methods",
                                                     "anchors"]),
        (Shape(layers=1, impact=False), ["energy-by-kind", "energy-flow", "energy-icicle", "energy-heatmap",
                                         "power-intensity", "simpler-methods", "anchors"]),
        (Shape(layers=1, modelled=True, old=True, impact=False), ["energy-by-kind", "energy-flow", "energy-icicle",
                                                                  "energy-heatmap", "anchors"]),
    ],
)  # fmt: skip
def test_every_chart_becomes_a_picture(tmp_path: Path, shape: Shape, names: list[str]) -> None:
    """GIVEN a run, THEN each chart that its data allow renders to an SVG in both themes, without a browser."""
    drawn = figures(report_data(build_run(tmp_path / "run", shape)))
    assert [figure.name for figure in drawn] == names
    for figure in drawn:
        assert figure.chart.to_dict(validate=True)
        for name in ("light", "dark"):
            assert _svg(figure.chart, name).count("<path") > 3, figure.name
        for table in (figure.table, *(view.table for view in figure.views)):
            assert table.rows
            assert all(len(row) == len(table.columns) for row in table.rows)
        for view in figure.views:
            assert view.chart.to_dict(validate=True)
            svg = _svg(view.chart, "light")
            assert svg.count("<path") > 3, (figure.name, view.key)
            assert "NaN" not in svg


def _svg(chart: Any, name: theme.Theme, **changed: Any) -> str:
    """Draw a chart; ``changed`` are values of its parameters."""
    import vl_convert

    spec = {**theme.spec(chart), "width": 700}
    for param in spec.get("params", []):
        param["value"] = changed.get(param["name"], param["value"])
    svg = vl_convert.vegalite_to_svg(spec, config=theme.config(name), vl_version="6.1")
    return re.sub(r"(gradient|clip)_?\d+", r"\1", svg)  # ids are counted over all drawings


def _drawn(folder: Path, shape: Shape) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures(report_data(build_run(folder / "run", shape)))}


def test_figures_of_energy_have_views_of_its_parts(tmp_path: Path) -> None:
    """GIVEN a measured run, THEN one switch shows dynamic and static energy, another the heatmap's measures."""
    drawn = _drawn(tmp_path, Shape())
    for name in ("energy-by-kind", "energy-flow", "energy-icicle", "energy-by-layer"):
        figure = drawn[name]
        assert (figure.switch, figure.shows) == ("joules", "Total")
        assert [(view.key, view.label) for view in figure.views] == [("dynamic", "Dynamic"), ("static", "Static")]
        assert all("interval" in view.caption for view in figure.views)
    heatmap = drawn["energy-heatmap"]
    assert (heatmap.switch, heatmap.shows) == ("measure", "Energy")
    assert [view.key for view in heatmap.views] == ["per-flop", "power", "time"]
    assert heatmap.views[0].notes == [
        "Left out, with no counted FLOPs: norm (ln_1), norm (ln_2) and mlp.activation."
    ]
    assert all(not figure.views for figure in drawn.values() if figure.switch is None)


def test_modelled_joules_have_no_parts_and_stated_watts_are_no_measure(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN there is no switch of joules, and the heatmap shows no power."""
    drawn = _drawn(tmp_path, Shape(modelled=True))
    assert [figure.name for figure in drawn.values() if figure.switch] == ["energy-heatmap"]
    assert [view.key for view in drawn["energy-heatmap"].views] == ["per-flop", "time"]


LINKED = ("energy-by-kind", "energy-flow", "energy-icicle", "energy-by-layer", "energy-heatmap", "power-intensity",
          "impact-kl", "impact-heatmap-zero", "energy-impact", "simpler-methods")  # fmt: skip


def test_linked_charts_fade_what_was_not_picked(tmp_path: Path) -> None:
    """GIVEN a picked component, THEN each linked chart and view fades others; a foreign kind changes nothing."""
    drawn = _drawn(tmp_path, Shape(layers=2))
    picked = {"kind": "mlp.up", "components": ["transformer.h.1.mlp.c_fc"], "groups": []}
    for name in LINKED:
        for chart in (drawn[name].chart, *(view.chart for view in drawn[name].views)):
            params = {param["name"]: param["value"] for param in theme.spec(chart)["params"]}
            assert params["picked"] is None
            plain = _svg(chart, "light")
            assert _svg(chart, "light", picked=picked) != plain, name
            assert _svg(chart, "light", picked={"kind": "no such kind", "components": None}) == plain, name
            for record in _spec_records(chart):
                assert "kind" in record or not {"component", "value", "mean"} & set(record), (name, record)


def test_a_picked_component_leaves_its_layer_and_its_cell(tmp_path: Path) -> None:
    """GIVEN a picked part of layer 1, THEN of the bars layer 1 stays, and of the heatmap one cell."""
    drawn = _drawn(tmp_path, Shape(layers=3, reused=False))
    picked = {"kind": "mlp.up", "components": ["transformer.h.1.mlp.c_fc"], "groups": []}
    faded = {
        name: _svg(drawn[name].chart, "light", picked=picked).count('opacity="0.16"')
        for name in ("energy-by-layer", "energy-heatmap")
    }
    assert faded == {"energy-by-layer": 2 * 2, "energy-heatmap": 3 * 10 - 1}  # a bar and its interval


def test_two_picked_layers_leave_their_bars(tmp_path: Path) -> None:
    """GIVEN twelve layers of which 0 and 1 are picked, THEN ten recede, also 10 and 11, which begin alike."""
    chart = _drawn(tmp_path, Shape(layers=12, reused=False))["energy-by-layer"].chart
    picked = {"kind": "layer", "components": ["transformer.h.0", "transformer.h.1"], "groups": []}
    assert _svg(chart, "light", picked=picked).count('opacity="0.16"') == 10 * 2  # a bar and its interval


def test_invalid_values_are_drawn_apart(tmp_path: Path) -> None:
    """GIVEN a layer, a block and a leaf below grade C, THEN bar, cell and label differ, and the words say so."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert run.energy is not None
    weak = run.energy["component"].isin(["transformer.h.1", "transformer.h.1.mlp", "transformer.h.1.mlp.c_fc"])
    run.energy.loc[weak, "quality"] = "invalid"
    drawn = {figure.name: figure for figure in figures(report_data(run))}
    bars = _records(drawn["energy-by-layer"])
    assert {bar["layer"] for bar in bars if bar.get("fill", 1) < 0.5} == {1}
    cells = _records(drawn["energy-heatmap"])
    assert {cell["component"] for cell in cells if cell.get("invalid")} == {
        "transformer.h.1.mlp",
        "transformer.h.1.mlp.c_fc",
    }
    labels = [record["label"] for record in _records(drawn["energy-by-kind"]) if "label" in record]
    assert [label.endswith("\u2020") for label in labels].count(True) == 1
    assert drawn["energy-by-kind"].notes == [
        "\u2020 Below grade C, and in the sums: 1 of mlp.up; the table says why."
    ]
    assert "Hollow bars" in drawn["energy-by-layer"].caption
    assert drawn["energy-by-layer"].table.rows[1][-1] == "on this layer, invalid"


def test_a_kind_of_which_all_is_invalid_is_hollow_in_the_sums(tmp_path: Path) -> None:
    """GIVEN the only LM head below grade C, THEN its bar is dashed and hollow, others are not."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert run.energy is not None
    run.energy.loc[run.energy["component"] == "lm_head", "quality"] = "invalid"
    drawn = next(figure for figure in figures(report_data(run)) if figure.name == "energy-by-kind")
    parts = [record for record in _records(drawn) if "fill" in record]
    hollow = {part["kind"] for part in parts if part["fill"] <= grades.HOLLOW and part["dash"] == grades.DASHED}
    assert hollow - {"glue", "unexplained"} == {"lm_head"}
    said = "\u2020 Below grade C, and in the sums (hollow where all of it is): 1 of lm_head; the table says why."
    assert drawn.notes == [said]


def _records(figure: Figure) -> list[dict[str, Any]]:
    return _spec_records(figure.chart)


def _spec_records(chart: Any) -> list[dict[str, Any]]:
    return [record for values in theme.expanded(theme.spec(chart))["datasets"].values() for record in values]


def test_an_interval_is_drawn_only_where_there_is_one(tmp_path: Path) -> None:
    """GIVEN anchors of single windows, THEN no rule is drawn for limits that nobody knows."""
    lone = [{"index": index, "anchor_mj": 70.0 + index, "idle_w": None} for index in range(3)]
    of_three = figures(report_data(build_run(tmp_path / "run", Shape(impact=False))))[-1]
    alone = figures(report_data(build_run(tmp_path / "lone", Shape(impact=False), passes=lone)))[-1]
    layers = [len(theme.spec(figure.chart)["layer"]) for figure in (of_three, alone)]
    assert (of_three.name, alone.name) == ("anchors", "anchors")
    assert layers == [4, 3]


def test_kinds_keep_their_colour_and_unknown_ones_have_their_familys() -> None:
    """A part without a colour of its own has its family's; a foreign kind is grey."""
    assert theme.colour("attention.rope") == theme.colour("attention")
    assert theme.colour("convolution") == theme.colour("other")


def test_kinds_that_stand_beside_each_other_have_colours_of_their_own() -> None:
    """No two kinds share a colour but a whole and the part that stands for it, and the two sorts of a head."""
    shared: dict[str, set[str]] = {}
    for kind, colour in theme.KIND_COLOURS.items():
        shared.setdefault(colour, set()).add(kind)
    same = [kinds for kinds in shared.values() if len(kinds) > 1]
    assert same == [{"attention", "attention.qkv"}, {"mlp", "mlp.up"}, {"lm_head", "classifier"}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.0, 2.0, 20.0], "linear"),
        ([0.001, 1.0, 20.0], "log"),
        ([-0.1, 0.0, 0.001, 50.0], "symlog"),
        ([0.0, 0.0], "linear"),
    ],
)
def test_axes_fit_the_values(values: list[float], kind: str) -> None:
    """Values of similar size are linear; others logarithmic, around zero where one is not positive."""
    axis = magnitude(values)
    assert axis.type == kind
    assert axis.ticks is None or all(min(values) <= tick <= max(values) for tick in axis.ticks)


def test_positions_follow_the_order_of_the_values() -> None:
    """A symmetric logarithmic axis keeps the order through zero."""
    values = [-5.0, -0.01, 0.0, 0.002, 1.0, 80.0]
    axis = magnitude(values)
    positions = [axis.position(value) for value in values]
    assert positions == sorted(positions)


def test_ticks_are_written_out(tmp_path: Path) -> None:
    """GIVEN charts over decades, THEN no tick is a power of ten in letters."""
    for figure in _drawn(tmp_path, Shape(layers=3)).values():
        assert not re.search(r">[\d.]+e[+\u2212-]?\d+<", _svg(figure.chart, "light")), figure.name


def test_tiny_ticks_need_no_counting_of_zeros() -> None:
    """GIVEN values from 0.2 millionths to 2, THEN they are read at 1e-6 and 0.001, and no tick is 0.000001."""
    values = [2e-7, 1e-3, 2.0]
    size = magnitude(values)
    x = theme.altair().X("x:Q", scale=size.scale(), axis=size.axis())
    chart = theme.altair().Chart(theme.rows([{"x": value} for value in values])).mark_point().encode(x=x)
    drawn = _svg(chart, "light")
    assert ">1e-6<" in drawn
    assert ">0.001<" in drawn
    assert ">0.0000" not in drawn


@pytest.mark.parametrize("values", [[1.0, 2.0, 20.0], [0.001, 1.0, 20.0], [-0.1, 0.0, 0.001, 50.0]])
def test_a_position_has_its_value(values: list[float]) -> None:
    """Position and value are inverse on each kind of axis."""
    axis = magnitude(values)
    assert [axis.value(axis.position(value)) for value in values] == pytest.approx(values)


def test_many_records_are_held_by_columns_and_drawn_alike() -> None:
    """GIVEN a hundred records, THEN they are held smaller, can be read again, and draw as records would."""
    records = [
        {"kind": "ab"[at % 2], "at": at, "value": at * 0.5, **({"marked": True} if at % 3 else {})}
        for at in range(100)
    ]
    alt = theme.altair()

    def drawn(base: Any) -> Any:
        return base.mark_point().encode(
            x="at:Q",
            y="value:Q",
            color="kind:N",
            shape=alt.condition("datum.marked", alt.value("cross"), alt.value("circle")),
        )

    compact, plain = drawn(theme.compact(records)), drawn(alt.Chart(theme.rows(records)))
    assert len(str(theme.spec(compact))) < len(str(theme.spec(plain))) / 2
    assert theme.expanded(theme.spec(compact))["datasets"]["data0"] == records
    assert _svg(compact, "light") == _svg(plain, "light")
    assert theme.expanded(theme.spec(plain)) == theme.spec(plain)


def test_few_records_are_held_as_they_are() -> None:
    """GIVEN a few records, THEN nothing is packed."""
    assert "transform" not in theme.spec(theme.compact([{"a": 1}, {"a": 2}]).mark_point())


def test_drawing_does_not_change_the_records() -> None:
    """GIVEN a specification that is changed, THEN the chart's own records stay as they were."""
    chart = theme.altair().Chart(theme.rows([{"a": "x"}])).mark_point()
    theme.spec(chart)["datasets"]["data0"][0]["a"] = "y"
    assert theme.spec(chart)["datasets"]["data0"] == [{"a": "x"}]


def test_a_hollow_box_and_a_cross_mark_what_is_below_grade_c(tmp_path: Path) -> None:
    """GIVEN an invalid kind, THEN flow, icicle and scatter draw it apart, and the notes name it."""
    run = build_run(tmp_path / "run", Shape())
    assert run.energy is not None
    run.energy.loc[run.energy["kind"] == "lm_head", "quality"] = "invalid"
    drawn = {figure.name: figure for figure in figures(report_data(run))}
    boxes = [record for record in _records(drawn["energy-flow"]) if record.get("drawn") == "hollow"]
    assert {box["kind"] for box in boxes} == {"lm_head"}
    cells = [record for record in _records(drawn["energy-icicle"]) if record.get("drawn") == "hollow"]
    assert {cell["kind"] for cell in cells} == {"lm_head"}
    points = [record for record in _records(drawn["energy-impact"]) if record.get("invalid")]
    assert {point["component"] for point in points} == {"lm_head"}
    assert "A cross" in drawn["energy-impact"].caption
    for name in ("energy-flow", "energy-icicle"):
        assert any("1 of lm_head" in note for note in drawn[name].notes)


@pytest.mark.parametrize("columns", [1, 4, 16, 80])
def test_strokes_across_cells_stay_inside_them_on_a_telephone(columns: int) -> None:
    """GIVEN up to eighty layers, THEN a cell's strokes are no wider than the cell where it is narrow, or 8 px."""
    strokes = profile._hatch(columns)
    ends = [float(end) for end in re.findall(r"[ML](-?\d+),", strokes["shape"])]
    width = (max(ends) - min(ends)) * strokes["size"] ** 0.5 / 2
    assert width <= max(220 / columns, 8.1)


@pytest.mark.parametrize(("layers", "dense"), [(4, False), (80, True)])
def test_marks_of_many_layers_leave_the_colours_to_be_seen(tmp_path: Path, layers: int, dense: bool) -> None:
    """GIVEN eighty layers, THEN marks are thin lines along the edges of cells, and the caption says so."""
    run = build_run(tmp_path / "run", Shape(layers=layers, impact=False))
    assert run.energy is not None
    mlps = run.energy["kind"] == "mlp"
    run.energy.loc[mlps, "quality"] = "invalid"
    figure = {one.name: one for one in figures(report_data(run))}["energy-heatmap"]
    marks = [layer["mark"] for layer in theme.spec(figure.chart)["layer"]][1:]
    assert marks
    assert all((mark["type"] == "rect") is dense for mark in marks)
    assert all(mark.get("height", 0) < 4 for mark in marks)
    assert ("line along the upper edge of a cell marks a value below grade C" in figure.caption) is dense
    assert ("A cross marks" in figure.caption) is not dense


def test_the_energy_of_a_step_is_called_so(tmp_path: Path) -> None:
    """GIVEN the kinds of a decode step, THEN the axis says per step, and of a pass per forward pass."""
    data = report_data(build_run(tmp_path / "run", Shape(impact=False)))
    assert data.energy is not None
    titles = [
        theme.spec(profile.by_kind(data.energy.kinds, "said", **said))["layer"][0]["encoding"]["x"]["title"]
        for said in ({}, {"each": "step"})
    ]
    assert [title.partition(" (")[0] for title in titles] == ["Energy per forward pass", "Energy per step"]
