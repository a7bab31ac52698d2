from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from run_builder import Shape, build_run

from energyscope.errors import UsageError
from energyscope.reporting.html import write_report
from energyscope.reporting.terminal_show import TABLES, drawn, plain_lines, run_record, run_sheets, show
from energyscope.runs.store import Run, load_run

REPORTS = Path(__file__).parent.parent.parent / "reports"
GENERATION = REPORTS / "llama-3.2-1b-generation-h200"


def _terminal(run: Run, width: int, table: str | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    show(run, console, table)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def _piped(run: Run, table: str | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    show(run, console, table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_the_usual_tables_are_shown(tmp_path: Path) -> None:
    """GIVEN a run, THEN headline, kinds with glue, largest components, impact, advice and the report are shown."""
    run = build_run(tmp_path / "run")
    report = write_report(run.path)
    said = _terminal(run, 140)
    for part in ("Energy per forward pass", "Closure", "By kind", "glue", "unexplained", "Largest components",
                 "lm_head", "What it is worth", "zero ablation", "What to change"):  # fmt: skip
        assert part in said
    assert f"Report: {report}" in " ".join(said.splitlines())


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("table", [None, *TABLES])
def test_every_table_fits_the_terminal(width: int, table: str | None) -> None:
    """GIVEN terminals of 80 and 140 columns, THEN no line is longer, and no number is cut or broken."""
    run = load_run(GENERATION)
    lines = _terminal(run, width, table).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("\u2026" in line for line in lines)
    for line in lines:
        assert line.count("mJ [") <= line.count("]"), "limits are broken over two lines"


def test_wide_terminals_get_more_columns(tmp_path: Path) -> None:
    """GIVEN 140 columns, THEN dynamic energy, time and power stand beside what 80 columns have room for."""
    (sheet,) = run_sheets(build_run(tmp_path / "run"), "energy")
    consoles = [Console(file=io.StringIO(), width=width) for width in (80, 140)]
    for console in consoles:
        console.print(drawn(sheet, console.width))
    narrow, wide = (console.file.getvalue() for console in consoles)  # type: ignore[attr-defined]
    assert [word for word in ("energy [95 %]", "share", "quality") if word not in narrow] == []
    assert "dynamic" in wide
    assert "dynamic" not in narrow


def test_a_pipe_gets_a_line_for_each_row(tmp_path: Path) -> None:
    """GIVEN no terminal, THEN a row is one line of cells between tabs, and titles and sentences begin with #."""
    run = build_run(tmp_path / "run")
    assert run.energy is not None
    lines = _piped(run, "energy")
    cells = [line.split("\t") for line in lines if not line.startswith("#")]
    assert cells[0][:2] == ["component", "kind"]
    assert {len(row) for row in cells} == {len(cells[0])}
    assert {row[0] for row in cells[1:]} >= {"lm_head", "transformer.h.*.mlp.c_fc (each of 4)"}
    assert not any("\x1b" in line or "\u2500" in line for line in _piped(run))


def test_one_row_for_each_measurement_of_each_moment() -> None:
    """GIVEN prefill and decode, THEN the whole table has each measurement of each moment once, and says which."""
    run = load_run(GENERATION)
    rows = [line.split("\t") for line in _piped(run, "energy") if not line.startswith("#")]
    header, body = rows[0], [row for row in rows if row[0] != "component"]
    moment = header.index("moment")
    keys = [(row[0], row[moment]) for row in body]
    assert len(set(keys)) == len(keys)
    assert {at for _, at in keys} == {"prefill, 128 tokens", "decode at 1,024"}


def test_modelled_joules_are_called_so(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN a warning stands above, and each column of joules says MODELLED."""
    run = build_run(tmp_path / "run", Shape(modelled=True))
    lines = _piped(run)
    assert lines[1].startswith("# MODELLED")
    headers = [line for line in lines if "[95 %]" in line and not line.startswith("#")]
    assert headers
    assert all("MODELLED energy [95 %]" in line for line in headers)


def test_a_stage_that_did_not_run_says_why(tmp_path: Path) -> None:
    """GIVEN skipped stages, THEN their tables are a sentence."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert "# The ablate stage was skipped: the weights are random." in _piped(run, "impact")
    assert "The ablate stage was skipped: the weights are random." in _terminal(run, 80)
    bare = build_run(tmp_path / "bare", Shape(profile=False, benchmark=True))
    assert any("FP32" in line for line in _piped(bare, "benchmark"))
    for table in TABLES:
        assert _piped(bare, table)


def test_what_names_hold_neither_steers_the_terminal_nor_breaks_a_line(tmp_path: Path) -> None:
    """GIVEN markup, escape sequences, tabs and newlines in names, THEN they are shown as text in one cell."""
    hostile = "[red]x[/red]\x1b[31m\ty\nz"
    run = build_run(tmp_path / "run", Shape(granularity="medium"))
    assert run.energy is not None
    run.energy.loc[run.energy["component"] == "lm_head", "component"] = hostile
    found = [line for line in _piped(run, "energy") if "[red]x[/red]" in line]
    assert len(found) == 1
    assert found[0].startswith("[red]x[/red] [31m y z\tlm_head\t")
    assert "[red]x[/red]" in _terminal(run, 140, "energy")


def test_a_table_that_there_is_not(tmp_path: Path) -> None:
    """GIVEN an unknown table, THEN the error names those that there are."""
    run = build_run(tmp_path / "run")
    for call in (run_sheets, run_record):
        with pytest.raises(UsageError, match="none of summary, energy, kinds, impact"):
            call(run, "joules")


@pytest.mark.parametrize("path", [GENERATION, REPORTS / "tiny-gpt2-cpu", REPORTS / "distilbert-32x128-h200"])
@pytest.mark.parametrize("table", [None, *TABLES])
def test_records_are_json_with_raw_numbers(path: Path, table: str | None) -> None:
    """GIVEN real runs, THEN what JSON gets is plain, without NaN, and its joules are those of the run's table."""
    run = load_run(path)
    assert run.energy is not None
    record = json.loads(json.dumps(run_record(run, table), allow_nan=False))
    if table == "energy":
        assert len(record) == len(run.energy)
        assert math.isclose(record[0]["energy_mj"], run.energy["energy_mj"].iloc[0])
        assert record[0]["parent"] is None
    if table is None:
        assert record["name"] == run.name
        assert {"kinds", "energy", "impact", "advice"} <= set(record)


def test_largest_components_are_leaves_in_order(tmp_path: Path) -> None:
    """GIVEN a run, THEN the short list begins with the largest and has no parents; the whole has the model."""
    run = build_run(tmp_path / "run")
    sheet = next(one for one in run_sheets(run) if one.title == "Largest components")
    assert sheet.rows[0][0] == "lm_head"
    assert not {"model", "transformer.h.0"} & {row[0] for row in sheet.rows}
    (whole,) = run_sheets(run, "energy")
    assert whole.rows[0][0] == "model"
    assert plain_lines(whole)[0] == "# Components"


def test_the_whole_impact_table_says_which_rows_it_leaves_out(tmp_path: Path) -> None:
    """GIVEN rows that failed and rows that could have no value, THEN their number and both reasons stand below."""
    run = build_run(tmp_path / "run")
    assert run.impact is not None
    rows = run.impact.assign(reasons=None)
    norms, heads = rows["kind"] == "norm", rows["kind"] == "lm_head"
    rows.loc[norms | heads, "valid"] = False
    rows.loc[norms, "reasons"] = "it has no weight matrix to quantize"
    rows.loc[heads, "reasons"] = "its output was not finite"
    (sheet,) = run_sheets(replace(run, impact=rows), "impact")
    said = " ".join(sheet.notes)
    assert f"not listed: {int((norms | heads).sum())}." in said
    assert "it has no weight matrix to quantize" in said
    assert "its output was not finite" in said
