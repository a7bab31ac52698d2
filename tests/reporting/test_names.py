"""Names of points: none covers another, a point, or the words in a corner, on a telephone or on a desk."""

from __future__ import annotations

import itertools
import random

import pytest

from energyscope.reporting.charts import names

SIZES = range(len(names.SIZES))


def _spots(count: int, seed: int) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    return [(rng.uniform(0.02, 0.98), rng.betavariate(0.7, 2.0) * 0.96 + 0.02) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 13, 60, 400])
def test_names_do_not_overlap_anything(count: int) -> None:
    """GIVEN 1 to 400 points, THEN no name meets a point, another name or a corner, in any width."""
    spots = _spots(count, seed=count)
    labels = [f"attention.output {index}" for index in range(count)]
    corners = [[(x, y, x + 150, y + 15) for x in (0, w - 150) for y in (0, h - 15)] for w, h in names.SIZES]
    placed = names.place_names(spots, labels, range(count), 12, corners)
    for at in SIZES:
        plot = names._Plot(spots, labels, names.SIZES[at], [])
        shown = [name for name in placed if names._FROM[at] >= name.from_px]
        boxes = [plot.box(name.index, (name.right, name.down)) for name in shown]
        points = [names._around(middle, names._POINT_PX) for middle in plot._middles]
        assert not any(itertools.starmap(names._meet, itertools.combinations(boxes, 2)))
        assert not any(names._meet(box, other) for box in boxes for other in points)
        assert not any(names._meet(box, corner) for box in boxes for corner in corners[at])
    assert len(placed) <= 12


def test_names_lie_on_no_line() -> None:
    """GIVEN a limit across the plot and an interval, THEN the name meets neither; what a point covers is none."""
    spot, limit = (0.5, 0.5), ((0.0, 0.53), (1.0, 0.53))
    for long in (0.005, 0.3):
        taken = names.line_boxes([limit, ((0.5 - long, 0.5), (0.5 + long, 0.5))])
        assert {len(boxes) for boxes in taken} == {1 if long < 0.007 else 2}
        (name,) = names.place_names([spot], ["attention 0"], [0], 5, taken)
        assert name.down == 1, "the limit lies where a name above would stand"
        for at in SIZES:
            box = names._Plot([spot], ["attention 0"], names.SIZES[at], []).box(0, (name.right, name.down))
            assert not any(names._meet(box, other) for other in taken[at])


def test_a_name_is_of_one_point_only() -> None:
    """GIVEN two points on each other and one apart, THEN only the latter is named: the name could be of either."""
    placed = names.place_names([(0.5, 0.5), (0.501, 0.505), (0.5, 0.9)], ["a", "b", "c"], [0, 1, 2], 5)
    assert [name.index for name in placed] == [2]


def test_a_name_is_written_from_the_width_on_that_has_room() -> None:
    """GIVEN two points with long names, THEN a telephone shows neither, and every wider plot both."""
    placed = names.place_names([(0.3, 0.5), (0.6, 0.5)], ["attention.output 10"] * 2, [0, 1], 5)
    assert [name.from_px for name in placed] == [names.NARROW_PX] * 2


def test_a_lone_point_has_its_name_at_any_width() -> None:
    """GIVEN one point, THEN it is named, also on a telephone; near the right end the name stands left of it."""
    assert names.place_names([(0.4, 0.5)], ["norm"], [0], 5) == [names.Name(0, right=False, down=-1, from_px=0)]
    assert names.place_names([(0.95, 0.5)], ["norm"], [0], 5)[0].right


def test_the_order_decides_who_is_named() -> None:
    """GIVEN room for one name, THEN it is that of the first in order."""
    spots = [(0.3, 0.5), (0.3, 0.9)]
    assert [name.index for name in names.place_names(spots, ["a", "b"], [1, 0], 1)] == [1]
