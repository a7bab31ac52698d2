"""The list of runs: what it says of each, and which ones are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_builder import Bench
from run_builder import Shape, build_run

from energyscope.reporting.listing import Filters, list_of_runs, runs_table, summaries
from energyscope.reporting.run.report import Report
from energyscope.runs.store import Run, RunStore

SHAPES = {
    "everything": Shape(benchmark=Bench()),
    "modelled": Shape(modelled=True),
    "benchmark": Shape(profile=False, impact=False, benchmark=Bench()),
    "nothing": Shape(profile=False, impact=False),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    root = tmp_path_factory.mktemp("runs")
    made = {name: build_run(root / name, shape) for name, shape in SHAPES.items()}
    RunStore.open(made["nothing"].path).update(tags=["nightly"], note="by hand", created="2026-12-24T10:00:00Z")
    RunStore.open(made["modelled"].path).update(device={"name": "Some CPU"}, created="2026-01-02T00:00:00Z")
    return made


def names(root: Path, **filters: str) -> set[str]:
    return {run.path.name for run in list_of_runs(root, Filters(**filters))}


def test_a_line_says_which_joules_are_modelled(runs: dict[str, Run]) -> None:
    """GIVEN runs of several sorts, THEN a line each, with its energy, its state, and MODELLED where it is so."""
    root = runs["nothing"].path.parent
    rows = {row["name"]: row for row in runs_table(list_of_runs(root, Filters())).rows}
    assert rows["modelled"]["meter"] == "MODELLED"
    main = Report(runs["everything"]).main
    assert main is not None
    assert rows["everything"]["energy"] == main.energy
    benchmark = runs["benchmark"].benchmark
    assert benchmark is not None
    assert rows["benchmark"]["energy"].value == pytest.approx(benchmark["cells"][0]["energy_mj"]["value"])
    assert rows["nothing"]["energy"] is None
    assert (rows["nothing"]["tags"], rows["nothing"]["note"]) == ("nightly", "by hand")


def test_filters_choose(runs: dict[str, Run]) -> None:
    """GIVEN parts of names, dates and a tag, THEN the runs that fit all of them."""
    root = runs["nothing"].path.parent
    assert names(root) == set(SHAPES)
    assert names(root, device="some") == {"modelled"}
    assert names(root, since="2026-12-24") == {"nothing"}
    assert names(root, before="2026-01-03") == {"modelled"}
    assert names(root, tag="nightly") == {"nothing"}
    assert names(root, tag="night") == set()
    assert names(root, tag="nightly", device="some") == set()


def test_summaries_hold_paths_as_they_are_now(runs: dict[str, Run], tmp_path: Path) -> None:
    """GIVEN an index that was made elsewhere, THEN paths are those of the directory that is listed."""
    root = runs["nothing"].path.parent
    list_of_runs(root, Filters())
    moved = root.rename(tmp_path / "moved")
    try:
        found = {row["name"]: row["path"] for row in summaries(list_of_runs(moved, Filters()))}
        assert found == {name: str(moved / name) for name in SHAPES}
    finally:
        moved.rename(root)
