"""What compare says of grades, of a unit of work, of depth, of benchmarks, of names and of surroundings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from run_builder import Eager, Shape, build_run

from energyscope.comparison.compare import compare
from energyscope.comparison.conditions import RunComparison
from energyscope.comparison.difference import PER_PASS, WORK, Difference
from energyscope.comparison.gate import allowed, exceeding
from energyscope.comparison.parts import layers_of
from energyscope.errors import RunError, UsageError
from energyscope.reasons import split
from energyscope.runs.schema import ENERGY_FILE
from energyscope.runs.store import Run, load_run
from energyscope.runs.tree import energy_tree


def _named(differences: tuple[Difference, ...], name: str) -> Difference:
    return next(item for item in differences if item.name == name)


def _obstacles(comparison: RunComparison) -> dict[str, tuple[Any, Any]]:
    return {item.field: (item.baseline, item.other) for item in comparison.obstacles}


def _graded(run: Run, component: str, grade: str = "invalid") -> Run:
    """Give the work of every component of a name a grade, in the run's own table."""
    table = run.path / ENERGY_FILE
    frame = pd.read_csv(table)
    frame.loc[frame["component"].str.endswith(component), "dynamic_quality"] = grade
    frame.to_csv(table, index=False)
    return load_run(run.path)


def test_a_number_graded_invalid_gets_no_verdict(tmp_path: Path) -> None:
    """GIVEN a head whose work did not reach grade C in the cheaper run, THEN it alone has no verdict, and why."""
    first = build_run(tmp_path / "a", Eager())
    second = _graded(build_run(tmp_path / "b", Eager(scale=0.8)), "lm_head")
    pair = compare([first, second]).pairs[0]
    head = _named(pair.parts, "lm_head")
    (why,) = split(head.reason)
    assert (head.verdict, head.invalid) == ("not-comparable", True)
    assert (why.code, dict(why.values)["whose"]) == ("too-noisy", ["the other run"])
    assert pair.whole[0].verdict == "less"


def test_a_kind_is_invalid_when_more_than_a_tenth_of_it_is(tmp_path: Path) -> None:
    """GIVEN models of other depth, one invalid MLP of eight takes the verdict away, one of forty does not."""
    first = build_run(tmp_path / "a", Eager())
    for layers, verdict in ((8, "not-comparable"), (40, "more")):
        name = f"b{layers}"
        second = _graded(build_run(tmp_path / name, Eager(layers=layers, granularity="medium")), "h.1.mlp")
        assert _named(compare([first, second]).pairs[0].parts, "mlp").verdict == verdict


def test_a_token_and_a_flop_are_compared_across_shapes(tmp_path: Path) -> None:
    """GIVEN another batch size, THEN a pass has no verdict, a token and a FLOP have one, a parameter has none."""
    first = build_run(tmp_path / "a", Eager())
    second = build_run(tmp_path / "b", Eager(scale=1.5), workload={"batch_size": 2, "tokens_per_forward": 256})
    pair = compare([first, second]).pairs[0]
    assert pair.whole[0].verdict == "not-comparable"
    token = _named(pair.normalised, "work per token")
    assert token.verdict == "less"
    assert token.relative is not None
    assert token.relative.value == pytest.approx(0.75)
    assert token.baseline is not None
    assert pair.whole[0].baseline is not None
    assert token.baseline.value == pytest.approx(pair.whole[0].baseline.value / 128)
    assert _named(pair.normalised, "work per parameter").verdict == "not-comparable"
    assert _named(pair.normalised, "work per FLOP").unit == "pJ"


def test_a_flop_of_runs_that_did_not_record_executed_ones_has_only_a_reason(tmp_path: Path) -> None:
    """GIVEN two runs of before THEN energy per FLOP is unknown: executed FLOPs are not recorded."""
    runs = [build_run(tmp_path / name) for name in ("a", "b")]
    for run in runs:
        assert run.energy is not None
        del run.energy["executed_flops"]
    item = _named(compare(runs).pairs[0].normalised, "work per FLOP")
    assert (item.baseline, item.other, item.verdict) == (None, None, "not-comparable")
    assert [why.code for why in split(item.reason)] == ["no-energy-per-flop"]


def test_another_board_stands_in_the_way_of_a_token_too(tmp_path: Path) -> None:
    """Dividing by the work takes away what is fed, not the board."""
    second = build_run(tmp_path / "b", Shape(scale=0.5), device={"uuid": "GPU-2"})
    pair = compare([build_run(tmp_path / "a"), second]).pairs[0]
    assert {item.verdict for item in pair.normalised} == {"not-comparable"}


