from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.charts import theme
from energyscope.reporting.charts.theme import magnitude
from energyscope.reporting.data import report_data
from energyscope.reporting.figure import Figure
from energyscope.reporting.figures import figures


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        (Shape(), ["energy-by-kind", "energy-flow", "energy-by-layer", "energy-heatmap", "power-intensity",
                   "impact-kl", "impact-perplexity-difference", "impact-heatmap-zero", "energy-impact",
                   "simpler-methods", "anchors"]),
        (Shape(granularity="coarse", impact=False), ["energy-by-kind", "energy-flow", "energy-by-layer",
                                                     "power-intensity", "simpler-methods", "anchors"]),
        (Shape(layers=1, impact=False), ["energy-by-kind", "energy-flow", "energy-heatmap", "power-intensity",
                                         "simpler-methods", "anchors"]),
        (Shape(layers=1, modelled=True, old=True, impact=False), ["energy-by-kind", "energy-flow",
                                                                  "energy-heatmap", "anchors"]),
    ],
)  # fmt: skip
def test_every_chart_becomes_a_picture(tmp_path: Path, shape: Shape, names: list[str]) -> None:
    """GIVEN a run, THEN each chart that its data allow renders to an SVG in both themes, without a browser."""
    import vl_convert

    drawn = figures(report_data(build_run(tmp_path / "run", shape)))
    assert [figure.name for figure in drawn] == names
    for figure in drawn:
        assert figure.chart.to_dict(validate=True)
        for name in ("light", "dark"):
            spec = {**theme.spec(figure.chart), "width": 700}
            svg = vl_convert.vegalite_to_svg(spec, config=theme.config(name), vl_version="6.1")
            assert svg.count("<path") > 3, figure.name
        assert figure.table.rows
        assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)


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


def _records(figure: Figure) -> list[dict[str, Any]]:
    return [record for values in theme.spec(figure.chart)["datasets"].values() for record in values]


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
