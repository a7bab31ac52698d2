from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from run_builder import Eager, Shape, build_run

from energyscope.comparison.compare import compare
from energyscope.comparison.conditions import value_of
from energyscope.comparison.difference import Difference
from energyscope.comparison.parts import topmost
from energyscope.errors import UsageError
from energyscope.reasons import split
from energyscope.reporting.comparison.source import ComparedRuns
from energyscope.runs.method import REVISION
from energyscope.runs.tree import EnergyTree, Node


def _named(differences: tuple[Difference, ...], name: str) -> Difference:
    return next(item for item in differences if item.name == name)


@pytest.mark.parametrize(("execution", "name"), [("eager", "work"), ("cuda-graph", "energy per forward pass")])
def test_less_energy_is_shown_as_less(tmp_path: Path, execution: str, name: str) -> None:
    """GIVEN two runs of one model on one board, WHEN the second needs a tenth less, THEN the verdict is less.

    Of eager runs, that of work; in CUDA graphs, that of all energy. It stands first.
    """
    first, second = (
        build_run(tmp_path / run, Shape(scale=scale, execution=execution, graded_work=execution == "eager"))
        for run, scale in (("a", 1.0), ("b", 0.9))
    )
    pair = compare([first, second]).pairs[0]
    energy = pair.whole[0]
    assert energy.name == name
    assert energy.verdict == "less"
    assert energy.relative is not None
    assert energy.relative.value == pytest.approx(0.9)
    assert energy.change is not None
    assert energy.change.excludes(0.0)
    assert pair.alignment == "component"
    assert {part.verdict for part in pair.parts if not part.invalid} == {"less"}
    assert compare([second, first]).pairs[0].whole[0].verdict == "more"


def test_a_difference_within_the_intervals_is_not_shown(tmp_path: Path) -> None:
    """GIVEN a second run 0.3 % costlier with intervals of about 0.8 %, THEN no difference is shown."""
    first, second = build_run(tmp_path / "a", Eager()), build_run(tmp_path / "b", Eager(scale=1.003))
    energy = compare([first, second]).pairs[0].whole[0]
    assert energy.verdict == "no-difference-shown"
    assert energy.reason == "difference-includes-zero"


@pytest.mark.parametrize(
    ("energy", "idle", "verdict"),
    [
        (0.02, 0.02, "no-difference-shown"),  # idle power made all of it
        (0.02, 0.0, "more"),
        (-0.02, 0.02, "less"),  # although the board took more at rest
        (-0.02, -0.02, "no-difference-shown"),
    ],
)
def test_what_idle_power_makes_of_an_energy_is_not_the_models(
    tmp_path: Path, energy: float, idle: float, verdict: str
) -> None:
    """GIVEN a run of other energy and other idle power THEN only what idle power does not explain is shown.

    Of the model, of each component and block, and per token.
    """
    runs = first, second = [build_run(tmp_path / run, Shape(execution="cuda-graph")) for run in ("a", "b")]
    assert second.energy is not None
    whole = second.energy["energy_mj"].copy()
    for column in ("energy_mj", "energy_ci_low_mj", "energy_ci_high_mj"):
        second.energy[column] += energy * whole
    second.energy["static_mj"] += idle * whole
    second.energy["dynamic_mj"] += (energy - idle) * whole
    pair = compare([first, second]).pairs[0]
    blocks = [
        item for item in ComparedRuns.of(runs).others[0].workloads[0].blocks if item.kind in {"mlp", "lm_head"}
    ]
    told = [pair.whole[0], pair.normalised[0], *(part for part in pair.parts if part.baseline), *blocks]
    assert len(blocks) == 2
    assert {item.verdict for item in told if not item.invalid} == {verdict}
    explained = verdict == "no-difference-shown"
    assert {item.reason for item in told if not item.invalid} == ({"as-idle-power"} if explained else {None})


def test_another_boards_idle_power_is_no_drift(tmp_path: Path) -> None:
    """GIVEN a second board of higher idle power THEN the change is as measured, without an allowance for that."""
    first, same = (build_run(tmp_path / run, Shape(execution="cuda-graph")) for run in ("a", "b"))
    other = build_run(tmp_path / "c", Shape(execution="cuda-graph"), device={"uuid": "GPU-2222"})
    for run in (same, other):
        assert run.energy is not None
        run.energy["static_mj"] *= 1.2
    drifted, apart = (compare([first, run]).pairs[0].whole[0].change for run in (same, other))
    assert drifted is not None
    assert apart is not None
    assert apart.above == pytest.approx(apart.below, rel=0.1)
    assert drifted.below > 2 * apart.below