def test_layers_are_aligned_by_relative_depth(tmp_path: Path) -> None:
    """GIVEN 4 and 8 layers of the same cost, THEN each quarter's mean layer shows no or a small difference."""
    first = build_run(tmp_path / "a", Shape(granularity="medium"))
    second = build_run(tmp_path / "b", Shape(layers=8, granularity="medium"))
    layers = compare([first, second]).pairs[0].depth
    names = [item.name for item in layers if item.kind == "mlp"]
    assert names == [f"mlp, {part} quarter of the depth" for part in ("first", "second", "third", "last")]
    for item in layers:
        assert item.relative is not None
        assert item.relative.value == pytest.approx(1.0, abs=0.12)
    assert compare([first, build_run(tmp_path / "c", Shape(granularity="medium"))]).pairs[0].depth == ()


def test_a_mean_over_the_layers_has_no_depth(tmp_path: Path) -> None:
    """Layers are listed in order where each was measured, and not at all where all share one measurement."""
    assert build_run(tmp_path / "a").energy is not None
    run = build_run(tmp_path / "b", Shape(granularity="medium"))
    assert run.energy is not None
    tree = energy_tree(run.energy)
    assert [nodes[0].layer for nodes in layers_of(tree, "attention")] == [0, 1, 2, 3]
    fine = build_run(tmp_path / "c").energy
    assert fine is not None
    assert layers_of(energy_tree(fine), "attention.qkv") == []


def test_benchmarks_are_compared_cell_by_cell(tmp_path: Path) -> None:
    """GIVEN two benchmarks, THEN equal precisions and shapes are compared, and what only one has is named."""
    first = build_run(tmp_path / "a", Shape(profile=False, benchmark=Bench(precisions=("fp32", "fp16"))))
    second = build_run(tmp_path / "b", Shape(profile=False, benchmark=Bench(precisions=("fp32", "bf16"), seed=4)))
    benchmark = compare([first, second]).benchmarks[0]
    assert [(cell.precision, cell.batch_size, cell.sequence_length) for cell in benchmark.cells] == [
        ("fp32", 1, 128)
    ]
    shape = {"batch_size": 1, "sequence_length": 128}
    assert benchmark.alone == (
        {"run": "a", "precision": "fp16", **shape},
        {"run": "b", "precision": "bf16", **shape},
    )
    assert _named(benchmark.cells[0].rows, "work").verdict in {"less", "more", "no-difference-shown"}
    assert _named(benchmark.cells[0].rows, "energy per inference").reason == "eager-total"
    assert _named(benchmark.cells[0].rows, "perplexity").change is not None


def test_a_run_without_a_benchmark_has_none_to_compare(tmp_path: Path) -> None:
    assert compare([build_run(tmp_path / "a", Shape(benchmark=True)), build_run(tmp_path / "b")]).benchmarks == ()


def _passes(clock: float) -> list[dict[str, Any]]:
    return [{"index": 0, "idle_w": 118.0, "anchor_mj": 70.0, "clock_mhz": clock}]


def test_clocks_stand_in_the_way_of_the_same_work_only(tmp_path: Path) -> None:
    """GIVEN clocks 10 % apart, THEN the same work is not comparable; another precision is, with a note."""
    first = build_run(tmp_path / "a", passes=_passes(1980.0))
    same = compare([first, build_run(tmp_path / "b", passes=_passes(1782.0))]).pairs[0]
    assert _obstacles(same)["clocks"] == (1980.0, 1782.0)
    assert same.whole[0].verdict == "not-comparable"
    other = build_run(tmp_path / "c", settings={"precision": "bf16"}, passes=_passes(1782.0))
    varied = compare([first, other]).pairs[0]
    assert varied.obstacles == ()
    assert "clocks" in [item.field for item in varied.notes]
    assert compare([first, build_run(tmp_path / "d", passes=_passes(1975.0))]).pairs[0].obstacles == ()


def test_a_driver_noted_with_the_device_is_the_driver(tmp_path: Path) -> None:
    """GIVEN a driver noted with the device, and one with the environment, THEN they are compared."""
    with_device = {"device": {"driver": "590.1"}, "environment": {"driver": None}}
    second = build_run(tmp_path / "b", **with_device)
    assert _obstacles(compare([build_run(tmp_path / "a"), second]).pairs[0]) == {"driver": ("580.65", "590.1")}


