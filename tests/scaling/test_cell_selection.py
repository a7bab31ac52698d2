"""Which observations laws stand on: alike, of one phase, enough of the model itself, and of one granularity."""

from __future__ import annotations

from dataclasses import replace

import planted_observations
import pytest
from planted_observations import swept
from simulated_board import KINDS, SIZES, Board, cell, work

from energyscope.errors import UsageError
from energyscope.reasons import reason
from energyscope.scaling.boards import subjects_on_one_board
from energyscope.scaling.cell_selection import CellFilter, granularity_of, one_granularity, pooling, select
from energyscope.scaling.cells import WHOLE, Observation
from energyscope.scaling.law_document import law_document


def observation(run, tokens=32, *, board="GPU-1", **changes):
    cells = {
        kind: cell(Board(name=board), kind, SIZES[0], work(kind, SIZES[0], 1, tokens)) for kind in ("mlp", "model")
    }
    measured = Observation(
        run=run, model="1b", phase="prefill", precision="bf16", batch_size=1, tokens=tokens, kv_cache=None,
        weights="random", cells=cells, parts=("mlp",), left_out={},
    )  # fmt: skip
    return replace(measured, **changes)


def test_observations_that_are_alike_are_taken():
    """GIVEN two lengths of one board THEN both are taken without a note."""
    observations = [observation("a"), observation("b", 64)]
    assert select(observations, CellFilter()) == (observations, [])


def test_prefills_come_first_unless_steps_are_asked():
    """GIVEN both phases THEN prefills are taken, steps if asked for, and a phase nobody measured is refused."""
    steps = [observation("c", 100, phase="decode"), observation("d", 200, phase="decode")]
    observations = [observation("a"), observation("b", 64), *steps]
    assert {item.phase for item in select(observations, CellFilter())[0]} == {"prefill"}
    assert select(observations, CellFilter(phase="decode"))[0] == steps
    with pytest.raises(UsageError, match="no run measured decode steps, only prefill: measure some"):
        select(observations[:2], CellFilter(phase="decode"))


def test_one_shape_is_one_cell():
    """GIVEN one run, or one shape twice, THEN there is no law, with what to do."""
    for observations in ([observation("a")], [observation("a"), observation("again")]):
        with pytest.raises(UsageError) as refused:
            select(observations, CellFilter())
        assert str(refused.value) == reason("one-cell").words


def test_a_run_without_cells_is_named():
    """GIVEN a run of which no work is known THEN it is left out with its reason; alone, it is refused with it."""
    why = reason("no-flops-or-bytes")
    empty = observation("old", 128, cells={}, parts=(), left_out={"model": why})
    _, notes = select([observation("a"), observation("b", 64), empty], CellFilter())
    assert notes == [reason("run-not-used", runs=["old"], why=why)]
    with pytest.raises(UsageError, match=why.words):
        select([empty], CellFilter())


def test_caches_must_be_the_same():
    """GIVEN prefills with and without a cache, or a static one, THEN they are refused by name."""
    with pytest.raises(UsageError, match="a has no KV cache and b has one"):
        select([observation("a"), observation("b", 64, kv_cache="dynamic")], CellFilter())
    with pytest.raises(UsageError, match="b has a static KV cache"):
        select([observation("a"), observation("b", 64, kv_cache="static")], CellFilter())


def test_weights_are_picked_or_noted():
    """GIVEN random and pretrained weights THEN a note says that values matter; `weights` picks one kind."""
    observations = [observation("a"), observation("b", 64), observation("c", 96, weights="pretrained")]
    assert select(observations, CellFilter())[1] == [reason("several-weights", weights=["pretrained", "random"])]
    assert select(observations, CellFilter(weights="random")) == (observations[:2], [])


def test_boards_are_refused_or_scaled():
    """GIVEN two boards THEN they are refused with their runs; where they may mix, each subject is on one board."""
    observations = [observation("a"), observation("b", 64), observation("c", 64, board="GPU-2")]
    with pytest.raises(UsageError, match=r"GPU-1: a, b; GPU-2: c.*--mixed board"):
        select(observations, CellFilter())
    chosen, _ = select(observations, CellFilter(mixed=("board",)))
    cells, boards = subjects_on_one_board(chosen, ("board",))
    assert {item.board for item in cells["mlp"]} == {"GPU-1"}
    assert boards["mlp"].factors["GPU-2"].value == pytest.approx(1.0)


def of_method(run, tokens, method):
    measured = observation(run, tokens)
    return replace(measured, cells={kind: replace(cell, method=method) for kind, cell in measured.cells.items()})


def test_methods_are_not_joined():
    """GIVEN graph prefills of before and after a change of the method THEN they are refused, with what changed."""
    with pytest.raises(UsageError, match=r"several methods \(0: a; 1: b; method 0 against 1 \("):
        select([of_method("a", 32, 0), of_method("b", 64, 1)], CellFilter())


def test_an_older_method_is_said():
    """GIVEN graph prefills that all are of before a change THEN they are used, with a note."""
    _, notes = select([of_method("a", 32, 0), of_method("b", 64, 0)], CellFilter())
    assert notes == [reason("older-method", why=reason("graph-masks"), groups=["a", "b"])]


