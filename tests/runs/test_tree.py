from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.intervals import Interval
from energyscope.runs.store import load_run
from energyscope.runs.tree import energy_tree, slice_keys, sum_column, sum_energy, sum_known


@pytest.fixture
def frame(tmp_path: Path) -> pd.DataFrame:
    """The energy table of a fine run of four layers."""
    return build_run(tmp_path / "run").energy


def test_parents_children_and_leaves(frame: pd.DataFrame) -> None:
    """GIVEN a fine run, THEN the model is the root, layers are below it and leaves have no children."""
    tree = energy_tree(frame)
    assert tree.root is not None
    assert [child.kind for child in tree.root.children] == ["embedding", *["layer"] * 4, "norm", "lm_head"]
    assert {node.kind for node in tree.leaves}.isdisjoint({"model", "layer", "attention", "mlp"})
    assert len(tree.leaves) == 4 * 8 + 3


def test_glue_and_unexplained_agree_with_the_table(tmp_path: Path) -> None:
    """The unexplained energy computed here is the one that was written."""
    tree = energy_tree(build_run(tmp_path / "run", Shape(unexplained_share=-0.03)).energy)
    for node in tree.nodes:
        if node.children:
            assert node.unexplained.value == pytest.approx(node.number("unexplained_mj"))
            assert node.unexplained.value < 0


def test_values_reused_over_layers_err_together(frame: pd.DataFrame, tmp_path: Path) -> None:
    """GIVEN a kind's mean shown for four layers, THEN the sum's relative interval is that of the mean."""
    tree = energy_tree(frame)
    nodes = [node for node in tree.leaves if node.kind == "mlp.up"]
    single, all_of_them = nodes[0].energy, sum_energy(nodes)
    assert all_of_them.above / all_of_them.value == pytest.approx(single.above / single.value)
    apart = energy_tree(build_run(tmp_path / "apart", Shape(reused=False)).energy)
    measured = sum_energy(node for node in apart.leaves if node.kind == "mlp.up")
    assert measured.above / measured.value < 0.6 * single.above / single.value


def test_a_sum_over_a_missing_column_is_unknown(frame: pd.DataFrame) -> None:
    """GIVEN one component without static energy, THEN the sum is unknown, not the sum of the rest."""
    frame.loc[frame["component"] == "lm_head", "static_mj"] = None
    tree = energy_tree(frame)
    assert sum_column(tree.leaves, "static_mj") is None
    assert sum_column([node for node in tree.leaves if node.kind == "norm"], "static_mj") is not None


def test_names_with_the_layer_left_open(frame: pd.DataFrame) -> None:
    """Instances of a component over the layers share a group, and its name in the layer is the tail."""
    tree = energy_tree(frame)
    node = next(node for node in tree.nodes if node.name == "transformer.h.2.mlp.c_fc")
    assert (node.group, node.tail) == ("transformer.h.*.mlp.c_fc", "mlp.c_fc")
    head = next(node for node in tree.nodes if node.name == "lm_head")
    assert (head.group, head.tail) == ("lm_head", "lm_head")


def test_slices_do_not_mix(frame: pd.DataFrame) -> None:
    """GIVEN a table with prefill and decode, THEN a tree holds one of them."""
    decode = frame.assign(phase="decode", energy_mj=frame["energy_mj"] * 2)
    both = pd.concat([frame[frame["level"] != "model"], decode])
    keys = slice_keys(both)
    assert [key[0] for key in keys] == ["decode", "prefill"]  # the whole model was measured in decode alone
    assert len(energy_tree(both).nodes) == len(frame)
    assert energy_tree(both, keys[1]).root is None


def test_an_interrupted_run_has_no_root(frame: pd.DataFrame) -> None:
    """GIVEN rows whose parents were never measured, THEN there is no root, and all rows are nodes."""
    tree = energy_tree(frame[frame["level"] == "sub-component"])
    assert tree.root is None
    assert tree.model_energy is None
    assert len(tree.nodes) == (frame["level"] == "sub-component").sum()


