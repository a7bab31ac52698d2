"""Bars of an energy in two parts: the work from zero, then the waiting, in every chart alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.benchmark_figures import benchmark_figures
from energyscope.reporting.charts import grades, theme
from energyscope.reporting.data import ReportData, report_data
from energyscope.reporting.data.benchmark import benchmark_data
from energyscope.reporting.data.work import parts_said, work_in
from energyscope.reporting.energy_figures import energy_figures
from energyscope.reporting.figure import Figure
from energyscope.runs.intervals import Interval


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return report_data(build_run(tmp_path_factory.mktemp("runs") / "run", Shape(layers=2, impact=False)))


def by_kind(data: ReportData, kind: str = "", **values: Any) -> Figure:
    """Return the bars by kind, with one kind's energies replaced."""
    assert data.energy is not None
    kinds = [replace(entry, **values) if entry.kind == kind else entry for entry in data.energy.kinds]
    return energy_figures(replace(data, energy=replace(data.energy, kinds=kinds)))[0]


def bars_of(figure: Figure, **chosen: str) -> list[dict[str, Any]]:
    records = theme.expanded(theme.spec(figure.chart))["datasets"].values()
    rows = [row for rows in records for row in rows if "fill" in row]
    return [row for row in rows if all(row[key] == value for key, value in chosen.items())]


@pytest.mark.parametrize(
    ("whole", "dynamic", "work"),
    [(5.0, 3.0, 3.0), (5.0, 0.0, 0.0), (5.0, 5.0, 5.0), (5.0, -0.1, None), (5.0, 5.1, None), (-2.0, -1.0, None),
     (5.0, None, None), (None, 3.0, None)],
)  # fmt: skip
def test_only_a_part_of_the_whole_is_its_work(
    whole: float | None, dynamic: float | None, work: float | None
) -> None:
    """A dynamic energy below 0 or above the whole splits nothing, and neither does an unknown one."""
    assert work_in(None if whole is None else Interval(whole), dynamic) == work


def test_undivided_bars_are_named() -> None:
    assert parts_said([]).endswith("idle power times time.")
    assert parts_said(["norm", "glue"]).endswith("In one piece, as a part is unknown or negative: norm and glue.")


def test_a_kind_begins_with_its_work(data: ReportData) -> None:
    """GIVEN both parts of a kind, THEN dynamic energy is solid from zero, and static ends at the whole."""
    figure = by_kind(data)
    work, waiting = bars_of(figure, kind="norm")
    assert (work["start"], work["fill"], waiting["fill"]) == (0.0, grades.FULL, grades.PALE)
    assert work["end"] == waiting["start"]
    assert work["part"].startswith("dynamic ")
    assert waiting["part"].startswith("static ")
    assert "Solid, from zero, is dynamic energy" in figure.caption
    assert "In one piece, as a part is unknown or negative: unexplained." in figure.caption  # it is below 0
    assert "closure is of the model's own level alone" in figure.caption


@pytest.mark.parametrize("dynamic", [-0.5, None])
def test_a_kind_without_two_parts_is_in_one_piece_and_named(data: ReportData, dynamic: float | None) -> None:
    """GIVEN a dynamic energy that is negative or unknown, THEN its bar looks like neither part, and is named."""
    figure = by_kind(data, "embedding", dynamic_mj=dynamic)
    (bar,) = bars_of(figure, kind="embedding")
    assert (bar["part"], bar["start"], bar["fill"]) == ("all", 0.0, grades.REST)
    assert "In one piece, as a part is unknown or negative: embedding and unexplained." in figure.caption


def test_modelled_kinds_have_no_parts_to_speak_of(tmp_path: Path) -> None:
    """GIVEN stated watts, of which nothing is static, THEN bars are whole and solid, and no part is told of."""
    figure = by_kind(report_data(build_run(tmp_path / "run", Shape(layers=1, impact=False, modelled=True))))
    assert {bar["part"] for bar in bars_of(figure)} == {"all"}
    assert bars_of(figure, kind="norm")[0]["fill"] == grades.FULL
    assert "static" not in figure.caption


def test_a_precision_without_two_parts_is_in_one_piece_and_named(tmp_path: Path) -> None:
    """GIVEN a benchmark cell whose dynamic energy is negative, THEN its bar is whole, and the caption names it."""
    run = build_run(tmp_path / "run", Shape(layers=1, impact=False, benchmark=True))
    assert run.benchmark is not None
    run.benchmark["cells"][1]["dynamic_energy_mj"] = {"value": -1.0, "low": None, "high": None}
    figure = {one.name: one for one in benchmark_figures(benchmark_data(run))}["benchmark-energy"]
    (bar,) = bars_of(figure, title="FP16")
    assert (bar["start"], bar["fill"], bar["line"]) == (0.0, grades.REST, 1.0)
    work, waiting = bars_of(figure, title="FP32")
    assert (work["start"], work["end"]) == (0.0, waiting["start"])
    assert "In one piece, as a part is unknown or negative: FP16." in figure.caption
