"""Which moments a prediction may stand on: alike, of one phase, and more than one shape."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_board import SIZES, Board, cell, work

from energyscope.errors import UsageError
from energyscope.reasons import reason
from energyscope.scaling.from_runs import SceneCells
from energyscope.scaling.selection import Wanted, by_subject, common_parts, select


def scene(run, tokens=32, *, board="GPU-1", **changes):
    cells = {
        kind: cell(Board(name=board), kind, SIZES[0], work(kind, SIZES[0], 1, tokens)) for kind in ("mlp", "model")
    }
    found = SceneCells(
        run=run, model="1b", phase="prefill", precision="bf16", batch_size=1, tokens=tokens, kv_cache=None,
        weights="random", cells=cells, parts=("mlp",), left_out={},
    )  # fmt: skip
    return replace(found, **changes)


def test_moments_that_are_alike_are_taken():
    """GIVEN two lengths of one board THEN both are taken without a note."""
    scenes = [scene("a"), scene("b", 64)]
    assert select(scenes, Wanted()) == (scenes, [])


def test_prefills_come_first_unless_steps_are_asked():
    """GIVEN both phases THEN prefills are taken, steps if asked for, and a phase nobody measured is refused."""
    steps = [scene("c", 100, phase="decode"), scene("d", 200, phase="decode")]
    scenes = [scene("a"), scene("b", 64), *steps]
    assert {one.phase for one in select(scenes, Wanted())[0]} == {"prefill"}
    assert select(scenes, Wanted(phase="decode"))[0] == steps
    with pytest.raises(UsageError, match="no run measured decode steps, only prefill: measure some"):
        select(scenes[:2], Wanted(phase="decode"))


def test_one_shape_is_one_cell():
    """GIVEN one run, or one shape twice, THEN there is no law, with what to do."""
    for scenes in ([scene("a")], [scene("a"), scene("again")]):
        with pytest.raises(UsageError) as refused:
            select(scenes, Wanted())
        assert str(refused.value) == reason("one-cell").words


def test_a_run_without_cells_is_named():
    """GIVEN a run of which no work is known THEN it is left out with its reason; alone, it is refused with it."""
    why = reason("no-flops-or-bytes")
    empty = scene("old", 128, cells={}, parts=(), left_out={"model": why})
    _, notes = select([scene("a"), scene("b", 64), empty], Wanted())
    assert notes == [reason("run-not-used", runs=["old"], why=why)]
    with pytest.raises(UsageError, match=why.words):
        select([empty], Wanted())


def test_caches_must_be_the_same():
    """GIVEN prefills with and without a cache, or a static one, THEN they are refused by name."""
    with pytest.raises(UsageError, match="a has no KV cache and b has one"):
        select([scene("a"), scene("b", 64, kv_cache="dynamic")], Wanted())
    with pytest.raises(UsageError, match="b has a static KV cache"):
        select([scene("a"), scene("b", 64, kv_cache="static")], Wanted())


def test_weights_are_picked_or_noted():
    """GIVEN random and pretrained weights THEN a note says that values matter; `weights` picks one kind."""
    scenes = [scene("a"), scene("b", 64), scene("c", 96, weights="pretrained")]
    assert select(scenes, Wanted())[1] == [reason("several-weights", weights=["pretrained", "random"])]
    assert select(scenes, Wanted(weights="random")) == (scenes[:2], [])


def test_boards_are_refused_or_scaled():
    """GIVEN two boards THEN they are refused with their runs; where they may mix, each subject is on one board."""
    scenes = [scene("a"), scene("b", 64), scene("c", 64, board="GPU-2")]
    with pytest.raises(UsageError, match=r"GPU-1: a, b; GPU-2: c.*--mixed board"):
        select(scenes, Wanted())
    found, _ = select(scenes, Wanted(mixed=("board",)))
    cells, boards = by_subject(found, ("board",))
    assert {one.board for one in cells["mlp"]} == {"GPU-1"}
    assert boards["mlp"].factors["GPU-2"].value == pytest.approx(1.0)


def test_parts_must_be_the_same():
    """GIVEN runs of two granularities THEN there is no sum, and the parts that differ are named."""
    scenes = [scene("a"), scene("b", 64, parts=("mlp.up", "mlp.down"))]
    parts, why = common_parts(scenes)
    assert parts == ()
    assert why == reason("parts-differ", first="a", second="b", parts=["mlp", "mlp.down", "mlp.up"])
    assert common_parts([scene("a"), scene("b", parts=())]) == (("mlp",), None)
    assert common_parts([scene("a", parts=())])[0] == ()


def of_method(run, tokens, method):
    found = scene(run, tokens)
    return replace(found, cells={kind: replace(cell, method=method) for kind, cell in found.cells.items()})


def test_methods_are_not_joined():
    """GIVEN graph prefills of before and after a change of the method THEN they are refused, with what changed."""
    with pytest.raises(UsageError, match=r"several methods \(0: a; 1: b; method 0 against 1 \("):
        select([of_method("a", 32, 0), of_method("b", 64, 1)], Wanted())


def test_an_older_method_is_said():
    """GIVEN graph prefills that all are of before a change THEN they are used, with a note."""
    _, notes = select([of_method("a", 32, 0), of_method("b", 64, 0)], Wanted())
    assert notes == [reason("older-method", why=reason("graph-masks"), groups=["a", "b"])]


def eagerly(one):
    """Return a moment, whose cells are of CUDA graphs, as if they were measured eagerly."""
    return replace(one, cells={kind: replace(own, execution="eager") for kind, own in one.cells.items()})


def test_an_execution_is_chosen():
    """GIVEN moments in both executions THEN they are refused with what to do, and one of them can be chosen."""
    graphs = [scene("a"), scene("b", 64)]
    scenes = [*graphs, *(eagerly(one) for one in graphs)]
    with pytest.raises(UsageError, match="choose one with --execution, or add --mixed execution"):
        select(scenes, Wanted())
    assert select(scenes, Wanted(execution="cuda-graph"))[0] == graphs
    assert select(scenes, Wanted(execution="eager"))[0] == scenes[2:]
    with pytest.raises(UsageError, match="--mixed execution all: give one of them"):
        select(scenes, Wanted(execution="eager", mixed=("execution",)))
    with pytest.raises(UsageError, match="no run measured --execution compiled: they have cuda-graph, eager"):
        select(scenes, Wanted(execution="compiled"))
