"""The dynamic and the static view of a tree, and the other measures of the heatmap."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data.columns import column_tree, energy_views
from energyscope.reporting.data.energy import energy_by_kind
from energyscope.reporting.data.measures import measures
from energyscope.runs.tree import energy_tree


def _frame(folder: Path, shape: Shape | None = None) -> pd.DataFrame:
    run = build_run(folder / "run", shape or Shape(impact=False))
    assert run.energy is not None
    return run.energy


def test_the_two_columns_add_up_to_the_total(tmp_path: Path) -> None:
    """GIVEN a measured run, THEN dynamic and static energy of each kind and of each rest add up to its energy."""
    tree = energy_tree(_frame(tmp_path))
    whole = {entry.kind: entry.energy.value for entry in energy_by_kind(tree)}
    views = {view.column: {entry.kind: entry.energy.value for entry in view.kinds} for view in energy_views(tree)}
    assert list(views) == ["dynamic", "static"]
    assert set(views["dynamic"]) == set(views["static"]) == set(whole)
    for kind, value in whole.items():
        assert views["dynamic"][kind] + views["static"][kind] == pytest.approx(value)


def test_a_view_adds_up_to_the_models_column_and_claims_no_interval(tmp_path: Path) -> None:
    """Glue and what is unexplained are in each view; nothing is scaled; of the split no interval is known."""
    frame = _frame(tmp_path)
    for view in energy_views(energy_tree(frame)):
        assert sum(entry.energy.value for entry in view.kinds) == pytest.approx(frame[f"{view.column}_mj"][0])
        assert {"glue", "unexplained"} <= {entry.kind for entry in view.kinds}
        assert not any(entry.energy.known for entry in view.kinds)
        assert all(entry.static_mj is None and entry.dynamic_mj is None for entry in view.kinds)
        assert view.flow is not None
        assert view.icicle is not None
        assert view.flow.energy.value == view.icicle.energy.value == pytest.approx(frame[f"{view.column}_mj"][0])
        assert view.notes == []


def test_glue_whose_split_is_unknown_is_drawn_with_the_rest_and_that_is_said(tmp_path: Path) -> None:
    """GIVEN glue of unknown static energy, THEN a view has what is not attributed, and a note."""
    frame = _frame(tmp_path).assign(glue_static_mj=None)
    for view in energy_views(energy_tree(frame)):
        assert [entry.kind for entry in view.kinds][-1] == "not attributed"
        assert f"{view.column} energy of some glue is not known" in view.notes[0]
        assert sum(entry.energy.value for entry in view.kinds) == pytest.approx(frame[f"{view.column}_mj"][0])


@pytest.mark.parametrize("missing", ["lm_head", "model"])
def test_a_column_that_is_not_known_of_all_has_no_view(tmp_path: Path, missing: str) -> None:
    """GIVEN one component, or the model, without the split, THEN there is no view: a part is not the whole."""
    frame = _frame(tmp_path)
    frame.loc[frame["kind"] == missing, "static_mj"] = None
    assert energy_views(energy_tree(frame)) == []


def test_modelled_runs_have_no_views(tmp_path: Path) -> None:
    """GIVEN stated watts, THEN nothing is split."""
    tree = energy_tree(_frame(tmp_path, Shape(modelled=True, impact=False)))
    assert energy_views(tree) == []
    assert column_tree(tree, "static") is None
    assert [measure.key for measure in measures(tree, modelled=True)] == ["per-flop", "time"]


def test_kinds_without_counted_flops_are_left_out_of_their_price_and_named(tmp_path: Path) -> None:
    """GIVEN norms without FLOPs, THEN the price has no cell of theirs and names their rows; time has all."""
    tree = energy_tree(_frame(tmp_path))
    found = {measure.key: measure for measure in measures(tree, modelled=False)}
    assert list(found) == ["per-flop", "power", "time"]
    price = found["per-flop"]
    assert price.left_out == ["norm (ln_1)", "norm (ln_2)", "mlp.activation"]
    assert {cell.kind for cell in price.cells}.isdisjoint({"norm", "mlp.activation"})
    core = next(cell for cell in price.cells if cell.kind == "attention.core")
    assert core.energy is not None
    assert core.energy.value == pytest.approx(8.0)
    assert core.energy.known
    assert found["time"].left_out == found["power"].left_out == []
    assert all(cell.energy and cell.energy.value == pytest.approx(300.0) for cell in found["power"].cells)


def test_an_old_run_has_no_price(tmp_path: Path) -> None:
    """GIVEN a run whose work was not counted, THEN no FLOP has a price."""
    tree = energy_tree(_frame(tmp_path, Shape(old=True, impact=False)))
    assert "per-flop" not in [measure.key for measure in measures(tree, modelled=False)]
