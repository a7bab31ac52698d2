"""How the terminal writes differences of runs."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from generation_builder import Inference, build_inference
from rich.console import Console
from run_builder import Shape, build_run

from energyscope.reporting.comparison.words import untold
from energyscope.reporting.differences import change_text
from energyscope.reporting.terminal_compare import _change, comparison_table
from energyscope.runs.compare import compare
from energyscope.runs.compare_difference import compared
from energyscope.runs.intervals import Interval
from energyscope.runs.store import Run


def _plain(*runs, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(comparison_table(compare(list(runs))))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_verdicts_and_obstacles(tmp_path: Path) -> None:
    """GIVEN a cheaper run and one on another board, THEN one is less, the other not comparable, and why."""
    base, less = build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.9))
    said = _plain(base, less, build_run(tmp_path / "c", device={"uuid": "GPU-2"}))
    assert "b against a (baseline)" in said
    assert "-10.0 %" in said
    assert "less" in said
    assert "cannot be told: no interval" in said
    assert "not comparable in joules: GPU board: GPU-1111 against GPU-2" in said
    assert "(each of 4, mean over the layers)" in said


def test_what_is_not_complete_and_what_was_warned_of_come_first(tmp_path: Path) -> None:
    """GIVEN an interrupted run with a warning, THEN both stand above the first table."""
    broken = build_run(
        tmp_path / "b", stages={"profile": {"state": "interrupted"}}, warnings=["kernels are wrong"]
    )
    lines = _plain(build_run(tmp_path / "a"), broken).splitlines()
    assert lines[:2] == ["b is not complete: profile interrupted", "warning: b: kernels are wrong"]


def test_what_was_not_measured_and_what_holds_throughout_is_said_once(tmp_path: Path) -> None:
    """GIVEN modelled runs of several moments, THEN static energy and the word on MODELLED appear once."""
    said = _plain(*(build_inference(tmp_path / name, Inference(layers=2, modelled=True)) for name in "ab"))
    assert said.count("static energy") == 1
    assert said.count("both are MODELLED") == 1
    assert "mean power  " not in said
    assert "energy per decode step" in said


def test_a_generation_comes_first(tmp_path: Path) -> None:
    """GIVEN two generations, THEN their rates stand before the first moment."""
    said = _plain(*(build_inference(tmp_path / name, Inference(layers=2)) for name in "ab"))
    assert said.index("energy per generated token") < said.index("energy per decode step")
    assert "generate's loop per step" in said


def test_no_change_has_no_sign() -> None:
    """GIVEN a change that is rounding, THEN it is 0; one that wide limits hide keeps a digit."""
    assert _change(compared("power", "W", Interval(65.0), Interval(65.0 - 1e-11), ())) == "0 W (0 %)"
    hidden = _change(compared("t", "us", Interval(6530.0, 100, 13000), Interval(6805.0, 100, 13000), ()))
    assert hidden.startswith("+0.3 ms (+4.2 %)")


def test_tables_fit_eighty_columns(tmp_path: Path) -> None:
    """GIVEN a terminal of 80 columns, THEN nothing is cut or broken out of it."""
    said = _plain(*(build_inference(tmp_path / name, Inference(layers=2)) for name in "ab"), width=80)
    assert "\u2026" not in said
    assert max(map(len, said.splitlines())) <= 80


def _graded(run: Run, quality: Callable[[str], str]) -> Run:
    """Return a run whose components are graded by their names; the whole model keeps its grade."""
    assert run.energy is not None
    below = run.energy["level"] != "model"
    run.energy.loc[below, "quality"] = [quality(name) for name in run.energy.loc[below, "component"]]
    return run


def test_components_of_which_nothing_can_be_told_are_counted_and_not_listed(tmp_path: Path) -> None:
    """GIVEN components that are all below grade C, THEN one line says how many, why, and where to see them."""
    built = [build_run(tmp_path / name, Shape(scale=at)) for name, at in zip("ab", (1, 0.9), strict=True)]
    runs = [_graded(run, lambda _: "invalid") for run in built]
    said = _plain(*runs)
    rows = len(compare(runs).pairs[0].parts)
    assert f"nothing can be told of any of {rows} rows (graded invalid); --json and the page have them" in said
    assert "lm_head" not in said
    assert "energy per forward pass" in said


def test_components_with_a_verdict_are_listed_beside_the_count_of_the_rest(tmp_path: Path) -> None:
    """GIVEN one component that reached grade C, THEN it has a row, and the others are one line below it."""
    built = [build_run(tmp_path / name, Shape(scale=at)) for name, at in zip("ab", (1, 0.9), strict=True)]
    runs = [_graded(run, lambda one: "A" if one == "lm_head" else "invalid") for run in built]
    said = _plain(*runs)
    assert "lm_head" in said
    assert "cannot be told: graded invalid" not in said
    rows = len(compare(runs).pairs[0].parts)
    assert f"nothing can be told of {rows - 1} further rows (graded invalid)" in said


def test_the_reasons_of_what_cannot_be_told_are_counted_apart(tmp_path: Path) -> None:
    """GIVEN rows below grade C and one without an interval, THEN each reason has its amount."""
    built = [build_run(tmp_path / name) for name in "ab"]
    runs = [_graded(run, lambda one: "A" if one == "lm_head" else "invalid") for run in built]
    for run in runs:
        assert run.energy is not None
        run.energy.loc[run.energy["component"] == "lm_head", "energy_ci_low_mj"] = None
    rows = len(compare(runs).pairs[0].parts)
    assert f"({rows - 1} graded invalid and 1 without an interval)" in _plain(*runs)


def test_a_difference_wider_than_its_baseline_has_an_upper_limit_alone(tmp_path: Path) -> None:
    """GIVEN trials that scatter beyond the whole value, THEN it says up to what, in the report's words."""
    runs = [build_run(tmp_path / name, Shape(profile=False, benchmark=True)) for name in "ab"]
    for run in runs:
        assert run.benchmark is not None
        run.benchmark["cells"][0]["energy_mj"] = {"value": 20.0, "low": -35.0, "high": 75.0}
    said = _plain(*runs)
    assert "[up to 59]" in said
    assert "[-" not in said.split("dynamic energy")[0]


