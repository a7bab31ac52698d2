from __future__ import annotations

from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data import report_data
from energyscope.reporting.rows import TableCell, component_columns, component_rows


def _rows(path: Path, shape: Shape | None = None) -> dict[str, dict[str, TableCell]]:
    titles = [column.title for column in component_columns(modelled=False)]
    rows = component_rows(report_data(build_run(path / "run", shape)))
    return {row[0].text: dict(zip(titles, row, strict=True)) for row in rows}


def test_work_and_its_price_can_be_sorted(tmp_path: Path) -> None:
    """GIVEN a component with matrix work, THEN its price, rates and intensity are numbers with words."""
    head = _rows(tmp_path)["lm_head"]
    assert (head["pJ/FLOP"].text, head["nJ/byte"].text) == ("4.00", "0.500")
    assert head["FLOP/s"].text == "75.0 TFLOP/s"
    assert head["Bytes/s"].text == "600 GB/s"
    assert head["FLOP/byte"].number == pytest.approx(125.0)
    assert head["Pace"].text == "device"


def test_no_matrix_work_is_none_and_not_a_price_of_zero(tmp_path: Path) -> None:
    """GIVEN a norm, THEN it has no matrix work, a dash for the price, and the host as its pace."""
    norm = _rows(tmp_path)["transformer.ln_f"]
    assert norm["FLOPs"] == TableCell("none", 0.0)
    assert norm["pJ/FLOP"] == TableCell("\u2013")
    assert norm["Pace"].text == "host"


def test_an_older_table_has_dashes(tmp_path: Path) -> None:
    """GIVEN a table without work, THEN each of the cells is a dash without a number."""
    head = _rows(tmp_path, Shape(old=True))["lm_head"]
    for title in ("FLOPs", "Bytes", "pJ/FLOP", "nJ/byte", "FLOP/s", "Bytes/s", "FLOP/byte", "Pace"):
        assert head[title] == TableCell("\u2013"), title
