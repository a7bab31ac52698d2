"""Which moments laws stand on: enough of the model itself, and components of one granularity."""

from __future__ import annotations

from dataclasses import replace

from planted_scenes import scene, swept
from simulated_board import KINDS, SIZES

from energyscope.reasons import reason
from energyscope.scaling.from_runs import WHOLE, SceneCells
from energyscope.scaling.law_document import Source, law_document
from energyscope.scaling.usable import granularity_of, one_granularity, pooling


def at(granularity: str | None, scenes: list[SceneCells]) -> list[SceneCells]:
    return [replace(one, granularity=granularity) for one in scenes]


MEDIUM = at("medium", swept())
COARSE = at("coarse", swept(lengths=(512, 1024), scale=0.5))
NOTE = reason("one-granularity", cells=len(MEDIUM), granularity="medium", others=len(COARSE), unused=["coarse"])


def test_moments_of_one_granularity_stay_as_they_are() -> None:
    """GIVEN one granularity, or none that is stated, THEN nothing is changed and nothing is to say."""
    for scenes in (MEDIUM, at(None, swept())):
        assert one_granularity(scenes) == (scenes, [])


def test_of_two_the_one_with_more_shapes_tells_components() -> None:
    """GIVEN more shapes at medium THEN coarse moments keep their whole alone, in their places, as said."""
    found, notes = one_granularity([*COARSE, *MEDIUM])
    assert found[len(COARSE) :] == MEDIUM
    assert [set(one.cells) for one in found[: len(COARSE)]] == [{WHOLE}] * len(COARSE)
    assert all(one.parts == () for one in found[: len(COARSE)])
    assert notes == [NOTE]
    assert granularity_of(found) == "medium"


def test_of_equal_ones_the_finest_is_taken() -> None:
    """GIVEN as many shapes at each THEN the finest, whatever their order."""
    three = [at(name, swept())[0] for name in ("coarse", "fine", "medium")]
    for scenes in (three, three[::-1]):
        assert granularity_of(one_granularity(scenes)[0]) == "fine"


def test_moments_whose_parts_add_up_come_first() -> None:
    """GIVEN more shapes at fine, of which none tells all parts, THEN the granularity that does is taken."""
    without = at("fine", swept(lengths=(32, 64, 128, 256, 512), glue=False))
    assert granularity_of(one_granularity([*without, *MEDIUM])[0]) == "medium"


def test_the_used_moments_choose() -> None:
    """GIVEN many coarse moments of another model THEN the model's own ones choose, without a note."""
    found, notes = one_granularity([*COARSE, *MEDIUM[:2]], MEDIUM[:2])
    assert granularity_of(found) == "medium"
    assert notes == []


def test_laws_of_components_do_not_mix_granularities() -> None:
    """GIVEN sweeps of one model at two granularities THEN the whole has all cells, components those of one."""
    sources = [Source(scene=one, path=str(index), device="H200") for index, one in enumerate([*COARSE, *MEDIUM])]
    document = law_document(sources)
    points = {entry["subject"]: len(entry["points"]) for entry in document["groups"][0]["subjects"]}
    assert points[WHOLE] == len(COARSE) + len(MEDIUM)
    assert {points[kind] for kind in KINDS} == {len(MEDIUM)}
    assert document["notes"].count(reason("of-group", model="1b", phase="prefill", why=NOTE)) == 1


def test_own_moments_are_enough_where_there_are_three_shapes() -> None:
    """GIVEN three shapes of the model THEN others are not used; GIVEN two they are; GIVEN none they alone."""
    other = scene(1, 32, size=SIZES[1])
    own = swept(batches=(1,))
    enough, said = pooling([*own[:3], other], "1b")
    assert (enough.pooled, enough.by) == (False, "length")
    assert enough.used([*own[:3], other]) == own[:3]
    assert said == [reason("other-models-not-used", models=[SIZES[1].name], model="1b")]
    few, said = pooling([*own[:2], other], "1b")
    assert few.pooled
    assert said == [reason("other-models-used", model="1b", models=[SIZES[1].name])]
    none, said = pooling([*own, other], "8b")
    assert (none.pooled, none.by) == (True, "model")
    assert said[0].code == "laws-of-other-models"


def test_a_phase_does_not_choose_the_granularity_of_another() -> None:
    """GIVEN prefills at medium and decode steps at coarse THEN the steps keep their components, without a note."""
    steps = [
        replace(
            one, phase="decode", cells={name: replace(cell, phase="decode") for name, cell in one.cells.items()}
        )
        for one in at("coarse", swept(batches=(1,)))
    ]
    sources = [Source(scene=one, path=str(index), device="H200") for index, one in enumerate([*MEDIUM, *steps])]
    document = law_document(sources)
    subjects = {group["phase"]: {one["subject"] for one in group["subjects"]} for group in document["groups"]}
    assert set(KINDS) < subjects["decode"] == subjects["prefill"]
    assert not any(note.code == "of-group" for note in document["notes"])
