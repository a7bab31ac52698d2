"""The end of `energyscope run`: the answer on a screen or two, and where the rest is."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from run_builder import Shape, build_run

from energyscope.reporting.html import write_report
from energyscope.reporting.terminal_brief import MOST_COMPONENTS, MOST_FINDINGS, brief_summary
from energyscope.reporting.terminal_runs import runs_table
from energyscope.runs.store import Run, load_run

REPORTS = Path(__file__).parent.parent.parent / "reports"


def _said(run: Run, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(brief_summary(run, width))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_it_has_the_numbers_the_findings_and_the_path(tmp_path: Path) -> None:
    """GIVEN a run, THEN headline, kinds, components, impact, first findings, and last the report's path."""
    run = build_run(tmp_path / "run")
    page = write_report(run.path)
    said = _said(run, 200)
    for part in ("Energy per forward pass", "Closure", "glue", "unexplained", "Largest components",
                 "zero ablation", "1. The MLP blocks", f"energyscope show {run.path}"):  # fmt: skip
        assert part in said
    assert said.rstrip().endswith(f"Report: {page}")
    assert said.count("quality") == 1
    assert f"{MOST_FINDINGS + 1}. " not in said


def test_without_a_page_it_says_how_one_is_drawn(tmp_path: Path) -> None:
    """GIVEN a run without a page, THEN its last line says whether one was asked for, and the command for one."""
    run = build_run(tmp_path / "a run", stages={"report": {"state": "skipped", "reason": "not asked for"}})
    last = _said(run, 400).rstrip().splitlines()[-1]
    assert last == f"No report was asked for: energyscope report '{run.path}'"
    for stages in ({}, {"report": {"state": "failed", "reason": "no space"}}):
        run = build_run(tmp_path / f"run{len(stages)}", stages=stages)
        last = _said(run, 400).rstrip().splitlines()[-1]
        assert last == f"No report was written: energyscope report {run.path}"


def test_modelled_and_incomplete_runs_are_called_so(tmp_path: Path) -> None:
    """GIVEN a modelled run whose ablation broke off, THEN both stand before every number."""
    run = build_run(tmp_path / "run", Shape(modelled=True), stages={"ablate": {"state": "interrupted"}})
    before = _said(run).partition("what")[0]
    assert "MODELLED" in before
    assert "INCOMPLETE RUN" in before


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["llama-3.2-1b-generation-h200", "distilbert-precisions-h200", "gpt2-8x512-h200"])
def test_it_fits(name: str, width: int) -> None:
    """GIVEN real runs, THEN no line is too long, no number is cut or broken, and a page or two hold it."""
    said = _said(load_run(REPORTS / name), width)
    lines = said.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 160
    assert "\u2026" not in said
    assert all(line.count("mJ [") <= line.count("]") for line in lines)
    assert len([line for line in lines if "(each of" in line]) <= 2 * MOST_COMPONENTS


def test_a_busy_machine_ends_with_what_to_do(tmp_path: Path) -> None:
    """GIVEN a run all of whose rows are below grade C, THEN the cause and the remedy follow the first findings."""
    run = build_run(tmp_path / "run")
    assert run.energy is not None
    low, high = run.energy["energy_mj"] * 0.7, run.energy["energy_mj"] * 1.3
    said = _said(
        replace(run, energy=run.energy.assign(quality="invalid", energy_ci_low_mj=low, energy_ci_high_mj=high)),
        200,
    )
    assert "are below grade C" in said
    assert "close other programs" in said
    assert said.count("close other programs") == 1


def test_a_run_that_broke_off_is_told_from_one_that_goes_on(tmp_path: Path) -> None:
    """GIVEN a stage called running that nobody measures, THEN the list of runs says that it broke off."""
    run = build_run(tmp_path / "run", stages={"profile": {"state": "running"}})
    console = Console(file=io.StringIO(), width=120)
    console.print(runs_table([run]))
    assert "profile broken off" in console.file.getvalue()  # type: ignore[attr-defined]


def test_where_nobody_can_tell_both_are_said(tmp_path: Path) -> None:
    """GIVEN a journal whose lock cannot be read, THEN the list of runs says that either may be."""
    run = build_run(tmp_path / "run", stages={"profile": {"state": "running"}})
    (run.path / "journal.jsonl").symlink_to("journal.jsonl")
    console = Console(file=io.StringIO(), width=120)
    console.print(runs_table([run]))
    assert "profile running or broken off" in console.file.getvalue()  # type: ignore[attr-defined]
