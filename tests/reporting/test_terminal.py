from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console, RenderableType
from run_builder import Shape, build_run

from energyscope.reporting.html import write_report
from energyscope.reporting.terminal import run_summary, runs_table
from energyscope.reporting.terminal_compare import comparison_table
from energyscope.runs.compare import compare


def _plain(renderable: RenderableType, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_summary_has_the_headline_the_kinds_and_the_path(tmp_path: Path) -> None:
    """GIVEN a run with a report, THEN the summary names energy, kinds, glue, findings and where the report is."""
    run = build_run(tmp_path / "run")
    path = write_report(run.path)
    said = _plain(run_summary(run), width=300)
    for part in ("Energy per forward pass", "Closure", "glue", "unexplained", "1. The LM head", str(path)):
        assert part in said


def test_a_value_shared_by_the_layers_takes_one_line(tmp_path: Path) -> None:
    """GIVEN kinds measured as means, THEN the list of the largest components does not repeat them by layer."""
    said = _plain(run_summary(build_run(tmp_path / "run")))
    assert "transformer.h.*.mlp.c_fc (each of 4)" in said
    assert "transformer.h.1.mlp.c_fc" not in said


def test_modelled_joules_are_called_so(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN the summary and the list of runs say MODELLED beside the joules."""
    run = build_run(tmp_path / "run", Shape(modelled=True))
    assert _plain(run_summary(run)).count("MODELLED energy") == 2
    assert "MODELLED" in _plain(runs_table([run]))


def test_markup_in_names_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    """GIVEN names in square brackets, THEN rich prints them as they are."""
    run = build_run(
        tmp_path / "run",
        Shape(granularity="medium", rename=lambda name: name.replace("lm_head", "[red]head[/red]")),
        model={"name": "[bold]x"},
    )
    assert "[red]head[/red]" in _plain(run_summary(run))
    assert "[bold]x" in _plain(runs_table([run]), width=200)


def test_a_run_without_tables_says_why(tmp_path: Path) -> None:
    """GIVEN skipped stages, THEN their reasons are printed."""
    said = _plain(run_summary(build_run(tmp_path / "run", Shape(impact=False))))
    assert "The ablate stage was skipped: the weights are random." in said


def test_comparison_states_verdicts_and_obstacles(tmp_path: Path) -> None:
    """GIVEN a cheaper run and one on another board, THEN one is less, the other not comparable, and why."""
    base, less = build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.9))
    other = build_run(tmp_path / "c", device={"uuid": "GPU-2"})
    said = _plain(comparison_table(compare([base, less, other])))
    assert "b against a (baseline)" in said
    assert "-10.0 %" in said
    assert "less" in said
    assert "not comparable in joules: GPU board: GPU-1111 against GPU-2" in said
    assert "smaller ones not shown" in said


def test_runs_are_listed_with_their_stages(tmp_path: Path) -> None:
    """GIVEN a finished and an interrupted run, THEN the list tells them apart."""
    done = build_run(tmp_path / "done")
    broken = build_run(tmp_path / "broken", stages={"ablate": {"state": "interrupted"}})
    said = _plain(runs_table([done, broken]), width=220)
    assert "load, profile, ablate, correlate" in said
    assert "ablate interrupted" in said


def test_tables_fit_eighty_columns(tmp_path: Path) -> None:
    """GIVEN a terminal of 80 columns, THEN no number of the lists of runs and differences is cut or broken."""
    first = build_run(tmp_path / "distilbert-20261121-093000")
    second = build_run(tmp_path / "b", Shape(scale=0.9, modelled=True))
    listed = _plain(runs_table([first, second]), width=80)
    assert "61.2 mJ MODELLED" in listed
    assert "[60.80, 61.72]" in listed
    compared = _plain(comparison_table(compare([first, build_run(tmp_path / "c", Shape(scale=0.9))])), width=80)
    assert "-6.8 mJ (-10.0 %)" in compared
    assert "\u2026" not in listed + compared
    assert max(map(len, (listed + compared).splitlines())) <= 80


def test_a_summary_says_how_far_to_trust_it(tmp_path: Path) -> None:
    """GIVEN a run, THEN execution, closure, replay, simpler methods and drift each have a sentence."""
    said = _plain(run_summary(build_run(tmp_path / "run")), width=300)
    for part in ("Eager execution. As most", "The books close", "over-captured", "Replay agrees", "Attribution by",
                 "no drift", "all 30 came that close"):  # fmt: skip
        assert part in said


def test_a_summary_says_what_components_are_worth(tmp_path: Path) -> None:
    """GIVEN removal, INT8 and rows without a value, THEN both families have a column and the reason a line."""
    run = build_run(tmp_path / "run")
    assert run.impact is not None
    quantized = run.impact[run.impact["method"] == "zero"].assign(method="int8")
    norms = quantized["kind"] == "norm"
    quantized.loc[norms, "valid"] = False
    quantized.loc[norms, "value"] = None
    quantized["reasons"] = quantized["reasons"].astype(object).where(~norms, "it has no weight matrix to quantize")
    run = replace(run, impact=pd.concat([run.impact, quantized], ignore_index=True))
    said = _plain(run_summary(run), width=80)
    for part in (
        "What it is worth: KL",
        "criticality",
        "zero ablation",
        "sensitivity",
        "INT8 weights",
        "no value",
    ):
        assert part in said
    assert "Without a value: 36 rows: it has no weight matrix to quantize (9" in said
    assert max(map(len, said.splitlines())) <= 80
