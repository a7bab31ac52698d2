"""Runs on two boards, each with what its board takes for the reference workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_builder import Eager, Shape, build_run

from energyscope.comparison.compare import compare
from energyscope.reporting.comparison.answer import ComparisonAnswer
from energyscope.reporting.comparison.page import comparison_page
from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.reporting.comparison.terminal import answer_of, record
from energyscope.runs.store import Run


def reference(board: str, energy_mj: float, **more: Any) -> dict[str, Any]:
    """What a run carries of a board: ± 1 % of energy, and a tenth less work than energy at ± 2 %."""
    work_mj = 0.9 * energy_mj
    return {
        "workload": "transformer-layer-1", "board": board, "threads": None, "energy_mj": energy_mj,
        "low_mj": 0.99 * energy_mj, "high_mj": 1.01 * energy_mj, "dynamic_mj": work_mj,
        "dynamic_low_mj": 0.98 * work_mj, "dynamic_high_mj": 1.02 * work_mj, **more,
    }  # fmt: skip


def run_on(path: Path, board: str, carried: dict[str, Any] | None, shape: Shape) -> Run:
    return build_run(path, shape, device={"uuid": board, "reference": carried})


def pair_of(
    tmp_path: Path, second: dict[str, Any] | None, *, execution: str = "cuda-graph", board: str = "GPU-2222"
) -> list[Run]:
    """Return two runs, the other with 5 % more energy, the baseline's board with a reference of 50 mJ."""
    shapes = [Eager(scale=scale, execution=execution) for scale in (1.0, 1.05)]
    first = run_on(tmp_path / "a", "GPU-1111", reference("GPU-1111", 50.0), shapes[0])
    return [first, run_on(tmp_path / "b", board, second, shapes[1])]


def printed(source: ComparedRuns) -> str:
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as captured:
        console.print(answer_of(source, 200))
    return " ".join(captured.get().split())


@pytest.mark.parametrize(("execution", "half"), [("cuda-graph", 0.0141), ("eager", 0.0283)])
def test_the_factor_of_boards_is_divided_out(tmp_path: Path, execution: str, half: float) -> None:
    """GIVEN boards 3 % apart, and 5 % more energy THEN the factor and what it leaves, by energy or work.

    The errors of both boards add up in the factor, and those of both runs as well in what is left.
    """
    runs = pair_of(tmp_path, reference("GPU-2222", 51.5), execution=execution)
    pair = compare(runs).pairs[0]
    assert pair.boards is not None
    factor, lead = pair.boards.factor, pair.whole[0].relative
    assert factor.value == pytest.approx(1.03)
    assert (factor.high - factor.low) / 2 == pytest.approx(1.03 * half, rel=0.02)
    left = pair.boards.remaining(lead)
    assert left is not None
    assert left.value == pytest.approx(1.05 / 1.03)
    assert left.below / left.value > max(factor.below / factor.value, lead.below / lead.value)


def test_nothing_that_was_measured_changes(tmp_path: Path) -> None:
    """GIVEN references THEN every difference and its verdict is as without them."""
    with_them, without = (
        compare(pair_of(tmp_path / name, carried)).pairs[0]
        for name, carried in (("with", reference("GPU-2222", 51.5)), ("without", None))
    )
    assert with_them.whole == without.whole
    assert with_them.parts == without.parts
    assert {item.verdict for item in with_them.whole if item.unit == "mJ"} == {"not-comparable"}


def test_the_answer_has_both(tmp_path: Path) -> None:
    """GIVEN references THEN terminal, page and JSON have the ratio as measured, the factor, and what is left."""
    source = ComparedRuns.of(pair_of(tmp_path, reference("GPU-2222", 51.5)))
    answer = ComparisonAnswer(source.others[0])
    told = answer.cause
    assert "Only the GPU board differs. The board of b takes 1.030x" in told
    assert "the energy of a's for the reference workload: divided by that, b takes 1.02" in told
    assert "doctor --reference" not in told
    assert "5.0 % more energy" in answer.sentence
    assert "the reference" in answer.trust
    assert told in printed(source)
    page = comparison_page(source, tmp_path).replace("\u00a0", " ")
    assert "The board of b takes 1.030x" in page
    document = json.loads(json.dumps(record(source), default=str))
    assert document["pairs"][0]["boards"]["factor"]["value"] == pytest.approx(1.03)
    assert document["answers"][0]["remaining"]["value"] == pytest.approx(1.05 / 1.03)


@pytest.mark.parametrize(
    "second",
    [None, reference("GPU-2222", 51.5, workload="transformer-layer-2"), reference("GPU-2222", 51.5, low_mj=None)],
)
def test_without_both_references_there_is_no_factor(tmp_path: Path, second: dict[str, Any] | None) -> None:
    """GIVEN no reference, another workload's, or one without an interval THEN no factor, but how to get one."""
    source = ComparedRuns.of(pair_of(tmp_path, second))
    answer = ComparisonAnswer(source.others[0])
    assert source.comparison.pairs[0].boards is None
    assert answer.record()["remaining"] is None
    assert answer.cause.startswith("Only the GPU board differs: boards of one type may differ by several percent.")
    assert (
        "`energyscope doctor --reference` on each board, before its run, tells how far they are apart."
        in answer.cause
    )


def test_on_one_board_there_is_no_factor_and_no_hint(tmp_path: Path) -> None:
    """GIVEN one board, measured twice THEN nothing is said of boards."""
    source = ComparedRuns.of(pair_of(tmp_path, reference("GPU-1111", 51.5), board="GPU-1111"))
    assert source.comparison.pairs[0].boards is None
    assert "reference" not in ComparisonAnswer(source.others[0]).cause


def test_boards_of_another_kind_get_no_hint(tmp_path: Path) -> None:
    """GIVEN another GPU THEN no reference makes the boards comparable, and none is asked for."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", device={"uuid": "GPU-2", "name": "NVIDIA H100"})]
    assert "--reference" not in ComparisonAnswer(ComparedRuns.of(runs).others[0]).cause
