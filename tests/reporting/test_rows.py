from __future__ import annotations

from pathlib import Path

import pytest
from generation_builder import build_inference
from run_builder import Shape, build_run

from energyscope.reporting.data import report_data
from energyscope.reporting.rows import (
    BOOKS,
    UNKNOWN_CELL,
    Column,
    TableCell,
    column_style,
    component_columns,
    component_rows,
    kinds_to_pick,
    without_empty_groups,
)


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


def test_grades_sort_by_their_rank(tmp_path: Path) -> None:
    """GIVEN a grade, THEN its cell carries a number by which A comes first and invalid last."""
    run = build_run(tmp_path / "run")
    assert run.energy is not None
    grades = ["A", "B", "C", "invalid"]
    run.energy["quality"] = [grades[at % 4] for at in range(len(run.energy))]
    found = {row[-1].text: row[-1].number for row in component_rows(report_data(run))}
    assert [found[grade] for grade in grades] == [0.0, 1.0, 2.0, 3.0]


def test_a_row_is_picked_as_its_component_or_as_its_kind(tmp_path: Path) -> None:
    """A row of one component names it; one that stands for several names none, so that their kind is picked."""
    assert _rows(tmp_path)["lm_head"]["Component"].picks == "lm_head"
    rows = component_rows(report_data(build_inference(tmp_path / "inference")))
    assert {row[0].picks is None for row in rows if "(each of" in row[0].text} == {True}
    assert {row[0].picks for row in rows if "(each of" not in row[0].text} >= {"model", "lm_head"}


def test_what_charts_show_beside_components_can_be_picked(tmp_path: Path) -> None:
    """GIVEN a run with glue, THEN it can be picked after the kinds of the table, each of which is there once."""
    data = report_data(build_run(tmp_path / "run"))
    rows = component_rows(data)
    kinds = kinds_to_pick(data, rows)
    assert set(kinds[:-2]) == {row[1].text for row in rows}
    assert kinds[-2:] == ["glue", "unexplained"]
    assert len(set(kinds)) == len(kinds)


def test_columns_have_one_rule_each() -> None:
    """Numbers are aligned right, and what paper has no room for is not printed."""
    style = column_style([Column("a", numeric=False), Column("b", numeric=True, printed=False)])
    assert style == (
        "#component-table tr>:nth-child(2){text-align:right}"
        "@media print{#component-table tr>:nth-child(2){display:none}}"
    )


def test_groups_without_a_value_are_left_out(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN static and dynamic energy, which it has not, are no columns; all others stay."""
    data = report_data(build_run(tmp_path / "run", Shape(modelled=True)))
    every = component_columns(modelled=True)
    columns, rows = without_empty_groups(every, component_rows(data))
    assert {column.title for column in every} - {column.title for column in columns} == {"Static", "Dynamic"}
    assert {len(row) for row in rows} == {len(columns)}
    assert {
        cell.text for row in rows for column, cell in zip(columns, row, strict=True) if column.group == BOOKS
    } > {UNKNOWN_CELL}
    measured = component_rows(report_data(build_run(tmp_path / "measured")))
    assert without_empty_groups(component_columns(modelled=False), measured)[1] == measured
