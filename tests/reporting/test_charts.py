from __future__ import annotations

from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.charts import theme
from energyscope.reporting.charts.theme import magnitude
from energyscope.reporting.data import report_data
from energyscope.reporting.figures import figures


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        (Shape(), ["energy-by-kind", "energy-flow", "energy-by-layer", "energy-heatmap", "impact-kl",
                   "impact-perplexity-difference", "impact-heatmap-zero", "impact-heatmap-mean", "energy-impact"]),
        (Shape(granularity="coarse", impact=False), ["energy-by-kind", "energy-flow", "energy-by-layer"]),
        (Shape(layers=1, impact=False), ["energy-by-kind", "energy-flow", "energy-heatmap"]),
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
