from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console, RenderableType
from run_builder import Shape, build_run

from energyscope.reporting.data.invalid import InvalidGroup
from energyscope.reporting.html import write_report
from energyscope.reporting.terminal import run_summary
from energyscope.reporting.terminal_compare import comparison_table
from energyscope.reporting.terminal_runs import runs_table
from energyscope.runs.compare import compare
from energyscope.runs.store import Run, load_run

REPORTS = Path(__file__).parent.parent.parent / "reports"


def _plain(renderable: RenderableType, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_summary_has_the_headline_the_kinds_and_the_path(tmp_path: Path) -> None:
    """GIVEN a run with a report, THEN the summary names energy, kinds, glue, findings and where the report is."""
    run = build_run(tmp_path / "run")
    path = write_report(run.path)
    said = _plain(run_summary(run), width=300)
    for part in ("Energy per forward pass", "Closure", "glue", "unexplained", "1. The MLP blocks", str(path)):
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
    """GIVEN removal, INT8 and rows without a value, THEN both families have a column and what failed a line."""
    said = _plain(run_summary(_quantized(tmp_path, "the model was not the same all along")), width=80)
    for part in ("What it is worth: KL", "criticality", "zero ablation", "sensitivity", "INT8 weights"):
        assert part in said
    assert "Without a value: 36 rows: the model was not the same all along (9" in said
    assert max(map(len, said.splitlines())) <= 80


def test_what_could_have_no_value_is_not_listed_as_without(tmp_path: Path) -> None:
    """GIVEN norms that have no matrix to quantize, THEN a dash is explained and no row is said to lack a value."""
    said = _plain(run_summary(_quantized(tmp_path, "it has no weight matrix to quantize")), width=80)
    assert "stands where there is no weight matrix to quantize." in said
    assert "Without a value" not in said


def test_a_dash_stands_only_where_there_is_nothing_to_quantize(tmp_path: Path) -> None:
    """GIVEN norms without a matrix and an LM head that failed, THEN only the norms have a dash."""
    run = _quantized(tmp_path, "it has no weight matrix to quantize")
    assert run.impact is not None
    failed = (run.impact["kind"] == "lm_head") & (run.impact["method"] == "int8")
    assert failed.any()
    run.impact.loc[failed, ["valid", "value"]] = [False, None]
    run.impact.loc[failed, "reasons"] = "its output was not finite"
    lines = _plain(run_summary(run), width=200).partition("What it is worth")[2].splitlines()
    cells = {line.split()[0]: line for line in lines if line.split()}
    assert cells["norm"].split()[-1] == "\u2013"
    assert cells["lm_head"].endswith("no value") or "no value" in cells["lm_head"]
    assert "\u2013" not in cells["lm_head"]


def test_a_failure_is_no_dash(tmp_path: Path) -> None:
    """GIVEN norms whose rows failed, THEN they have no value, and no legend of a dash stands below."""
    said = _plain(run_summary(_quantized(tmp_path, "the model was not the same all along")), width=200)
    worth = said.partition("What it is worth")[2].partition("Without a value")[0]
    assert "no value" in worth
    assert "\u2013" not in worth


def test_every_kind_without_a_matrix_has_a_dash(tmp_path: Path) -> None:
    """GIVEN six kinds without a matrix, more than a sentence names, THEN each has a dash."""
    run = _quantized(tmp_path, "it has no weight matrix to quantize")
    assert run.impact is not None
    norms = run.impact[run.impact["kind"] == "norm"]
    more = [norms.assign(kind=f"kind{number}", component=norms["component"] + f".{number}") for number in range(5)]
    said = _plain(run_summary(replace(run, impact=pd.concat([run.impact, *more], ignore_index=True))), width=200)
    lines = said.partition("What it is worth")[2].splitlines()
    for kind in ("norm", *(f"kind{number}" for number in range(5))):
        assert next(line for line in lines if line.split()[:1] == [kind]).split()[-1] == "\u2013"
    assert "stands where there is no weight matrix to quantize." in said


def test_the_reasons_that_are_not_listed_are_those_of_the_impact_stage() -> None:
    """The words that mark a row as not applicable are the ones that the stage writes."""
    from energyscope.impact.predicting import weight_statistics
    from energyscope.impact.quantizing import matrices
    from energyscope.impact.rows import TOGETHER

    for reason in (matrices.NO_MATRIX, weight_statistics.NO_MATRIX, TOGETHER):
        assert not InvalidGroup(reason, 1, [], [], []).applicable
    assert InvalidGroup(matrices.NO_MATRIX, 1, [], [], []).unquantizable


def _quantized(tmp_path: Path, reason: str) -> Run:
    """Return a run whose norms have no value by INT8, for a reason."""
    run = build_run(tmp_path / "run")
    assert run.impact is not None
    quantized = run.impact[run.impact["method"] == "zero"].assign(method="int8")
    norms = quantized["kind"] == "norm"
    quantized.loc[norms, "valid"] = False
    quantized.loc[norms, "value"] = None
    quantized["reasons"] = quantized["reasons"].astype(object).where(~norms, reason)
    return replace(run, impact=pd.concat([run.impact, quantized], ignore_index=True))


def test_a_run_that_is_only_a_benchmark_has_an_energy() -> None:
    """GIVEN no profile, THEN the list of runs gives what an inference took at the benchmark's baseline."""
    said = _plain(runs_table([load_run(REPORTS / "distilbert-precisions-h200")]))
    assert "6.47 J" in said
    assert "not measured" not in said


def test_a_name_is_never_broken_within_a_word() -> None:
    """GIVEN long names of runs at 80 columns, THEN they are broken behind a hyphen."""
    lines = _plain(runs_table([load_run(REPORTS / "llama-3.2-1b-generation-h200")]), width=80).splitlines()
    words = [line.split()[0] for line in lines if line.strip()]
    parts = [word for word in words if word.startswith(("llama", "generation"))]
    assert "".join(parts) == "llama-3.2-1b-generation-h200"
