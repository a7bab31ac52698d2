"""The tree as the icicle draws it: widths are joules, and nothing is scaled to fit."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data.flow import FlowNode, energy_flow
from energyscope.reporting.data.icicle import IcicleNode, energy_icicle, icicle_layout
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import EnergyTree, energy_tree


def _tree(folder: Path, shape: Shape | None = None) -> EnergyTree:
    run = build_run(folder / "run", shape or Shape(impact=False))
    assert run.energy is not None
    return energy_tree(run.energy)


def _icicle(folder: Path, shape: Shape | None = None) -> IcicleNode:
    found = energy_icicle(_tree(folder, shape))
    assert found is not None
    return found


def test_parts_and_rests_fill_each_component(tmp_path: Path) -> None:
    """GIVEN closed books, THEN the parts, the glue and the rest of each component add up to it, layers too."""
    root = _icicle(tmp_path)
    for node in root.walk():
        if node.children:
            assert sum(child.energy.value for child in node.children) == pytest.approx(node.energy.value)
            assert node.room == pytest.approx(node.energy.value)
            assert node.excess_mj == 0
    assert {node.kind for node in root.children} == {
        "layer",
        "lm_head",
        "embedding",
        "norm",
        "glue",
        "unexplained",
    }


def test_layers_stand_one_by_one_below_their_sum_in_their_order(tmp_path: Path) -> None:
    """GIVEN layers measured one by one, THEN their sum is one cell and each layer is one below it, in order."""
    root = _icicle(tmp_path)
    stack = root.children[0]
    assert (stack.kind, stack.count, stack.component) == ("layer", 4, None)
    assert [node.layer for node in stack.children] == [0, 1, 2, 3]
    assert stack.own is None
    inside = stack.children[2]
    assert [node.kind for node in inside.children][:2] == ["mlp", "attention"]
    assert inside.own is not None
    assert inside.own.value == pytest.approx(
        inside.energy.value - sum(n.energy.value for n in inside.children if n.role == "component")
    )


def test_means_over_the_layers_stand_together(tmp_path: Path) -> None:
    """GIVEN layers none of which was measured by itself, THEN one cell stands for all of them at every level."""
    tree = _tree(tmp_path)
    for node in tree.nodes:
        if node.layer is not None:
            node.row["reused"] = True  # type: ignore[index]
    root = energy_icicle(tree)
    assert root is not None
    stack = root.children[0]
    assert stack.count == 4
    assert [node.count for node in stack.children if node.kind == "mlp"] == [4]
    assert all(node.layer is None for node in root.walk())


def test_parts_that_exceed_their_component_reach_beyond_it(tmp_path: Path) -> None:
    """GIVEN negative unexplained energy, THEN the excess is kept, the room is wider, and no cell is shrunk."""
    root = _icicle(tmp_path, Shape(impact=False, unexplained_share=-0.05))
    assert root.excess_mj > 0
    assert root.room > root.energy.value + root.excess_mj * 0.999
    layout = icicle_layout(root, 0.0)
    for cell in layout.cells:
        assert cell.right - cell.left == pytest.approx(sum(node.energy.value for node in cell.nodes))
    _assert_no_joule_is_lost(root)


def _assert_no_joule_is_lost(root: IcicleNode | FlowNode) -> None:
    """Each parent and its excess are as large as what is drawn below it: all that is not below 0."""
    for node in root.walk():
        if node.children:
            drawn = sum(max(child.energy.value, 0.0) for child in node.children)
            assert node.energy.value + node.excess_mj == pytest.approx(drawn), node.kind


def _set(tree: EnergyTree, tail: str, value: Interval | None) -> None:
    for node in tree.nodes:
        if node.name.endswith(tail):
            node.energy = value


@pytest.mark.parametrize("glue", [True, False])
@pytest.mark.parametrize("tail", ["lm_head", "h.1.mlp.c_fc", "h.2", ".ln_1"])
def test_what_a_part_without_a_value_takes_is_not_attributed(tmp_path: Path, tail: str, glue: bool) -> None:
    """GIVEN a part, a layer, or a part of each layer without a value, THEN its energy stays in the drawing."""
    tree = _tree(tmp_path, Shape(impact=False, glue=glue))
    before = {node.name: node.energy.value for node in tree.nodes if node.energy}
    _set(tree, tail, None)
    lost = sum(before[node.name] for node in tree.nodes if node.energy is None)
    icicle, flow = energy_icicle(tree), energy_flow(tree)
    for root in (icicle, flow):
        assert root is not None
        _assert_no_joule_is_lost(root)
        rest = [node for node in root.walk() if node.role == "unattributed"]
        assert sum(node.energy.value for node in rest) >= lost * 0.999
    assert flow is not None
    named = [name for node in flow.walk() for name in node.missing]
    assert set(named) == {node.name for node in tree.nodes if node.energy is None}
    assert len(named) == len(set(named))


@pytest.mark.parametrize("tail", ["lm_head", "h.1.mlp.c_fc", "h.2"])
def test_a_part_below_zero_is_counted_into_the_excess(tmp_path: Path, tail: str) -> None:
    """GIVEN a part below 0, THEN the others exceed what they are in by that much, and no joule is lost."""
    tree = _tree(tmp_path, Shape(impact=False))
    _set(tree, tail, Interval(-1.5))
    icicle = energy_icicle(tree)
    assert icicle is not None
    _assert_no_joule_is_lost(icicle)
    assert max(node.excess_mj for node in icicle.walk()) >= 1.5
    flow = energy_flow(tree)
    assert flow is not None
    _assert_no_joule_is_lost(flow)


def test_own_energy_is_not_known_where_a_part_has_no_value(tmp_path: Path) -> None:
    """GIVEN a layer whose part has no value, THEN what it takes beside its parts is not known; others' is."""
    tree = _tree(tmp_path)
    _set(tree, "h.1.ln_1", None)
    root = energy_icicle(tree)
    assert root is not None
    own = {node.layer: node.own is not None for node in root.walk() if node.kind == "layer" and not node.stack}
    assert own == {0: True, 1: False, 2: True, 3: True}


