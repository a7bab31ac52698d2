"""What the flow and the icicle say of their cells: tooltips, notes, captions, and the tables behind the charts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_builder import Shape, build_run

from energyscope.reporting.charts import theme
from energyscope.reporting.charts.icicle import TOGETHER
from energyscope.reporting.data import report_data
from energyscope.reporting.figure import Figure
from energyscope.reporting.figures import figures


def _drawn(
    folder: Path, shape: Shape | None = None, change: Callable[[pd.DataFrame], None] | None = None
) -> dict[str, Figure]:
    run = build_run(folder / "run", shape or Shape(impact=False))
    assert run.energy is not None
    if change is not None:
        change(run.energy)
    return {figure.name: figure for figure in figures(report_data(run))}


def _cells(figure: Figure) -> list[dict[str, Any]]:
    datasets = theme.expanded(theme.spec(figure.chart))["datasets"]
    return [record for values in datasets.values() for record in values if "y" in record]


def _without_value(*names: str) -> Callable[[pd.DataFrame], None]:
    columns = ["energy_mj", "energy_ci_low_mj", "energy_ci_high_mj", "static_mj", "dynamic_mj"]

    def change(frame: pd.DataFrame) -> None:
        frame.loc[frame["component"].isin(names), columns] = float("nan")

    return change


def _below_c(frame: pd.DataFrame) -> None:
    frame.loc[frame["component"].isin(["lm_head", "transformer.h.1.ln_1"]), "quality"] = "invalid"


def test_a_cell_says_what_it_takes_beside_its_parts(tmp_path: Path) -> None:
    """GIVEN a layer with a part that has no value, THEN its own is not known; the layers' sum was added up."""
    part = "transformer.h.1.ln_1"
    cells = _cells(_drawn(tmp_path, change=_without_value(part))["energy-icicle"])
    layers = {cell["component"]: cell for cell in cells if cell.get("kind") == "layer" and "component" in cell}
    assert layers["transformer.h.1"]["own"] == "not known"
    assert layers["transformer.h.0"]["own"][0].isdigit()
    total = next(cell for cell in cells if cell.get("name") == "layer \u00d74")
    assert (total["own"], total["measured"]) == ("", "added up")
    leaf = next(cell for cell in cells if cell.get("component") == "lm_head")
    assert "own" not in leaf  # the tooltip then says: all of it


def test_what_has_no_value_is_named(tmp_path: Path) -> None:
    """GIVEN an output head without a value, THEN flow and icicle name it, in each view, and draw what is left."""
    drawn = _drawn(tmp_path, change=_without_value("lm_head"))
    for name in ("energy-flow", "energy-icicle"):
        for shown in (drawn[name], *drawn[name].views):
            assert any("Without a value" in note and "(lm_head)" in note for note in shown.notes)
            assert any(row[0].strip() == "not attributed" for row in shown.table.rows)


def test_a_part_below_zero_is_named(tmp_path: Path) -> None:
    """GIVEN a part whose dynamic energy is below 0, THEN the dynamic view names it and outlines what exceeds."""

    def change(frame: pd.DataFrame) -> None:
        frame.loc[frame["component"] == "lm_head", "dynamic_mj"] = -2.98

    drawn = _drawn(tmp_path, change=change)
    for name in ("energy-flow", "energy-icicle"):
        view = next(view for view in drawn[name].views if view.key == "dynamic")
        assert any(note.startswith("Below 0") and "lm_head (-2.98 mJ)" in note for note in view.notes)
        assert not any(note.startswith("Below 0") for note in drawn[name].notes)


def test_a_cell_of_several_parts_has_no_kind_and_says_what_is_weak(tmp_path: Path) -> None:
    """GIVEN parts too narrow to be told apart, THEN a click on their cell means no kind; grades are counted."""

    def change(frame: pd.DataFrame) -> None:
        frame.loc[frame["kind"] == "norm", "quality"] = "invalid"

    figure = _drawn(tmp_path, Shape(layers=80, impact=False), change)["energy-icicle"]
    cells = _cells(figure)
    together = [cell for cell in cells if TOGETHER in str(cell.get("name"))]
    assert together
    assert not any(cell.get("kind") for cell in together)
    assert any("below grade C" in cell["said"] for cell in together)
    whole = next(cell["x2"] for cell in cells if cell.get("component") == "model")
    for cell in together:
        assert cell["share"] == pytest.approx((cell["x2"] - cell["x"]) / whole, abs=1e-4)
    params = {param["name"]: param["value"] for param in theme.spec(figure.chart)["params"]}
    assert "other" not in params["pickable"]


def test_tables_behind_charts_keep_the_grade(tmp_path: Path) -> None:
    """GIVEN an output head and a norm below grade C, THEN each table that has their joules says so."""
    drawn = _drawn(tmp_path, Shape(), _below_c)
    for name, said in (
        ("energy-by-kind", "below grade C"),
        ("energy-flow", "1 of 8 below grade C"),
        ("energy-icicle", "1 of 8 below grade C"),
        ("energy-impact", "below grade C"),
    ):
        marked = [row for row in drawn[name].table.rows if any(said in cell for cell in row)]
        assert marked, name
    for shown in (drawn["energy-heatmap"], *drawn["energy-heatmap"].views):
        rows = {row[0]: row for row in shown.table.rows}
        marked = [row for row in rows.values() if any("below grade C" in cell for cell in row)]
        assert [row[0] for row in marked] == (["norm (ln_1)"] if "norm (ln_1)" in rows else [])
    assert not any("grade C" in cell for row in drawn["energy-by-layer"].table.rows for cell in row)


def test_captions_claim_no_more_than_was_done(tmp_path: Path) -> None:
    """GIVEN means over the layers, THEN no box is said to be measured by itself, nor layers to be sorted."""
    drawn = _drawn(tmp_path)
    assert "in its own right" not in drawn["energy-flow"].caption
    assert "stands in for it" in drawn["energy-flow"].caption
    assert "layers one by one in their order, other parts the largest first" in drawn["energy-icicle"].caption


def test_what_is_weak_is_counted_by_kind(tmp_path: Path) -> None:
    """GIVEN norms below grade C in the layers and after them, THEN the notes name the kind once, with all."""

    def change(frame: pd.DataFrame) -> None:
        frame.loc[frame["kind"] == "norm", "quality"] = "invalid"

    drawn = _drawn(tmp_path, change=change)
    for name in ("energy-flow", "energy-icicle"):
        [said] = [note for note in drawn[name].notes if "elow grade C" in note]
        assert said.endswith(": 9 of norm.")


def test_every_weak_kind_is_counted(tmp_path: Path) -> None:
    """GIVEN more than four kinds below grade C, THEN the notes name each with its number, and no "2 more"."""

    def change(frame: pd.DataFrame) -> None:
        frame["quality"] = "invalid"

    drawn = _drawn(tmp_path, change=change)
    for name in ("energy-flow", "energy-icicle"):
        [said] = [note for note in drawn[name].notes if "elow grade C" in note]
        assert said.count(" of ") > 4
        assert "more" not in said
