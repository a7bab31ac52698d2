"""A run most of whose rows are below grade C says why, and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data import report_data
from energyscope.reporting.data.remedy import remedy
from energyscope.reporting.html import render
from energyscope.runs.store import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return build_run(tmp_path_factory.mktemp("runs") / "run", Shape(granularity="medium"))


def _weak(run: Run, half: float | None, rows: int | None = None, **columns: Any) -> Run:
    """Return the run with its first rows (or all) below grade C, known to ``half`` (relative) either way."""
    assert run.energy is not None
    energy = run.energy.copy()
    chosen = energy.index[:rows]
    energy.loc[chosen, "quality"] = "invalid"
    for column, value in columns.items():
        energy.loc[chosen, column] = value
    if half is not None:
        energy.loc[chosen, "energy_ci_low_mj"] = energy.loc[chosen, "energy_mj"] * (1 - half)
        energy.loc[chosen, "energy_ci_high_mj"] = energy.loc[chosen, "energy_mj"] * (1 + half)
    return replace(run, energy=energy)


def test_wide_intervals_name_their_width_and_what_to_do(run: Run) -> None:
    """GIVEN rows known to 20 %, THEN that is the cause, and closing programs and more windows the remedy."""
    found = _weak(run, 0.2)
    assert found.energy is not None
    said = remedy(found)
    rows = len(found.energy)
    known = f"{rows} known to no better than 10 % either way"
    assert said.startswith(f"{rows} of {rows} rows are below grade C ({known}")
    for part in ("half of them to 20 % or worse", "close other programs", "--component-budget", "--passes"):
        assert part in said
    assert "windows)" not in said


def test_few_windows_blame_no_other_program(run: Run) -> None:
    """GIVEN rows of two windows that agree, THEN nothing is said of a busy machine, but how to take more."""
    said = remedy(_weak(run, 0.02, windows=2))
    assert "of fewer than 3 windows)" in said
    assert "busy" not in said
    assert "Measure longer with --component-budget" in said


def test_a_drift_is_named_with_what_the_run_had(run: Run) -> None:
    """GIVEN a significant drift in a run of 4 passes and 2 s, THEN the drift and both settings are named."""
    weak = _weak(run, 0.2)
    settings = {**weak.document["settings"], "passes": 4, "component_budget_s": 2.0}
    drift = {"change": 0.21, "low": 0.1, "high": 0.3, "significant": True}
    said = remedy(replace(weak, document={**weak.document, "settings": settings, "drift": drift}))
    assert "drifted by +21 %" in said
    assert "here 2)" in said
    assert "here 4)" in said


def test_where_most_rows_have_a_grade_nothing_is_said(run: Run) -> None:
    """GIVEN no row or half of the rows below grade C, or no energy at all, THEN there is no remedy."""
    assert run.energy is not None
    half = len(run.energy) // 2
    assert remedy(run) == remedy(_weak(run, 0.2, half)) == remedy(replace(run, energy=None)) == ""
    assert remedy(_weak(run, 0.2, half + 1))


def test_it_is_the_last_finding_and_on_the_page(run: Run) -> None:
    """GIVEN such a run, THEN the report's last finding says it, however many others there are."""
    weak = _weak(run, 0.2)
    data = report_data(weak)
    assert data.remedy
    assert data.findings[-1] == data.remedy
    assert data.findings.count(data.remedy) == 1
    assert len(data.findings) <= 5
    assert "close other programs" in render(weak).partition('<ol class="findings">')[2].partition("</ol>")[0]


def test_the_triggered_method_takes_no_windows(tmp_path: Path) -> None:
    """GIVEN components read in passing, THEN options that lengthen a replay are not named."""
    weak = _weak(build_run(tmp_path / "run", Shape(granularity="medium")), 0.2)
    settings = {**weak.document["settings"], "sampling": "triggered"}
    assert remedy(replace(weak, document={**weak.document, "settings": settings})) == ""
