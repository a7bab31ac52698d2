"""Laws, sweeps and predictions in the terminal: every line fits, numbers are whole, names are text."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from laws_builder import ONE, SIX, Swept, laws_document
from rich.console import Console
from typer.testing import CliRunner

from energyscope.cli.app import app
from energyscope.reasons import reason
from energyscope.reporting.listing import collections_table
from energyscope.reporting.scaling.answer import LawsAnswer
from energyscope.reporting.scaling.laws import Laws
from energyscope.reporting.scaling.prediction import prediction_table, prediction_text
from energyscope.reporting.scaling.sweep import sweep_table, sweep_text
from energyscope.reporting.scaling.terminal import laws_brief, laws_text
from energyscope.reporting.terminal_text import Sanitized
from energyscope.runs.schema import ENERGY_FILE
from energyscope.runs.sweeps import Sweep, load_sweep, sweep_rows

if TYPE_CHECKING:
    from rich.console import RenderableType

REPORTS = Path(__file__).parents[2] / "reports" / "scaling-h200"
CELLS = REPORTS / "cells"
HELD_OUT = {
    "by": "length", "where": "inside", "cells": 4, "median": 0.031, "largest": 0.05, "with_interval": 4,
    "inside": 4, "reason": None,
}  # fmt: skip


def printed(drawn: RenderableType, width: int = 80) -> str:
    """Return what stands on a terminal of this width, no line of which may be longer."""
    console = Console(file=io.StringIO(), width=width)
    console.print(Sanitized(drawn))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    assert "\u2026" not in text
    return text


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["sizes", "executions", "lengths", "efficiency"])
def test_measured_laws_fit_the_terminal(name: str, width: int) -> None:
    """GIVEN measured laws, THEN answer, trust and where the files are stand there, with E0 and k of each group."""
    laws = Laws.load(REPORTS / name)
    text = " ".join(printed(laws_text(laws, width), width).split())
    answer = LawsAnswer(laws)
    for part in (answer.sentence, answer.trust, "laws.json", "whole model"):
        assert " ".join(part.split()) in text
    assert text.count("Energy = E0 + k") == sum(not group["reason"] for group in laws.groups)


def test_a_brief_has_a_line_for_each_group() -> None:
    """GIVEN six groups, THEN each has its law; of one cell, the reason in its place."""
    laws = Laws(json.loads(json.dumps(laws_document(SIX))), Path("nowhere"))
    text = printed(laws_brief(laws), 200)
    assert all(f"{label}:" in text for label in laws.labels)
    single = Laws(
        json.loads(json.dumps(laws_document((Swept(batch_sizes=(1,), lengths=(64,)),)))), Path("nowhere")
    )
    assert "pJ" not in printed(laws_brief(single))


def test_modelled_laws_say_so() -> None:
    """GIVEN modelled joules, THEN the warning, the law and the column of E0 say it."""
    laws = Laws(json.loads(json.dumps(laws_document((Swept(modelled=True),)))), Path("nowhere"))
    text = printed(laws_text(laws, 120), 120)
    assert text.count("MODELLED") >= 4
    assert "MODELLED" not in printed(laws_text(Laws(laws_document(ONE), Path("nowhere")), 120), 120)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["long-eager", "context-llama-3.2-1b", "prefill-llama-3.2-3b"])
def test_a_sweep_has_a_line_for_each_cell(name: str, width: int) -> None:
    """GIVEN a measured sweep, THEN each cell has its energy and grade, whatever the width."""
    sweep = load_sweep(CELLS / name)
    rows = sweep_rows(sweep)
    text = printed(sweep_text(sweep, width), width)
    table = sweep_table(sweep, rows, modelled=False)
    assert all(cells[3] in text for cells in table.texts())
    assert "Grade" in text
    assert [row["energy"].value for row in table.rows] == [row["energy_mj"] for row in rows]


@pytest.mark.parametrize(("state", "command"), [("interrupted", "--resume"), ("failed", "--retry")])
def test_what_is_missing_can_be_measured(state: str, command: str) -> None:
    """GIVEN a cell without a value, THEN its state, its reason and the command that measures it stand there."""
    sweep = load_sweep(CELLS / "long-eager")
    assert "--resume" not in printed(sweep_text(sweep, 200), 200)
    lost = replace(sweep.cells[-1], state=state, reason=reason("few-cells", cells=1, needed=2))
    text = printed(sweep_text(replace(sweep, cells=[*sweep.cells[:-1], lost]), 200), 200)
    assert command in text
    assert ("--retry" in text) == (state == "failed")
    assert f"{lost.name}: {state}: 1 cell, and 2 are needed" in text


def test_stated_watts_stand_nowhere() -> None:
    """GIVEN modelled cells and one that does not fit, THEN no power is shown, MODELLED is, and the state."""
    sweep = load_sweep(CELLS / "long-eager")
    rows = [{**row, "state": "done"} for row in sweep_rows(sweep)]
    none = {key: None for key in rows[0] if key not in {"precision", "batch_size", "tokens"}}
    table = sweep_table(sweep, [*rows, {**rows[0], **none, "state": "does not fit"}], modelled=True)
    assert all(row["power"] is None for row in table.rows)
    text = printed(table.filled().rich(80))
    assert "MODELLED" in text
    assert "does not fit" in text


def test_reasons_of_cells_that_are_too_noisy_are_said_once(tmp_path: Path) -> None:
    """GIVEN a wide cell, and one that is invalid for its few windows, THEN each has its own reason."""
    shutil.copytree(CELLS / "long-eager", tmp_path / "swept")
    sweep = load_sweep(tmp_path / "swept")
    assert text_of(sweep).count("2 cells too noisy:") == 1
    file = sweep.path / sweep.cells[2].name / ENERGY_FILE
    table = pd.read_csv(file)
    whole = table["kind"] == "model"
    table.loc[whole, ["quality", "reasons"]] = "invalid", "2 windows (A needs 5)"
    table.loc[whole, "energy_ci_low_mj"] = 0.99 * table.loc[whole, "energy_mj"]
    table.loc[whole, "energy_ci_high_mj"] = 1.01 * table.loc[whole, "energy_mj"]
    table.to_csv(file, index=False)
    text = text_of(load_sweep(sweep.path))
    assert "2 cells too noisy: " in text
    assert "1 cell too noisy: 2 windows (A needs 5)" in text


def text_of(sweep: Sweep) -> str:
    return printed(sweep_text(sweep, 300), 300)


def test_the_next_command_is_of_the_sweep() -> None:
    """GIVEN measured decode steps, THEN the command that predicts others names model, sweep and option."""
    text = text_of(load_sweep(CELLS / "context-llama-3.2-1b"))
    assert "energyscope predict llama-3.2-1b --from" in text
    assert "--context-length N" in text


def row(subject: str = "mlp", **changes: Any) -> dict[str, Any]:
    energy = {"value": 123.4, "low": 120.0, "high": 127.0}
    return {
        "subject": subject, "energy_mj": energy, "time_us": {"value": 410.0, "low": None, "high": None},
        "law": "two-term", "held_out": HELD_OUT, "extrapolated": False, "why": None, "flags": [], **changes,
    }  # fmt: skip


def predicted(**changes: Any) -> dict[str, Any]:
    return {
        "model": "tiny", "phase": "prefill", "batch_size": 4, "tokens": 96, "precision": "bf16",
        "execution": "eager", "modelled": False, "left_out_by": "length", "whole": row("model"), "left_out": {},
        "sum": row("model", law="sum-over-parts"), "parts": [row()], "groups": [], "notes": [],
        "from": [{"run": "a", "batch_size": 4, "tokens": 64}, {"run": "b", "batch_size": 4, "tokens": 128}],
        **changes,
    }  # fmt: skip


def told(width: int = 120, **changes: Any) -> str:
    return printed(prediction_text(predicted(**changes), width), width)


def test_a_prediction_has_value_interval_time_law_and_error() -> None:
    """GIVEN a prediction, THEN each row has its numbers, and the heading its shape and its cells."""
    cells = prediction_table(predicted()).texts()
    assert [item[0] for item in cells] == ["whole model", "sum of parts", "MLP"]
    assert {"123 mJ \u00b1 4", "410 \u00b5s", "3.1 %", "within", "two-term"} <= set(cells[0])
    assert "4 x 96 tokens" in told()
    assert "2 cells: a (4 x 64) and b (4 x 128)" in told()
    assert "batch 4, 96 in the cache" in told(phase="decode")


def test_a_limit_that_is_not_known_is_none() -> None:
    """GIVEN an energy without a lower limit, THEN the upper one stands alone, and no number is made up for it."""
    table = prediction_table(predicted(parts=[row(energy_mj={"value": 12.5, "low": None, "high": 61.25})]))
    assert table.rows[-1]["most"] == 61.25
    assert table.texts()[-1][1] == "12.5 mJ"
    assert table.rows[0]["most"] is None


def test_each_thing_is_said_once_with_its_parts() -> None:
    """GIVEN one reason, flag or distance for several parts, THEN one line names them."""
    unjudged = {**HELD_OUT, "median": None, "cells": 0, "reason": reason("single-group", by="length")}
    text = told(parts=[row("mlp", held_out=unjudged, time_us=None), row("norm", held_out=unjudged)])
    assert text.count("a single length: nothing is left to fit") == 1
    assert "MLP and norm" in text
    flag = reason("term-negative", term="k")
    assert told(parts=[row("mlp", flags=[flag])], whole=row("model", flags=[flag])).count("k is negative") == 1
    beyond = [
        reason("beyond-cells", measure="tokens", factor=4.0, end="most"),
        reason("beyond-cells", measure="FLOPs", factor=5.0, end="most"),
    ]
    parts = [row(name, extrapolated=True, why=f"{beyond[0]}; {beyond[1]}" if name == "mlp" else beyond[0])
             for name in ("mlp", "norm", "attention")]  # fmt: skip
    text = told(200, parts=parts)
    assert text.count("times the most measured") == 1
    assert "outside" in text
    assert told(left_out={"lm_head": "1 cell", "norm": "1 cell"}).count(": 1 cell") == 1


@pytest.mark.parametrize("width", [80, 120])
def test_the_widest_prediction_keeps_its_numbers(width: int) -> None:
    """GIVEN modelled joules, the longest law and wide numbers, THEN energy, error and data are whole."""
    wide = row(
        "attention.output", law="roofline-board-rates", extrapolated=True, why="1 token",
        energy_mj={"value": 123_456.0, "low": 101_234.0, "high": 145_678.0},
        held_out={**HELD_OUT, "median": 1.23, "cells": 120, "where": "outside"},
    )  # fmt: skip
    text = told(width, modelled=True, parts=[wide])
    for words in ("123 J \u00b1 22", "123 %", "outside", "MODELLED"):
        assert words in text


@pytest.mark.parametrize("name", ["[red]x[/red]", "\x1b[31mred", "one\ntwo\ttabs"])
def test_hostile_names_are_printed_and_not_obeyed(name: str) -> None:
    """GIVEN a model or run with markup or control characters in its name, THEN it is text in one line."""
    text = told(200, model=name, **{"from": [{"run": name, "batch_size": 1, "tokens": 8}]})
    assert "\x1b" not in text
    assert " ".join(name.replace("\x1b", " ").split()) in text
    document = json.dumps(laws_document(ONE)).replace("llama-3.2-1b", json.dumps(name)[1:-1])
    assert "\x1b" not in printed(laws_text(Laws(json.loads(document), Path("nowhere")), 120), 120)


def test_sweeps_and_laws_are_listed(tmp_path: Path) -> None:
    """GIVEN sweeps, laws and a broken one below a root, THEN each has a row with what became of its cells."""
    rows = {item["name"]: item for item in collections_table(REPORTS).rows}
    assert {item["what"] for item in rows.values()} == {"laws"}
    assert rows["executions"]["cells"] == 10
    swept = json.loads((CELLS / "prefill-llama-3.2-3b" / "sweep.json").read_text(encoding="utf-8"))
    swept["cells"][-1]["state"] = "interrupted"
    for name, text in (("stopped", json.dumps({**swept, "name": "stopped"})), ("broken", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sweep.json").write_text(text, encoding="utf-8")
    rows = {item["name"]: item for item in collections_table(tmp_path).rows}
    assert (rows["stopped"]["cells"], rows["stopped"]["others"]) == (2, "1 interrupted")
    assert "broken" in rows


def invoked(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.output


def test_runs_and_show_print_sweeps() -> None:
    """GIVEN sweeps alone, THEN `runs` lists them and `show` prints one; a table of it, or laws, are refused."""
    output = invoked("runs", "--root", str(CELLS))
    assert "long-eager" in output
    assert "no runs" not in output
    assert "4,096" in invoked("show", "long-eager", "--root", str(CELLS))
    for words in (
        ["show", "long-eager", "--table", "energy", "--root", str(CELLS)],
        ["show", str(REPORTS / "sizes")],
    ):
        assert CliRunner().invoke(app, words).exit_code in {1, 2}