@pytest.mark.parametrize(
    ("section", "change", "field", "values"),
    [
        ("device", {"uuid": "GPU-2222"}, "device.uuid", ("GPU-1111", "GPU-2222")),
        ("environment", {"driver": "590.1"}, "driver", ("580.65", "590.1")),
        ("settings", {"sampling": "triggered"}, "settings.sampling", ("replay", "triggered")),
        ("workload", {"sequence_length": 256}, "workload.sequence_length", (128, 256)),
        ("sensor", {"meter": "nvml-power"}, "sensor.meter", ("nvml", "nvml-power")),
        ("device", {"power_limit_w": None}, "device.power_limit_w", (700.0, None)),
    ],
)
def test_other_conditions_are_not_comparable(
    tmp_path: Path, section: str, change: dict[str, object], field: str, values: tuple[object, object]
) -> None:
    """GIVEN another board, driver, sampling, workload or meter, THEN joules get a reason and no verdict."""
    first, second = build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.5), **{section: change})
    pair = compare([first, second]).pairs[0]
    (obstacle,) = pair.obstacles
    assert (obstacle.field, obstacle.baseline, obstacle.other) == (field, *values)
    assert {item.verdict for item in pair.parts} == {"not-comparable"}
    (why,) = split(pair.whole[0].reason)
    assert (why.code, why.values["names"]) == ("other-conditions", [obstacle.name])


def test_executions_are_compared_with_a_note(tmp_path: Path) -> None:
    """GIVEN eager against CUDA graphs on one board, THEN there is a verdict, and a note on what differs."""
    first = build_run(tmp_path / "a", Eager())
    second = build_run(tmp_path / "b", Eager(scale=0.5, execution="cuda-graph"), method=REVISION)
    pair = compare([first, second]).pairs[0]
    assert pair.obstacles == ()
    assert [(item.field, item.baseline, item.other) for item in pair.notes] == [
        ("settings.execution", "eager", "cuda-graph")
    ]
    assert pair.whole[0].verdict == "less"


def test_runs_from_before_there_was_a_choice_of_sampling_are_of_replay(tmp_path: Path) -> None:
    """GIVEN an older run that names no sampling, THEN that is no obstacle to comparing it with a replayed one."""
    pair = compare([build_run(tmp_path / "a", Shape(old=True)), build_run(tmp_path / "b")]).pairs[0]
    assert pair.obstacles == ()


def test_predictions_are_compared_across_boards(tmp_path: Path) -> None:
    """GIVEN another board, THEN perplexity is compared all the same, since the board does not change it."""
    evaluation = {"source": "tiny-gpt2 held-out", "examples": 200, "baseline": {"perplexity": 7.0}}
    second = build_run(tmp_path / "b", device={"uuid": "GPU-2"}, workload={"evaluation": evaluation})
    item = _named(compare([build_run(tmp_path / "a"), second]).pairs[0].whole, "perplexity")
    assert item.change is not None
    assert item.change.value == pytest.approx(0.58)
    assert item.reason == "interval-unknown"


def test_other_models_are_aligned_by_kind(tmp_path: Path) -> None:
    """GIVEN models of different depth, THEN kinds are compared, each added up over its components."""
    first, second = build_run(tmp_path / "a", Eager()), build_run(tmp_path / "b", Eager(layers=8))
    pair = compare([first, second]).pairs[0]
    assert pair.alignment == "kind"
    up = _named(pair.parts, "mlp.up")
    assert up.relative is not None
    assert up.relative.value == pytest.approx(2.0)
    assert up.verdict == "more"


def test_a_parent_and_its_child_of_one_kind_count_once() -> None:
    """GIVEN an embedding inside an embedding, THEN only the outer one adds to the kind: it holds the other."""
    layout = [("model", "model", None), ("embeddings", "embedding", "model"), ("words", "embedding", "embeddings")]
    nodes = [Node(name, kind, None, "block", parent, {}, None, None) for name, kind, parent in layout]
    for parent, child in itertools.pairwise(nodes):
        parent.children.append(child)
    tree = EnergyTree((), tuple(nodes), nodes[0])
    assert [node.name for node in topmost(tree, "embedding")] == ["embeddings"]


def test_a_kind_in_one_run_alone_is_not_comparable(tmp_path: Path) -> None:
    """GIVEN a fine and a medium run, THEN kinds of both are compared and sub-components of one are not."""
    pair = compare([build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(granularity="medium"))]).pairs[0]
    assert _named(pair.parts, "attention").change is not None
    missing = _named(pair.parts, "attention.qkv")
    assert (missing.verdict, missing.reason) == ("not-comparable", "in-one-run")
    assert missing.change is None


def test_modelled_against_modelled_says_that_it_compares_time(tmp_path: Path) -> None:
    """GIVEN two modelled runs, THEN they are comparable, with a note on what a joule means there."""
    shape = Shape(modelled=True)
    pair = compare([build_run(tmp_path / "a", shape), build_run(tmp_path / "b", shape)]).pairs[0]
    assert not pair.obstacles
    assert [item.code for item in pair.remarks] == ["both-modelled"]
    measured = compare([build_run(tmp_path / "c"), build_run(tmp_path / "d", shape)]).pairs[0]
    assert ("sensor.meter", "nvml", "modelled") in [
        (item.field, item.baseline, item.other) for item in measured.obstacles
    ]


