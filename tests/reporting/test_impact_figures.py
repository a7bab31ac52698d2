from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from impact_builder import every_impact
from run_builder import Shape, build_run

from energyscope.relating.joint import MORE
from energyscope.reporting.charts import theme
from energyscope.reporting.charts.impact import colours
from energyscope.reporting.data.impact import ImpactData, impact_data
from energyscope.reporting.figure import Figure
from energyscope.reporting.impact_figures import impact_figures
from energyscope.runs.tree import energy_tree

LAYERS = 3
NAMES = [
    "impact-kl", "impact-perplexity-difference", "impact-heatmap-zero", "impact-heads", "impact-together",
    "impact-layer-pairs", "sensitivity-kl", "sensitivity-perplexity-difference", "sensitivity-heatmap-int8",
    "sensitivity-cascade-int8",
]  # fmt: skip


def _data(path: Path, *, zero_kl: bool = False) -> ImpactData:
    run = build_run(path / "run", Shape(layers=LAYERS))
    assert run.energy is not None
    return impact_data(every_impact(run, zero_kl=zero_kl), energy_tree(run.energy))


def _records(figure: Figure) -> list[dict[str, Any]]:
    return [record for values in theme.spec(figure.chart)["datasets"].values() for record in values]


@pytest.mark.parametrize("zero_kl", [False, True])
def test_every_part_of_the_section_becomes_a_picture(tmp_path: Path, zero_kl: bool) -> None:
    """GIVEN every kind of row, THEN each figure renders, its table fits its columns, and a zero is no obstacle."""
    import vl_convert

    drawn = impact_figures(_data(tmp_path, zero_kl=zero_kl))
    assert [figure.name for figure in drawn] == NAMES
    for figure in drawn:
        assert figure.chart.to_dict(validate=True)
        spec = {**theme.spec(figure.chart), "width": 340}
        svg = vl_convert.vegalite_to_svg(spec, config=theme.config("light"), vl_version="6.1")
        assert svg.count("<path") > 3, figure.name
        assert "NaN" not in svg
        assert figure.table.rows
        assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)


def test_criticality_and_sensitivity_share_no_chart(tmp_path: Path) -> None:
    """No figure by kind draws methods of both families."""
    drawn = {figure.name: figure for figure in impact_figures(_data(tmp_path))}
    methods = {
        name: {record["method"] for record in _records(drawn[name]) if "method" in record}
        for name in ("impact-kl", "sensitivity-kl")
    }
    assert methods["impact-kl"] == {"zero ablation", "mean ablation", "layer skipped"}
    assert methods["sensitivity-kl"] == {"INT8 weights"}


def test_many_methods_are_drawn_as_far_as_colours_go(tmp_path: Path) -> None:
    """GIVEN seven quantizations, THEN five are drawn, the note names the other two, and the table has all."""
    run = build_run(tmp_path / "run", Shape(layers=1))
    assert run.impact is not None
    zero = run.impact[run.impact["method"] == "zero"]
    names = ["int8", "int8-tensor", "int4", "fp8", "nf4", "int8-wa", "fp8-wa"]
    table = pd.concat([zero.assign(method=name) for name in names], ignore_index=True)
    figure = impact_figures(impact_data(table, None))[0]
    assert figure.name == "sensitivity-kl"
    assert len({record["method"] for record in _records(figure)} - {None}) == 5
    assert figure.notes == ["In the tables only: INT8 weights and activations and FP8 weights and activations."]
    assert len({row[1] for row in figure.table.rows}) == 7


def test_a_missing_value_has_no_cell(tmp_path: Path) -> None:
    """GIVEN one invalid row, THEN the heat map has a cell less and the table a dash, and no zero stands there."""
    run = build_run(tmp_path / "run", Shape(layers=2))
    assert run.impact is not None
    gone = run.impact["component"] == "transformer.h.1.mlp"
    run.impact.loc[gone, "valid"] = False
    run.impact.loc[gone, ["value", "ci_low", "ci_high"]] = None
    drawn = {figure.name: figure for figure in impact_figures(impact_data(run.impact, None))}
    figure = drawn["impact-heatmap-zero"]
    assert "transformer.h.1.mlp" not in {record["component"] for record in _records(figure)}
    assert next(row for row in figure.table.rows if row[0] == "mlp")[2] == "\u2013"


def test_pairs_that_stand_in_for_each_other_are_marked(tmp_path: Path) -> None:
    """The dot is where the verdict says more than the sum, and only there."""
    data = _data(tmp_path)
    figure = next(one for one in impact_figures(data) if one.name == "impact-layer-pairs")
    marked = {record["name"] for record in _records(figure) if record["mark"]}
    assert [pair.verdict for pair in data.joint.pairs].count(MORE) == 1
    assert marked == {"layers 0 and 1"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0], {"scheme": "magma"}),
        ([1e-6, 1e-3, 1.0], {"scheme": "magma", "type": "log"}),
        ([0.0, 1e-3, 1.0], {"scheme": "magma", "type": "symlog"}),
        ([-0.5, 0.1, 0.3], {"scheme": "purpleorange", "domain": [-0.5, 0.5]}),
    ],
)
def test_colours_fit_the_values(values: list[float], expected: dict[str, Any]) -> None:
    """Decades get logarithmic colours, zeros a scale that has them, and both signs two hues around zero."""
    scale, ticks = colours(values)
    found = scale.to_dict()
    assert {key: found[key] for key in expected} == expected
    assert ("type" in found) == ("type" in expected)
    assert ticks is None or len(ticks) <= 4


def test_a_run_without_impact_has_no_figure() -> None:
    """Nothing is drawn of nothing."""
    assert impact_figures(None) == []


def test_the_legend_shows_the_marks(tmp_path: Path) -> None:
    """GIVEN marks whose shape follows their colour, THEN both have the same legend, which so shows both."""
    shaped = 0
    for figure in impact_figures(_data(tmp_path)):
        for layer in theme.spec(figure.chart)["layer"]:
            shape, colour = (layer["encoding"].get(name) or {} for name in ("shape", "color"))
            if not shape:
                continue
            shaped += 1
            assert shape["legend"] == colour["legend"] is not None, figure.name
            assert (shape["field"], shape["title"]) == (colour["field"], colour["title"])
            assert shape["scale"]["domain"] == colour["scale"]["domain"]
            assert len(set(shape["scale"]["range"])) == len(shape["scale"]["domain"])
    assert shaped >= 3