def eagerly(item):
    """Return an observation, whose cells are of CUDA graphs, as if they were measured eagerly."""
    return replace(item, cells={kind: replace(own, execution="eager") for kind, own in item.cells.items()})


def test_an_execution_is_chosen():
    """GIVEN observations in both executions THEN they are refused with a remedy, and one of them can be chosen."""
    graphs = [observation("a"), observation("b", 64)]
    observations = [*graphs, *(eagerly(item) for item in graphs)]
    with pytest.raises(UsageError, match="choose one with --execution, or add --mixed execution"):
        select(observations, CellFilter())
    assert select(observations, CellFilter(execution="cuda-graph"))[0] == graphs
    assert select(observations, CellFilter(execution="eager"))[0] == observations[2:]
    with pytest.raises(UsageError, match="--mixed execution all: give one of them"):
        select(observations, CellFilter(execution="eager", mixed=("execution",)))
    with pytest.raises(UsageError, match="no run measured --execution compiled: they have cuda-graph, eager"):
        select(observations, CellFilter(execution="compiled"))


def at(granularity: str | None, observations: list[Observation]) -> list[Observation]:
    return [replace(item, granularity=granularity) for item in observations]


MEDIUM = at("medium", swept())
COARSE = at("coarse", swept(lengths=(512, 1024), scale=0.5))
NOTE = reason("one-granularity", cells=len(MEDIUM), granularity="medium", others=len(COARSE), unused=["coarse"])


def test_observations_of_one_granularity_stay_as_they_are() -> None:
    """GIVEN one granularity, or none that is stated, THEN nothing is changed and nothing is to say."""
    for observations in (MEDIUM, at(None, swept())):
        assert one_granularity(observations) == (observations, [])


def test_of_two_the_one_with_more_shapes_tells_components() -> None:
    """GIVEN more shapes at medium THEN coarse observations keep their whole alone, in their places, as said."""
    chosen, notes = one_granularity([*COARSE, *MEDIUM])
    assert chosen[len(COARSE) :] == MEDIUM
    assert [set(item.cells) for item in chosen[: len(COARSE)]] == [{WHOLE}] * len(COARSE)
    assert all(item.parts == () for item in chosen[: len(COARSE)])
    assert notes == [NOTE]
    assert granularity_of(chosen) == "medium"


def test_of_equal_ones_the_finest_is_taken() -> None:
    """GIVEN as many shapes at each THEN the finest, whatever their order."""
    three = [at(name, swept())[0] for name in ("coarse", "fine", "medium")]
    for observations in (three, three[::-1]):
        assert granularity_of(one_granularity(observations)[0]) == "fine"


def test_observations_whose_parts_add_up_come_first() -> None:
    """GIVEN more shapes at fine, of which none tells all parts, THEN the granularity that does is taken."""
    without = at("fine", swept(lengths=(32, 64, 128, 256, 512), overhead=False))
    assert granularity_of(one_granularity([*without, *MEDIUM])[0]) == "medium"


def test_the_used_observations_choose() -> None:
    """GIVEN many coarse observations of another model THEN the model's own ones choose, without a note."""
    chosen, notes = one_granularity([*COARSE, *MEDIUM[:2]], MEDIUM[:2])
    assert granularity_of(chosen) == "medium"
    assert notes == []


def test_laws_of_components_do_not_mix_granularities() -> None:
    """GIVEN sweeps of one model at two granularities THEN the whole has all cells, components those of one."""
    document = law_document([*COARSE, *MEDIUM])
    points = {entry["subject"]: len(entry["points"]) for entry in document["groups"][0]["subjects"]}
    assert points[WHOLE] == len(COARSE) + len(MEDIUM)
    assert {points[kind] for kind in KINDS} == {len(MEDIUM)}
    assert document["notes"].count(reason("of-group", model="1b", phase="prefill", why=NOTE)) == 1


def test_own_observations_are_enough_where_there_are_three_shapes() -> None:
    """GIVEN three shapes of the model THEN others are not used; GIVEN two they are; GIVEN none they alone."""
    other = planted_observations.observation(1, 32, size=SIZES[1])
    own = swept(batches=(1,))
    enough, notes = pooling([*own[:3], other], "1b")
    assert (enough.pooled, enough.by) == (False, "length")
    assert enough.used([*own[:3], other]) == own[:3]
    assert notes == [reason("other-models-not-used", models=[SIZES[1].name], model="1b")]
    few, notes = pooling([*own[:2], other], "1b")
    assert few.pooled
    assert notes == [reason("other-models-used", model="1b", models=[SIZES[1].name])]
    none, notes = pooling([*own, other], "8b")
    assert (none.pooled, none.by) == (True, "model")
    assert notes[0].code == "laws-of-other-models"


def test_a_phase_does_not_choose_the_granularity_of_another() -> None:
    """GIVEN prefills at medium and decode steps at coarse THEN the steps keep their components, without a note."""
    steps = [
        replace(
            item, phase="decode", cells={name: replace(cell, phase="decode") for name, cell in item.cells.items()}
        )
        for item in at("coarse", swept(batches=(1,)))
    ]
    document = law_document([*MEDIUM, *steps])
    subjects = {group["phase"]: {item["subject"] for item in group["subjects"]} for group in document["groups"]}
    assert set(KINDS) < subjects["decode"] == subjects["prefill"]
    assert not any(note.code == "of-group" for note in document["notes"])