def test_cells_do_not_overlap_and_lie_below_their_parent(tmp_path: Path) -> None:
    """Cells of one level lie side by side, whatever exceeds what."""
    layout = icicle_layout(_icicle(tmp_path, Shape(impact=False, unexplained_share=-0.05)), 1 / 700)
    for depth in range(layout.depth):
        level = [cell for cell in layout.cells if cell.depth == depth]
        ends = sorted((cell.left, cell.right) for cell in level)
        assert all(left[1] <= right[0] + 1e-9 for left, right in itertools.pairwise(ends))
        assert all(0 <= left <= right <= layout.width + 1e-9 for left, right in ends)


def test_what_is_too_narrow_stands_together_and_loses_no_joule(tmp_path: Path) -> None:
    """GIVEN 80 layers, THEN narrow parts share cells, which are few, and each level of a component stays whole."""
    root = _icicle(tmp_path, Shape(layers=80, impact=False))
    layout = icicle_layout(root, 1 / 700)
    assert len(layout.cells) < 900
    together = [cell for cell in layout.cells if cell.node is None]
    assert together
    for cell in together:
        assert len(cell.nodes) > 1
        assert cell.right - cell.left == pytest.approx(sum(node.room for node in cell.nodes))


def test_without_glue_the_rest_is_not_attributed(tmp_path: Path) -> None:
    """GIVEN no glue, THEN what is left of each component is one cell that says so."""
    roles = {node.role for node in _icicle(tmp_path, Shape(impact=False, glue=False)).walk()}
    assert roles == {"component", "unattributed"}


def test_a_model_without_parts_has_none(tmp_path: Path) -> None:
    """GIVEN only the model, THEN there is no icicle."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert run.energy is not None
    assert energy_icicle(energy_tree(run.energy[run.energy["level"] == "model"])) is None