def test_largest_first(tmp_path: Path) -> None:
    """The parts are ranked by the size of their change, those without one last."""
    pair = compare([build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(layers=8))]).pairs[0]
    sizes = [abs(part.change.value) for part in pair.largest if part.change]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("executions", "basis", "total"),
    [
        (("eager", "eager"), "dynamic", "eager-total"),
        (("eager", "cuda-graph"), "dynamic", "eager-total"),
        (("cuda-graph", "cuda-graph"), "total", None),
    ],
)
def test_eager_totals_are_not_comparable(
    tmp_path: Path, executions: tuple[str, str], basis: str, total: str | None
) -> None:
    """GIVEN an eager run, THEN total and idle energy have the host's time as reason, and work has a verdict."""
    shape = Eager if total else Shape
    scales = zip(executions, (1.0, 0.9), strict=True)
    runs = [
        build_run(tmp_path / str(place), shape(scale=scale, execution=execution), method=REVISION)
        for place, (execution, scale) in enumerate(scales)
    ]
    pair = compare(runs).pairs[0]
    assert (pair.basis, pair.whole[0].verdict) == (basis, "less")
    assert pair.whole[0].name == ("work" if total else "energy per forward pass")
    if total:
        reasons = {_named(pair.whole, name).reason for name in ("energy per forward pass", "idle energy")}
        assert reasons == {total}
    assert [remark.code for remark in pair.remarks].count("eager-total") == bool(total)
    assert bool(pair.shares) is (basis == "dynamic")


def test_shares_of_work_are_compared_across_boards(tmp_path: Path) -> None:
    """GIVEN eager runs on two boards, one with a costlier head, THEN its joules have no verdict and its share has.

    The calibration of a sensor cancels in a share. Another driver stands in its way all the same.
    """
    runs = [build_run(tmp_path / "a", Eager()), build_run(tmp_path / "b", Eager(), device={"uuid": "GPU-2"})]
    assert runs[1].energy is not None
    head = runs[1].energy["component"] == "lm_head"
    columns = runs[1].energy.columns
    chosen = [name for name in columns if name.startswith("dynamic_") and "quality" not in name]
    runs[1].energy.loc[head, chosen] *= 1.2
    pair = compare(runs).pairs[0]
    work, share = _named(pair.parts, "lm_head"), _named(pair.shares, "lm_head")
    assert work.relative is not None
    assert work.relative.value == pytest.approx(1.2)
    assert [why.values["names"] for why in split(work.reason)] == [["GPU board"]]
    assert (share.verdict, share.unit) == ("more", "share")
    assert {item.verdict for item in pair.shares} == {"more", "no-difference-shown"}
    other = build_run(tmp_path / "c", Eager(), device={"uuid": "GPU-2"}, environment={"driver": "590.1"})
    assert {item.verdict for item in compare([runs[0], other]).pairs[0].shares} == {"not-comparable"}


def test_work_and_shares_of_older_runs_have_no_interval(tmp_path: Path) -> None:
    """GIVEN a run from before work had intervals, THEN its shares are quotients, and no difference is shown."""
    pair = compare([build_run(tmp_path / "a", Shape(old=True)), build_run(tmp_path / "b", Eager())]).pairs[0]
    head = _named(pair.shares, "lm_head")
    assert head.baseline is not None
    assert head.other is not None
    assert (head.baseline.known, head.other.known) == (False, True)
    assert head.baseline.value == pytest.approx(head.other.value)
    assert {item.verdict for item in (*pair.parts, *pair.shares)} == {"not-comparable"}
    assert _named(pair.parts, "lm_head").reason == head.reason == "interval-unknown"


def test_errors_of_work_do_not_average_out_in_a_sum(tmp_path: Path) -> None:
    """GIVEN MLPs measured one by one to 1.2 %, THEN so is their sum: all have the idle power's error."""
    shapes = (Eager(granularity="medium"), Eager(layers=8, granularity="medium"))
    mlp = _named(
        compare([build_run(tmp_path / str(at), shape) for at, shape in enumerate(shapes)]).pairs[0].parts, "mlp"
    )
    assert mlp.baseline is not None
    assert mlp.baseline.above / mlp.baseline.value == pytest.approx(0.012)


def test_one_run_is_not_enough(tmp_path: Path) -> None:
    """GIVEN one run, THEN a usage error says how to call it."""
    with pytest.raises(UsageError, match="at least two runs"):
        compare([build_run(tmp_path / "a")])


def test_runs_that_replayed_and_runs_that_timed_in_the_model_differ():
    """How components were measured is a condition: alone they take less than in the model."""
    values = [value_of({"scene": scene}, "settings.sampling") for scene in ({"in_model": True}, {}, None)]
    assert values == ["in the model", "replay", "replay"]
