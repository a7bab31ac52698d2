"""Energy by block, from the model down and inside one layer: sums that add up, and nothing scaled."""

from __future__ import annotations

import pytest
from run_builder import Shape, build_run

from energyscope.intervals import Interval, total_of_same
from energyscope.reporting.charts.data import shown_columns, spec
from energyscope.reporting.charts.tree import flow
from energyscope.reporting.run import parts
from energyscope.reporting.run.report import Report


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return Report(build_run(tmp_path_factory.mktemp("parts") / "run", Shape(layers=3))).main.tree


def by_kind(table):
    return {row["kind"]: row for row in table.rows}


def test_blocks_overhead_and_the_rest_add_up_to_the_model(tree):
    """GIVEN a whole tree, THEN energy, work, idle and shares of its blocks add up to the model's, to rounding."""
    table = parts.blocks(tree, modelled=False)
    assert sum(row["energy"].value for row in table.rows) == pytest.approx(tree.model_energy.value)
    assert sum(row["share"].value for row in table.rows) == pytest.approx(1.0)
    assert sum(row["work"].value for row in table.rows) == pytest.approx(tree.root.number("dynamic_mj"))
    assert sum(row["idle"].value for row in table.rows) == pytest.approx(tree.root.number("static_mj"))


def test_blocks_are_what_layers_are_made_of_each_once(tree):
    """GIVEN three layers, THEN attention and MLP are counted three times, and no sub-component appears."""
    rows = by_kind(parts.blocks(tree, modelled=False))
    assert {kind: rows[kind]["count"] for kind in ("attention", "mlp", "norm", "embedding")} == {
        "attention": 3, "mlp": 3, "norm": 7, "embedding": 1,
    }  # fmt: skip
    assert not any("." in kind or kind == "layer" for kind in rows)
    sizes = [row["energy"].value for row in parts.blocks(tree, modelled=False).rows if not row.get("rest")]
    assert sizes == sorted(sizes, reverse=True)


def test_the_flow_adds_up_at_every_level(tree):
    """GIVEN the flow's rows in depth-first order, THEN each row is the sum of those right below it."""
    rows = parts.from_model_down(tree, modelled=False).rows
    assert rows[0]["depth"] == 0
    for at, row in enumerate(rows):
        below = []
        for other in rows[at + 1 :]:
            if other["depth"] <= row["depth"]:
                break
            below += [other["energy"].value] if other["depth"] == row["depth"] + 1 else []
        if below:
            assert sum(below) == pytest.approx(row["energy"].value)


def test_one_layer_is_the_mean_of_all(tree):
    """GIVEN layers, THEN the layer that is shown is their mean, and parts with one kind are told by name."""
    rows = parts.one_layer(tree, modelled=False).rows
    layers = [node.energy.value for node in tree.nodes if node.level == "layer"]
    assert rows[0]["energy"].value == pytest.approx(sum(layers) / 3)
    assert [row["part"] for row in rows if row["kind"] == "norm"] == ["norm (ln_2)", "norm (ln_1)"]
    assert {row["kind"] for row in rows if row["depth"] == 2} >= {"attention.core", "mlp.up", "overhead"}


def test_negative_unexplained_energy_stays_negative(tmp_path):
    """GIVEN parts that exceed the model, THEN what is unexplained is below 0, and the sum still holds."""
    tree = Report(build_run(tmp_path / "run", Shape(unexplained_share=-0.05))).main.tree
    table = parts.blocks(tree, modelled=False)
    assert by_kind(table)["unexplained"]["energy"].value < 0
    assert sum(row["energy"].value for row in table.rows) == pytest.approx(tree.model_energy.value)


def test_without_overhead_the_rest_is_not_attributed(tmp_path):
    """GIVEN a run that did not measure overhead, THEN the rest is called so, and no overhead is invented."""
    table = parts.blocks(Report(build_run(tmp_path / "run", Shape(glue=False))).main.tree, modelled=False)
    assert "other" in by_kind(table)
    assert not {"overhead", "unexplained"} & set(by_kind(table))