def test_limits_within_the_baseline_are_both_written() -> None:
    """GIVEN a difference that is no wider than the baseline, THEN both of its limits stand."""
    assert _change(compared("t", "us", Interval(50.0, 45, 55), Interval(40.0, 30, 50), ())).endswith("[-21, 1]")


_TEN, _ONE, _WIDE = Interval(10.0, 9, 11), Interval(1.0, 0.2, 2), Interval(9.0, -3, 30)
_NONE = Interval(0.0, -12.0, 12.0)


@pytest.mark.parametrize(
    ("name", "other", "limits"),
    [
        ("energy", _ONE, "[-10.0, -7.6]"),
        ("energy", _WIDE, "[up to 20]"),
        ("energy", _NONE, "[-22, 2]"),
        ("dynamic energy", _ONE, "[-10.3, -7.6]"),
        ("fp16: dynamic energy", _WIDE, "[-13, 20]"),
        ("unexplained", _WIDE, "[-13, 20]"),
        ("generate's loop per step", _WIDE, "[-13, 20]"),
    ],
)
def test_up_to_stands_only_where_it_cannot_be_read_as_the_most_that_is_saved(
    name: str, other: Interval, limits: str
) -> None:
    """GIVEN a saving of 90 %, THEN both limits stand, none beyond the baseline unless the quantity has a sign.

    Without a ratio, which a value of 0 has none of, nothing is known of what is impossible.
    """
    assert change_text(compared(name, "mJ", _TEN, other, ()))[1] == limits


@pytest.mark.parametrize(
    ("baseline", "other", "said"),
    [
        (644.0, 1668.0, "+1.02 J (+159.0 %)"),
        (1668.0, 644.0, "-1.02 J (-61.4 %)"),
        (500.0, 501.0, "+1.00 mJ (+0.2 %)"),
    ],
)
def test_a_difference_has_a_unit_of_its_values(baseline: float, other: float, said: str) -> None:
    """GIVEN 644 mJ and 1.67 J, THEN their difference is in joules, not in 1024 mJ; a small one keeps the unit."""
    assert change_text(compared("dynamic energy", "mJ", Interval(baseline), Interval(other), ()))[0] == said


def test_a_share_has_both_limits() -> None:
    """GIVEN what is unexplained as a share, THEN no limit of the points between two runs is left out."""
    shares = [Interval(0.05, -0.02, 0.12), Interval(0.01, -0.08, 0.10)]
    said = change_text(compared("unexplained", "share", *shares, ()))
    assert said == ("-4 points", "[-15, 7]")


def test_why_nothing_can_be_told_begins_with_what_only_one_run_has() -> None:
    """GIVEN a weak value without an interval that only one run has, THEN that comes first, then its grade."""
    weak, vague = "graded invalid in the baseline", Interval(10.0)
    assert untold(compared("a", "mJ", vague, None, (), weak)) == "only in one run"
    assert untold(compared("a", "mJ", None, None, (), weak)) == "in neither run"
    assert untold(compared("a", "mJ", vague, vague, (), weak)) == "graded invalid"
    assert untold(compared("a", "mJ", vague, _TEN, ())) == "without an interval"
    assert untold(compared("a", "mJ", _TEN, _ONE, ("another GPU board",))) is None


def test_components_that_only_one_run_has_are_counted(tmp_path: Path) -> None:
    """GIVEN other parts in the other run, THEN the kinds of one run alone are in the count and have no row."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(granularity="medium"))]
    parts = compare(runs).pairs[0].parts
    alone = [part for part in parts if part.change is None]
    assert alone
    said = _plain(*runs)
    assert f"nothing can be told of {len(alone)} further rows (only in one run)" in said
    assert all(part.name not in said for part in alone)
