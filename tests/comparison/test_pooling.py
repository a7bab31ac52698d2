"""The estimator against known numbers and a known variance; what is refused, left out and said."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from generation_builder import Inference, build_inference
from run_builder import Eager, Shape, build_run

import energyscope
from energyscope.comparison.pooling import WHOLE, random_effects
from energyscope.errors import UsageError
from energyscope.intervals import Interval
from energyscope.metering.interval import NORMAL_QUANTILE, student_t
from energyscope.reporting.comparison.pooled import pooled_table, sentences
from energyscope.runs.store import Run

# BCG vaccine against tuberculosis, 13 trials (Colditz and others, JAMA 271 (1994), 698-702): log risk ratios and
# their variances as in metafor's `dat.bcg`.
BCG = (
    (-0.8893, 0.3256), (-1.5854, 0.1946), (-1.3481, 0.4154), (-1.4416, 0.0200), (-0.2175, 0.0512),
    (-0.7861, 0.0069), (-1.6209, 0.2230), (0.0120, 0.0040), (-0.4694, 0.0564), (-1.3713, 0.0730),
    (-0.3394, 0.0124), (0.4459, 0.5325), (-0.0173, 0.0714),
)  # fmt: skip


def _value(mean: float, error: float) -> Interval:
    return Interval(mean, mean - NORMAL_QUANTILE * error, mean + NORMAL_QUANTILE * error)


def test_it_finds_the_published_variance_between_trials() -> None:
    """GIVEN the BCG trials THEN tau^2 and the mean are those published for Paule and Mandel's estimator.

    metafor gives tau^2 = 0.318 and a log risk ratio of -0.715 (`rma(yi, vi, data=dat.bcg, method="PM")`).
    """
    pooled, between = random_effects([_value(mean, math.sqrt(variance)) for mean, variance in BCG])
    assert between**2 == pytest.approx(0.318, abs=0.001)
    assert pooled.value == pytest.approx(-0.715, abs=0.001)


def test_equal_errors_give_the_student_interval_of_the_means() -> None:
    """GIVEN runs of equal errors that differ by far more THEN the interval is Student's of their values."""
    pooled, between = random_effects([_value(mean, 0.01) for mean in (9.0, 10.0, 11.0)])
    assert between == pytest.approx(math.sqrt(1 - 0.01**2))
    assert pooled.value == pytest.approx(10.0)
    assert pooled.above == pytest.approx(student_t(2) / math.sqrt(3))


def test_runs_that_agree_too_well_make_no_narrower_interval() -> None:
    """GIVEN runs that differ less than their errors THEN tau is 0 and the interval no narrower than without it."""
    pooled, between = random_effects([_value(mean, 1.0) for mean in (10.0, 10.01, 9.99)])
    assert between == 0
    assert pooled.above >= NORMAL_QUANTILE / math.sqrt(3)


@pytest.mark.parametrize(("runs", "between"), [(3, 0.0), (3, 2.0), (3, 20.0), (10, 2.0)])
def test_the_interval_covers_the_true_value(runs: int, between: float) -> None:
    """GIVEN runs of unequal errors and a known variance between them THEN about 95 % of intervals have the truth.

    With little variance between few runs, the safeguard makes them wider.
    """
    dice, times, covered = random.Random(3), 2000, 0
    for _ in range(times):
        errors = [dice.uniform(0.5, 1.5) for _ in range(runs)]
        values = [_value(dice.gauss(100.0, math.hypot(between, error)), error) for error in errors]
        covered += not random_effects(values)[0].excludes(100.0)
    assert covered / times > 0.935
    if between > 5 or runs > 5:
        assert covered / times < 0.975


