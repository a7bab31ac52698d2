"""Sweeps and laws are listed beside the runs."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from energyscope.cli.app import app
from energyscope.reporting.terminal_collections import collections_said

REPORTS = Path(__file__).parents[2] / "reports" / "scaling-h200"


def printed(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.output


def test_each_sweep_has_a_line_with_what_became_of_its_cells(tmp_path: Path) -> None:
    """Also cells that were not measured are counted."""
    assert "sweep llama-3.2-1b-eager: llama-3.2-1b, 12 of 12 cells measured" in collections_said(REPORTS / "cells")
    swept = json.loads((REPORTS / "cells" / "prefill-llama-3.2-3b" / "sweep.json").read_text(encoding="utf-8"))
    swept["cells"][-1]["state"] = "interrupted"
    (tmp_path / "stopped").mkdir()
    (tmp_path / "stopped" / "sweep.json").write_text(json.dumps({**swept, "name": "stopped"}), encoding="utf-8")
    assert collections_said(tmp_path) == ["sweep stopped: llama-3.2-3b, 2 of 3 cells measured, 1 interrupted"]


def test_laws_are_listed_by_their_models() -> None:
    """And not a sweep's own laws a second time."""
    lines = collections_said(REPORTS)
    assert "laws executions: llama-3.2-1b, 10 cells" in lines
    assert not [line for line in lines if line.startswith("sweep")]


def test_runs_prints_them_where_there_is_no_run() -> None:
    """GIVEN sweeps alone THEN they are listed, and nobody is told that there is nothing."""
    said = printed("runs", "--root", str(REPORTS / "cells"))
    assert "sweep long-eager" in said
    assert "no runs" not in said


def test_show_prints_a_sweep() -> None:
    """Its cells, as at the sweep's end."""
    said = printed("show", "long-eager", "--root", str(REPORTS / "cells"))
    assert "llama-3.2-1b, forward passes" in said
    assert "4,096" in said
    refused = CliRunner().invoke(
        app, ["show", "long-eager", "--table", "energy", "--root", str(REPORTS / "cells")]
    )
    assert refused.exit_code == 2


def test_laws_are_no_run(tmp_path: Path) -> None:
    """GIVEN the name of laws where a run is wanted THEN one line says what they are."""
    refused = CliRunner().invoke(app, ["show", str(REPORTS / "sizes"), "--root", str(tmp_path)])
    assert refused.exit_code == 1
    assert "holds laws of runs" in refused.output