def test_old_runs_were_launched_in_inference_mode(tmp_path: Path) -> None:
    """GIVEN a run from before and one from after, THEN eager joules are not comparable, those of graphs are."""
    for execution, amount in (("eager", 1), ("cuda-graph", 0)):
        old = build_run(tmp_path / f"old-{execution}", Shape(execution=execution))
        new = build_run(tmp_path / f"new-{execution}", Shape(execution=execution), settings={"new_tokens": 128})
        pair = compare([old, new]).pairs[0]
        assert [item.field for item in pair.obstacles].count("launching") == amount


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """GIVEN cells of two sweeps with one name, THEN each has its sweep's."""
    for sweep in ("one", "two"):
        (tmp_path / sweep).mkdir()
    pair = compare([build_run(tmp_path / sweep / "fp32-b1", Shape()) for sweep in ("one", "two")]).pairs[0]
    assert (pair.baseline, pair.other) == ("one/fp32-b1", "two/fp32-b1")


def test_a_run_and_itself_are_told_apart_by_a_number(tmp_path: Path) -> None:
    """GIVEN one directory twice, THEN the directory above, which tells nothing apart, is not in the names."""
    run = build_run(tmp_path / "a")
    pair = compare([run, run]).pairs[0]
    assert (pair.baseline, pair.other) == ("a (1)", "a (2)")


def test_the_number_of_gpus_is_a_condition_and_all_their_boards_are_one(tmp_path: Path) -> None:
    """GIVEN a model on two GPUs and on the first of them, THEN their number differs, and so do the boards."""
    spread = [{"place": "cuda:1", "uuid": "GPU-2"}, {"place": "cuda:0", "uuid": "GPU-1111"}]
    single = build_run(tmp_path / "a", device={"type": "cuda"})
    two = build_run(tmp_path / "b", device={"type": "cuda", "spread": spread})
    turned = build_run(tmp_path / "c", device={"type": "cuda", "spread": spread[::-1]})
    pair = compare([single, two]).pairs[0]
    assert [(note.baseline, note.other) for note in pair.notes if note.field == "device.gpus"] == [(1, 2)]
    boards = [obstacle.other for obstacle in pair.obstacles if obstacle.field == "device.uuid"]
    assert boards == ["GPU-1111, GPU-2"]
    assert compare([two, turned]).pairs[0].obstacles == ()


@pytest.mark.parametrize(("execution", "name"), [("eager", WORK), ("cuda-graph", PER_PASS)])
def test_the_gate_opens_only_for_what_is_shown(tmp_path: Path, execution: str, name: str) -> None:
    """GIVEN 8 % more, THEN a limit of 5 % is exceeded and one of 10 % is not; less never exceeds."""
    first, second = (
        build_run(tmp_path / run, Shape(scale=scale, execution=execution, graded_work=execution == "eager"))
        for run, scale in (("a", 1.0), ("b", 1.08))
    )
    (excess,) = exceeding(compare([first, second]), 0.05)
    assert (excess.run, excess.item.name, excess.share) == ("b", name, pytest.approx(0.08))
    assert exceeding(compare([first, second]), 0.10) == []
    assert exceeding(compare([second, first]), 0.0) == []


def test_the_gate_does_not_pass_what_cannot_be_judged(tmp_path: Path) -> None:
    """GIVEN another board, THEN it is an error that says so, and no pass."""
    second = build_run(tmp_path / "b", device={"uuid": "GPU-2"})
    with pytest.raises(RunError, match="b cannot be judged against a: other GPU board"):
        exceeding(compare([build_run(tmp_path / "a"), second]), 0.05)


@pytest.mark.parametrize(("written", "share"), [("5%", 0.05), ("5", 0.05), (" 2.5 % ", 0.025), ("0", 0.0)])
def test_percentages_are_read(written: str, share: float) -> None:
    assert allowed(written) == pytest.approx(share)


@pytest.mark.parametrize("written", ["", "much", "-3%", "5%%", "nan", "0.05"])
def test_what_is_no_percentage_is_refused(written: str) -> None:
    with pytest.raises(UsageError, match="5%"):
        allowed(written)


def test_a_generation_knows_no_mode_of_launching(tmp_path: Path) -> None:
    """GIVEN an old and a new traced generation, THEN launching is no obstacle: `generate` launched both itself."""
    runs = [build_inference(tmp_path / name, Inference(layers=2)) for name in "ab"]
    del runs[0].document["settings"]["new_tokens"]
    runs[0].document["scenes"] = []
    comparison = compare(runs)
    assert comparison.generations[0].obstacles == ()
    assert "launching" in _obstacles(comparison.pairs[0])