def test_flags_survive_an_empty_cell(frame: pd.DataFrame, tmp_path: Path) -> None:
    """GIVEN a column of true, false and nothing, read back from a file, THEN a node says which, or None."""
    frame["host_bound"] = frame["host_bound"].astype(object)
    frame.loc[frame["component"] == "lm_head", "host_bound"] = None
    frame.to_csv(tmp_path / "run" / "per_layer_energy.csv", index=False)
    read = load_run(tmp_path / "run").energy
    nodes = {node.name: node for node in energy_tree(read).nodes}
    names = ("transformer.ln_f", "transformer.h.0.mlp", "lm_head")
    assert [nodes[name].flag("host_bound") for name in names] == [True, False, None]


def test_a_stand_in_errs_with_the_layer_it_comes_from(tmp_path: Path) -> None:
    """GIVEN a layer whose value was measured on another one THEN both err together, and its origin says where."""
    frame = build_run(tmp_path / "run", Shape(reused=False)).energy
    names = ("transformer.h.0.mlp", "transformer.h.1.mlp")
    columns = ["energy_mj", "energy_ci_low_mj", "energy_ci_high_mj"]
    apart = _sum_of(frame, names)
    second = frame["component"] == names[1]
    frame.loc[second, columns] = frame.loc[frame["component"] == names[0], columns].to_numpy()
    frame["reused"] = frame["reused"].astype(bool) | second
    frame["measured_on"] = frame["measured_on"].astype(object)
    frame.loc[second, "measured_on"] = names[0]
    together = _sum_of(frame, names)
    assert together.high - together.low > 1.2 * (apart.high - apart.low)
    node = next(node for node in energy_tree(frame).nodes if node.name == names[1])
    assert node.origin == f"measured on {names[0]}"
    assert node.source == names[0]


@pytest.mark.parametrize(
    ("shape", "by_work"),
    [
        (Shape(graded_work=True), True),
        (Shape(graded_work=True, execution="cuda-graph"), False),
        (Shape(graded_work=True, modelled=True), False),
        (Shape(), False),
        (Shape(old=True), False),
    ],
    ids=["eager", "CUDA graph", "modelled", "before grades of work", "old"],
)
def test_eager_runs_with_graded_work_are_judged_by_it(tmp_path: Path, shape: Shape, by_work: bool) -> None:
    """GIVEN executions and versions, read back from files, THEN only graded work of eager runs decides."""
    tree = energy_tree(build_run(tmp_path / "run", shape).energy)
    assert tree.by_work is by_work
    norm = next(node for node in tree.nodes if node.kind == "norm")
    assert tree.judged(norm) == (norm.dynamic if by_work else norm.energy)
    assert tree.quality(norm) == norm.row["dynamic_quality" if by_work else "quality"]


def test_work_that_one_of_several_lacks_is_no_sum(tmp_path: Path) -> None:
    """GIVEN MLPs of which one has no work, THEN their sum is unknown, and with all of them it is their total."""
    nodes = [
        node
        for node in energy_tree(build_run(tmp_path / "run", Shape(graded_work=True)).energy).nodes
        if node.kind == "mlp"
    ]
    works = [node.dynamic for node in nodes]
    together = sum_known(works)
    assert together is not None
    assert together.value == pytest.approx(sum_column(nodes, "dynamic_mj"))
    assert together.above == pytest.approx(sum(work.above for work in works if work))  # idle power's is in each
    assert sum_known([works[0], None]) is None
    assert sum_known([]) is None


def _sum_of(frame: pd.DataFrame, names: tuple[str, ...]) -> Interval:
    return sum_energy(node for node in energy_tree(frame).nodes if node.name in names)


def test_a_phase_without_a_length_is_found(tmp_path: Path) -> None:
    """GIVEN images, whose table and phase have no number of tokens, THEN the phase has all rows and one tree."""
    run = build_inference(tmp_path / "run", Inference(layers=2, contexts=(1024,)))
    assert run.energy is not None
    rows = run.energy[run.energy["phase"] == "prefill"].assign(context_length=float("nan"))
    scene = {**run.scenes[0], "context_length": None}
    images = replace(run, document={**run.document, "scenes": [scene]}, energy=rows)
    found = images.scene(scene["name"]).energy
    assert found is not None
    assert len(slice_keys(found)) == 1
    assert len(energy_tree(found).nodes) == len(found) == len(rows)
