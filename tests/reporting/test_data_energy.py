from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data.energy import energy_by_block, energy_by_kind, heatmap_cells, row_labels, share_of
from energyscope.reporting.data.flow import energy_flow, flow_layout
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import EnergyTree, energy_tree


def _tree(path: Path, shape: Shape | None = None) -> EnergyTree:
    frame = build_run(path / "run", shape).energy
    assert frame is not None
    return energy_tree(frame)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(),
        Shape(granularity="medium"),
        Shape(granularity="coarse"),
        Shape(glue=False),
        Shape(unexplained_share=-0.1),
    ],
)
def test_kinds_glue_and_unexplained_add_up_to_the_model(tmp_path: Path, shape: Shape) -> None:
    """GIVEN a run at any granularity, with or without glue, THEN the bars add up to the measured model."""
    tree = _tree(tmp_path, shape)
    kinds = energy_by_kind(tree)
    assert tree.model_energy is not None
    assert sum(entry.energy.value for entry in kinds) == pytest.approx(tree.model_energy.value)
    roles = [entry.role for entry in kinds if entry.role != "component"]
    assert roles == (["glue", "unexplained"] if shape.glue else ["unattributed"])
    shares = [entry.share.value for entry in kinds if entry.share]
    assert sum(shares) == pytest.approx(1.0)
    for column in ("static_mj", "dynamic_mj"):
        parts = [getattr(entry, column) for entry in kinds]
        assert tree.root is not None
        assert sum(parts) == pytest.approx(tree.root.number(column)), column


def test_what_is_unexplained_has_parts_of_its_own(tmp_path: Path) -> None:
    """GIVEN a model that waits longer than its parts do, THEN the rest is static, and its dynamic part below 0."""
    frame = build_run(tmp_path / "run", Shape(granularity="coarse")).energy
    assert frame is not None
    plain = {entry.kind: entry for entry in energy_by_kind(energy_tree(frame))}["unexplained"]
    root = frame["level"] == "model"
    frame.loc[root, "static_mj"] += 1e3
    frame.loc[root, "dynamic_mj"] -= 1e3
    kinds = {entry.kind: entry for entry in energy_by_kind(energy_tree(frame))}
    assert plain.static_mj is not None
    assert kinds["unexplained"].static_mj == pytest.approx(plain.static_mj + 1e3)
    assert kinds["unexplained"].work_mj is None
    frame.loc[frame["kind"] == "lm_head", "static_mj"] = None
    assert {entry.kind: entry for entry in energy_by_kind(energy_tree(frame))}["unexplained"].static_mj is None


def test_kinds_are_ordered_by_energy(tmp_path: Path) -> None:
    """The largest kind comes first; glue and unexplained come last."""
    kinds = energy_by_kind(_tree(tmp_path))
    values = [entry.energy.value for entry in kinds if entry.role == "component"]
    assert values == sorted(values, reverse=True)
    assert kinds[0].kind == "lm_head"


def test_blocks_are_the_same_at_any_granularity(tmp_path: Path) -> None:
    """GIVEN fine, medium and coarse runs, THEN blocks are measured wholes; a coarse one has layers."""
    blocks = {
        name: {entry.kind: entry for entry in energy_by_block(_tree(tmp_path / name, Shape(granularity=name)))}
        for name in ("fine", "medium", "coarse")
    }
    assert set(blocks["fine"]) == set(blocks["medium"]) == {"embedding", "attention", "mlp", "norm", "lm_head"}
    assert "layer" in blocks["coarse"]
    tree = _tree(tmp_path / "own", Shape(granularity="fine"))
    own = [node.energy.value for node in tree.nodes if node.kind == "mlp" and node.energy]
    mlp = next(entry for entry in energy_by_block(tree) if entry.kind == "mlp")
    assert (mlp.count, mlp.energy.value) == (len(own), pytest.approx(sum(own)))


def test_a_layer_stands_for_what_was_not_measured_in_it(tmp_path: Path) -> None:
    """GIVEN layers of which no block has a value, THEN these layers themselves are added up."""
    frame = build_run(tmp_path / "run", Shape(granularity="medium")).energy
    assert frame is not None
    inside = frame["layer"].notna() & (frame["level"] != "layer")
    frame.loc[inside, "energy_mj"] = None
    blocks = {entry.kind: entry.count for entry in energy_by_block(energy_tree(frame))}
    assert blocks["layer"] == frame["level"].eq("layer").sum()
    assert "mlp" not in blocks


def test_a_component_without_a_value_is_counted_and_not_in_the_sum(tmp_path: Path) -> None:
    """GIVEN a norm that was not measured, THEN eight of nine are added up and one is said to be missing."""
    frame = build_run(tmp_path / "run").energy
    assert frame is not None
    frame.loc[frame["component"] == "transformer.ln_f", "energy_mj"] = None
    norm = next(entry for entry in energy_by_kind(energy_tree(frame)) if entry.kind == "norm")
    assert (norm.count, norm.missing) == (8, 1)