@pytest.mark.parametrize(("execution", "basis"), [("eager", "dynamic"), ("cuda-graph", "total")])
def test_components_and_the_whole_pass_are_pooled(tmp_path: Path, execution: str, basis: str) -> None:
    """GIVEN three runs 2 % apart on two boards THEN each value lies between theirs, and both boards are told."""
    runs = [
        build_run(
            tmp_path / f"r{index}",
            Shape(scale=scale, execution=execution, graded_work=execution == "eager"),
            device={"uuid": board},
        )
        for index, (scale, board) in enumerate([(0.98, "GPU-1"), (1.0, "GPU-1"), (1.02, "GPU-2")])
    ]
    pooled = energyscope.pool(runs)
    assert set(pooled.boards.values()) == {"GPU-1", "GPU-2"}
    assert "GPU board" in pooled.differing
    (of,) = pooled.passes
    assert of.basis == basis
    assert of.whole.name == WHOLE
    assert of.whole.between_share == pytest.approx(0.02, rel=0.15)
    for part in (of.whole, *of.parts):
        values = [item.value for item in part.measured.values()]
        if part.value is not None:
            assert min(values) < part.value.value < max(values)
    assert sum(part.value is not None for part in of.parts) > 5


def test_what_is_not_valid_is_left_out_with_a_reason(tmp_path: Path) -> None:
    """GIVEN a component without a value in one run and too noisy in another THEN the others are pooled."""
    runs = [
        build_run(tmp_path / name, Shape(execution="cuda-graph", scale=scale))
        for name, scale in (("a", 1.0), ("b", 1.01), ("c", 1.02), ("d", 0.99))
    ]
    tables = [run.energy for run in runs]
    assert all(table is not None for table in tables)
    ends = [table.loc[table["component"] == "lm_head"].index[0] for table in tables if table is not None]
    for table in tables[:1]:
        table.loc[ends[0], ["energy_mj", "energy_ci_low_mj", "energy_ci_high_mj"]] = float("nan")
    tables[1].loc[ends[1], "quality"] = "invalid"
    (of,) = energyscope.pool(runs).passes
    head = next(part for part in of.parts if part.name == "lm_head")
    assert list(head.measured) == ["c", "d"]
    assert {reason.words for reason in head.reasons} == {"not measured in a", "too noisy in b"}
    assert head.value is not None
    assert head.measured["d"].value < head.value.value < head.measured["c"].value
    (of,) = energyscope.pool(runs[:3]).passes
    head = next(part for part in of.parts if part.name == "lm_head")
    assert (head.value, head.between, head.quality) == (None, None, None)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"settings": {"precision": "fp16"}}, "precision"),
        ({"model": {"name": "gpt2"}}, "model"),
        ({"workload": {"batch_size": 4}}, "batch size"),
        ({"workload": {"sequence_length": 7}}, "sequence length"),
        ({"device": {"name": "another GPU"}}, "device"),
        ({"sensor": {"meter": "nvidia-smi"}}, "meter"),
    ],
)
def test_other_settings_are_refused_by_name(
    tmp_path: Path, sections: dict[str, dict[str, object]], words: str
) -> None:
    """GIVEN a run under another setting THEN one line names both runs, the setting and both values."""
    first, other = build_run(tmp_path / "a", Eager()), build_run(tmp_path / "b", Eager(), **sections)
    with pytest.raises(UsageError, match=f"a and b differ in .*{words} \\(") as refused:
        energyscope.pool([first, other])
    assert "\n" not in str(refused.value)
    assert str(next(iter(next(iter(sections.values())).values()))) in str(refused.value)


def test_modelled_joules_are_not_pooled_with_measured_ones(tmp_path: Path) -> None:
    """GIVEN a modelled and a measured run, or another execution, THEN they are refused."""
    first = build_run(tmp_path / "a", Eager())
    for other in (Shape(modelled=True), Shape(execution="cuda-graph")):
        with pytest.raises(UsageError, match="differ in"):
            energyscope.pool([first, build_run(tmp_path / f"b-{other.execution}", other)])


def test_one_run_is_no_several(tmp_path: Path) -> None:
    """GIVEN one run, or one twice, THEN nothing is pooled."""
    run = build_run(tmp_path / "a", Eager())
    with pytest.raises(UsageError, match="at least two"):
        energyscope.pool([run])
    with pytest.raises(UsageError, match="twice"):
        energyscope.pool([run, run])


def test_a_copy_of_a_run_is_not_another_run(tmp_path: Path) -> None:
    """GIVEN a run and a copy of it under another name THEN it is refused: it would seem to be known better."""
    first = build_run(tmp_path / "a", Shape(execution="cuda-graph"))
    copy = shutil.copytree(first.path, tmp_path / "b")
    with pytest.raises(UsageError, match="beside a copy"):
        energyscope.pool([first, energyscope.load_run(copy)])


