"""Power against arithmetic intensity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.reporting.charts import theme
from energyscope.reporting.charts.intensity import intensity
from energyscope.reporting.data import report_data
from energyscope.reporting.scene_figures import intensity_figure


def test_power_is_energy_over_time(tmp_path: Path) -> None:
    """Each point is the sum of a kind's leaves: mJ over us are thousands of watts."""
    data = report_data(build_inference(tmp_path / "run"))
    for point in data.intensity:
        scene = next(scene for scene in data.scenes if scene.short == point.moment)
        own = [node for node in scene.tree.leaves if node.kind == point.kind]
        seconds = sum(node.number("time_us") or 0.0 for node in own) / 1e6
        joules = sum(node.energy.value for node in own if node.energy) / 1e3
        assert point.power_w.value == pytest.approx(joules / seconds)
        assert point.intensity == pytest.approx(point.flops / point.bytes)


def test_prefill_works_more_on_a_byte_than_decode(tmp_path: Path) -> None:
    """The same projection has some hundred times the intensity where many tokens share its weights."""
    points = {
        (point.kind, point.phase): point for point in report_data(build_inference(tmp_path / "run")).intensity
    }
    assert points["mlp.up", "prefill"].intensity > 50 * points["mlp.up", "decode"].intensity


def test_only_telling_contexts_are_shown(tmp_path: Path) -> None:
    """GIVEN four contexts, THEN the first and that of most tokens are shown beside the prefill."""
    shape = Inference(contexts=(1024, 128, 8192, 2048))
    moments = {point.moment for point in report_data(build_inference(tmp_path / "run", shape)).intensity}
    assert moments == {"prefill, 128 tokens", "decode at 1,024", "decode at 8,192"}


def test_kinds_without_matrix_work_are_named_and_not_drawn(tmp_path: Path) -> None:
    """A norm has no place on a logarithmic axis: the caption names it, and the table has it."""
    data = report_data(build_inference(tmp_path / "run"))
    figure = intensity_figure(data.intensity, "Energy", modelled=False)
    assert figure is not None
    assert "not drawn: norm" in figure.caption
    assert any(row[0] == "norm" for row in figure.table.rows)


def test_stated_watts_are_not_drawn(tmp_path: Path) -> None:
    """GIVEN a modelled run, whose power is the same everywhere, THEN there is no such chart."""
    data = report_data(build_inference(tmp_path / "run", Inference(modelled=True)))
    assert data.intensity
    assert intensity_figure(data.intensity, "Modelled energy", modelled=True) is None


def test_runs_without_counted_work_have_no_points(tmp_path: Path) -> None:
    """GIVEN a run of an older version, THEN there are no points."""
    assert report_data(build_run(tmp_path / "run", Shape(old=True))).intensity == []


@pytest.mark.parametrize(("end", "columns"), [("", 2), (", CUDA graph", 1)])
def test_long_names_of_moments_stand_below_each_other(tmp_path: Path, end: str, columns: int) -> None:
    """GIVEN names too long for two beside each other on a telephone, THEN the legend has one column."""
    points = report_data(build_inference(tmp_path / "run")).intensity
    drawn = [replace(point, moment=point.moment + end) for point in points if point.intensity > 0]
    spec = theme.spec(intensity(drawn, "said", "Energy"))
    (marks,) = [layer for layer in spec["layer"] if "shape" in layer["encoding"]]
    assert marks["encoding"]["shape"]["legend"]["columns"] == columns