def test_static_and_dynamic_are_unknown_on_the_modelled_meter(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN no kind has a static or dynamic part."""
    kinds = energy_by_kind(_tree(tmp_path, Shape(modelled=True)))
    assert {entry.static_mj for entry in kinds} == {None}


def test_heatmap_rows_are_named_by_kind_unless_ambiguous(tmp_path: Path) -> None:
    """GIVEN two norms in a layer, THEN their rows carry their names; the rest carry their kind."""
    tree = _tree(tmp_path)
    cells = heatmap_cells(tree)
    rows = dict.fromkeys(cell.row for cell in cells)
    assert {"norm (ln_1)", "norm (ln_2)", "attention", "mlp.up"} <= set(rows)
    assert len(cells) == 4 * 10
    assert {cell.row for cell in cells if cell.reused} == {
        "attention.qkv", "attention.core", "attention.output", "mlp.up", "mlp.activation", "mlp.down",
    }  # fmt: skip
    assert row_labels([]) == {}


def test_a_coarse_run_has_a_cell_for_each_layer(tmp_path: Path) -> None:
    """GIVEN nothing measured inside the layers, THEN the layers themselves are the cells."""
    cells = heatmap_cells(_tree(tmp_path, Shape(granularity="coarse", layers=3)))
    assert [(cell.kind, cell.layer) for cell in cells] == [("layer", 0), ("layer", 1), ("layer", 2)]


def test_every_flow_node_is_its_children_less_the_excess(tmp_path: Path) -> None:
    """GIVEN positive unexplained energy, THEN each node's children add up to it and nothing is in excess."""
    flow = energy_flow(_tree(tmp_path))
    assert flow is not None
    for node in flow.walk():
        if node.children:
            assert sum(child.energy.value for child in node.children) == pytest.approx(node.energy.value)
        assert node.excess_mj == 0
    assert [child.kind for child in flow.children] == [
        "embedding",
        "layer",
        "norm",
        "lm_head",
        "glue",
        "unexplained",
    ]


def test_negative_unexplained_energy_becomes_an_excess(tmp_path: Path) -> None:
    """GIVEN parts that exceed the whole, THEN they are not scaled down: the excess is stated."""
    flow = energy_flow(_tree(tmp_path, Shape(unexplained_share=-0.05)))
    assert flow is not None
    parents = [node for node in flow.walk() if node.children]
    assert len(parents) == 4
    for node in parents:
        assert node.excess_mj > 0
        drawn = sum(child.energy.value for child in node.children)
        assert drawn - node.excess_mj == pytest.approx(node.energy.value)
        assert "unexplained" not in [child.kind for child in node.children]


def test_without_glue_the_rest_is_called_not_attributed(tmp_path: Path) -> None:
    """GIVEN no measured glue, THEN what the children leave over is not called unexplained."""
    flow = energy_flow(_tree(tmp_path, Shape(glue=False)))
    assert flow is not None
    assert {node.role for node in flow.walk()} == {"component", "unattributed"}


def test_boxes_and_bands_keep_their_joules_and_do_not_overlap(tmp_path: Path) -> None:
    """Heights are energies; boxes of a column and bands leaving a box follow each other without overlap."""
    flow = energy_flow(_tree(tmp_path))
    assert flow is not None
    layout = flow_layout(flow, room_mj=2.0)
    for depth in range(layout.depth + 1):
        column = sorted((box for box in layout.boxes if box.x == depth), key=lambda box: box.top)
        assert all(above.bottom <= below.top for above, below in itertools.pairwise(column))
    for box in layout.boxes:
        assert box.bottom - box.top == pytest.approx(box.node.energy.value)
        assert 0 <= box.top < box.bottom <= layout.height + 1e-9
        leaving = [band for band in layout.bands if band.parent is box]
        assert sum(band.height for band in leaving) == pytest.approx(box.bottom - box.top if leaving else 0)


def test_a_share_keeps_its_limits_where_the_part_may_be_nothing() -> None:
    """GIVEN a part whose interval reaches below 0, THEN its share has limits too, as wide as the part's."""
    share = share_of(Interval(17.6, -17.0, 52.2), Interval(132.0, 132.0, 132.0))
    assert share is not None
    assert (share.value, share.low, share.high) == pytest.approx((17.6 / 132, -17.0 / 132, 52.2 / 132))
    wide = share_of(Interval(17.6, 17.6, 17.6), Interval(132.0, -10.0, 274.0))
    assert wide is not None
    assert wide.high is not None
    assert wide.high - wide.value == pytest.approx(17.6 / 132 * 142 / 132)
    unknown = share_of(Interval(17.6), Interval(132.0))
    assert unknown is not None
    assert not unknown.known