def test_a_part_known_to_no_better_than_ten_percent_is_noisy(tree):
    """GIVEN wide and narrow intervals, THEN only sums beyond 10 % are marked, whatever grades their parts have."""
    for node in tree.nodes:
        half = 0.2 if node.kind == "attention" else 0.01
        node.energy = node.energy and Interval(
            node.energy.value, node.energy.value * (1 - half), node.energy.value * (1 + half)
        )
    rows = by_kind(parts.blocks(tree, modelled=False))
    assert rows["attention"]["noisy"]
    assert not rows["mlp"]["noisy"]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    run = build_run(tmp_path_factory.mktemp("parts") / "run", Shape(layers=3, graded_work=True))
    return Report(run).main.tree


def test_an_eager_run_is_told_by_the_work_of_its_blocks(graded):
    """GIVEN graded work, THEN blocks are ranked by work, with share and grade; errors of a sum add up, too."""
    table = parts.blocks(graded, modelled=False)
    rows = by_kind(table)
    assert [column.key for column in table.columns][:4] == ["part", "work", "work_share", "grade"]
    assert "noisy" not in {column.key for column in table.columns}
    mlps = [node.dynamic for node in graded.nodes if node.kind == "mlp"]
    assert rows["mlp"]["work"] == total_of_same(mlps)
    assert rows["mlp"]["work_share"] == parts.share_of(total_of_same(mlps), graded.root.dynamic)
    assert sum(row["work_share"].value for row in table.rows) == pytest.approx(1.0)
    sizes = [row["work"].value for row in table.rows if not row.get("rest")]
    assert sizes == sorted(sizes, reverse=True)


def test_the_share_of_one_component_is_that_of_its_row(graded):
    """GIVEN a share that was compared pass by pass, THEN it stands there and not the wider ratio of both sums."""
    head = next(node for node in graded.nodes if node.kind == "lm_head")
    share = by_kind(parts.blocks(graded, modelled=False))["lm_head"]["work_share"]
    assert (share.low, share.high) == (head.number("dynamic_share_ci_low"), head.number("dynamic_share_ci_high"))
    of_sums = parts.share_of(head.dynamic, graded.root.dynamic)
    assert share.high - share.low < 0.5 * (of_sums.high - of_sums.low)


def test_a_sum_of_work_is_graded_by_its_own_interval(graded):
    """GIVEN MLPs known to 1.2 % each and norms to 15 %, THEN so are their sums: all have idle power's error."""
    rows = by_kind(parts.blocks(graded, modelled=False))
    assert (rows["mlp"]["grade"], rows["lm_head"]["grade"], rows["norm"]["grade"]) == ("B", "B", "invalid")
    assert rows["norm"]["noisy"]
    assert rows["overhead"].get("grade") is None
    assert rows["overhead"]["work"].above == pytest.approx(0.1 * rows["overhead"]["work"].value)
    assert rows["unexplained"]["work"].known


def test_a_disturbed_component_lowers_the_grade_of_its_sum(tmp_path):
    """GIVEN an MLP of three whose narrow work was disturbed, THEN all of them are no better than it is."""
    tree = Report(build_run(tmp_path / "run", Shape(layers=3, graded_work=True))).main.tree
    next(node for node in tree.nodes if node.kind == "mlp").row["dynamic_quality"] = "C"
    assert by_kind(parts.blocks(tree, modelled=False))["mlp"]["grade"] == "C"


@pytest.mark.parametrize(
    "shape", [Shape(), Shape(graded_work=True, execution="cuda-graph")], ids=["earlier run", "CUDA graph"]
)
def test_all_other_runs_are_told_by_all_their_energy(tmp_path, shape):
    """GIVEN no graded work, or a CUDA graph, THEN blocks have energy first, and work without an interval."""
    tree = Report(build_run(tmp_path / "run", shape)).main.tree
    table = parts.blocks(tree, modelled=False)
    assert [column.key for column in table.columns][:5] == ["part", "energy", "share", "work", "idle"]
    assert not any(row["work"].known or row["idle"].known for row in table.rows)
    assert {row.get("grade") for row in table.rows} == {None}