def test_no_limit_of_an_energy_is_negative(tmp_path: Path) -> None:
    """GIVEN two runs far apart, whose Student interval goes below 0, THEN it ends at 0."""
    runs = [
        build_run(tmp_path / name, Shape(execution="cuda-graph", scale=scale))
        for name, scale in (("a", 1.0), ("b", 2.0))
    ]
    (of,) = energyscope.pool(runs).passes
    whole = of.parts[0].value
    assert whole is not None
    assert (whole.low, whole.value > 0) == (0.0, True)


def test_runs_may_be_named(tmp_path: Path) -> None:
    """GIVEN paths, one by one or in a list, THEN they are read, by `pool` as by `compare`."""
    runs = [build_run(tmp_path / name, Shape(scale=scale)) for name, scale in (("a", 1.0), ("b", 1.02))]
    paths = [run.path for run in runs]
    assert energyscope.pool(paths) == energyscope.pool(runs) == energyscope.pool(*paths)
    for given in ([[str(path) for path in paths]], paths, runs):
        assert energyscope.compare(*given).pairs[0].other == "b"


@pytest.mark.parametrize("command", [energyscope.compare, energyscope.pool])
def test_what_is_no_run_is_named(tmp_path: Path, command: Callable[..., object]) -> None:
    """GIVEN one name, or a thing that is no run, THEN a usage error says what to give."""
    with pytest.raises(UsageError, match="at least two runs"):
        command("ab")
    run = build_run(tmp_path / "a", Shape(layers=1))
    with pytest.raises(UsageError, match=r"3\.5 is no run: give (compare|pool) runs"):
        command(run, 3.5)


def test_only_boards_of_runs_that_count_are_told(tmp_path: Path) -> None:
    """GIVEN a third run, on another board, without a valid total THEN the line is of one board, and says so."""
    runs = [
        build_run(tmp_path / name, Shape(execution="cuda-graph", scale=scale), device={"uuid": board})
        for name, scale, board in (("a", 1.0, "GPU-1"), ("b", 1.01, "GPU-1"), ("c", 1.02, "GPU-2"))
    ]
    table = runs[2].energy
    assert table is not None
    table.loc[table["component"] == "model", "quality"] = "invalid"
    lines = list(sentences(energyscope.pool(runs)))
    assert "over 2 of 3 runs on 1 board" in lines[0]
    assert lines[1].startswith("All on one board")


def _inferences(folder: Path, *shapes: Inference) -> list[Run]:
    return [build_inference(folder / f"r{number}", shape) for number, shape in enumerate(shapes)]


SHORT = Inference(layers=2, contexts=(128,))


def test_generated_tokens_are_pooled(tmp_path: Path) -> None:
    """GIVEN three runs whose generations took 0, 3 and 6 % more THEN a token takes what lies between."""
    runs = _inferences(tmp_path, *(replace(SHORT, seed=at, disagree=1 + 0.03 * at) for at in range(3)))
    pooled = energyscope.pool(runs)
    token = pooled.generation[0]
    measured = [item.value for item in token.measured.values()]
    assert token.name == "energy per generated token"
    assert token.value is not None
    assert min(measured) < token.value.value < max(measured)
    assert token.between_share == pytest.approx(0.03, rel=0.1)
    assert any(line.startswith("A generated token takes") and "over 3 runs" in line for line in sentences(pooled))
    assert [row["phase"] for row in pooled_table(pooled).rows][-len(pooled.generation) :] == [
        "generation" for _ in pooled.generation
    ]


def test_one_run_without_a_generation_leaves_none_to_pool(tmp_path: Path) -> None:
    """GIVEN a run without a generation beside one that has it THEN passes are pooled alone."""
    pooled = energyscope.pool(_inferences(tmp_path, SHORT, replace(SHORT, seed=6, generation=False)))
    assert pooled.passes
    assert not pooled.generation


def test_other_generations_are_refused(tmp_path: Path) -> None:
    """GIVEN a generation of another length THEN it is refused by name, as other settings are."""
    with pytest.raises(UsageError, match=r"differ in .*new tokens \(128, 64\)"):
        energyscope.pool(_inferences(tmp_path, SHORT, replace(SHORT, seed=6, new_tokens=64)))