def test_parts_say_what_limited_them(tmp_path):
    """GIVEN a board with counters, THEN each kind has its limit, in tooltips too; overhead has none."""
    tree = Report(build_run(tmp_path / "run", Shape(activity=True))).main.tree
    table = parts.blocks(tree, modelled=False)
    rows = by_kind(table)
    assert (rows["mlp"]["limited_by"], rows["norm"]["limited_by"]) == ("tensor cores", "waiting")
    assert rows["overhead"].get("limited_by") is None
    assert "limited_by" in [column.key for column in shown_columns(table)]


def test_like_components_are_limited_as_they_are_together(tmp_path):
    """GIVEN norms of which one takes much longer and reads memory, THEN memory limits them over their time."""
    tree = Report(build_run(tmp_path / "run", Shape(activity=True))).main.tree
    norms = [node for node in tree.nodes if node.kind == "norm"]
    norms[0].row.update(time_us=99 * sum(node.number("time_us") for node in norms[1:]), dram_activity=0.8)
    together = parts.activity(norms)
    assert together.dram == pytest.approx(0.8 * 0.99 + 0.3 * 0.01)
    assert by_kind(parts.blocks(tree, modelled=False))["norm"]["limited_by"] == "memory"


def test_one_component_without_counters_leaves_the_limit_of_all_unknown(tmp_path):
    """GIVEN one norm whose activity is unknown, THEN no word is made of the others'; nor is any in older runs."""
    tree = Report(build_run(tmp_path / "run", Shape(activity=True))).main.tree
    next(node for node in tree.nodes if node.kind == "norm").row.update(dram_activity=None)
    assert by_kind(parts.blocks(tree, modelled=False))["norm"]["limited_by"] is None
    table = parts.blocks(Report(build_run(tmp_path / "older")).main.tree, modelled=False)
    assert "limited_by" not in [column.key for column in table.filled().columns]


def test_modelled_joules_say_so_and_have_no_parts(tmp_path):
    """GIVEN modelled energy, THEN the column names it, and work and idle are unknown, not 0."""
    table = parts.blocks(Report(build_run(tmp_path / "run", Shape(modelled=True))).main.tree, modelled=True)
    assert "MODELLED" in table.column("energy").title
    assert {row["work"] for row in table.rows} == {None}
    assert [column.key for column in table.filled().columns if column.key in {"work", "idle"}] == []


def test_a_share_of_nothing_is_unknown():
    """GIVEN a model without energy, THEN there is no share."""
    assert parts.share_of(Interval(1.0), None) is None
    assert parts.share_of(Interval(1.0), Interval(0.0)) is None
    assert parts.share_of(Interval(-1.0, -2.0, 0.5), Interval(10.0, 9.0, 11.0)).low < 0


def test_time_stands_before_modelled_joules(tmp_path):
    """GIVEN a modelled run, THEN each part's time is its energy over the watts, and the flow is drawn of it."""
    report = Report(build_run(tmp_path / "run", Shape(layers=2, modelled=True)))
    tree = report.main.tree
    table = parts.blocks(tree, modelled=True)
    assert [column.key for column in table.columns[:3]] == ["part", "time", "energy"]
    assert sum(row["time"].value for row in table.rows) == pytest.approx(tree.root.number("time_us"))
    assert {round(row["energy"].value / row["time"].value, 9) for row in table.rows} == {
        round(tree.model_energy.value / tree.root.number("time_us"), 9)
    }
    chart = spec(flow(parts.from_model_down(tree, modelled=True), "time"))
    labels = [row["long"] for rows in chart["datasets"].values() for row in rows if "long" in row]
    assert labels
    assert all("J" not in label for label in labels)
