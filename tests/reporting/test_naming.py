"""Names of points: none covers another, a point, or the words in a corner, on a telephone or on a desk."""

from __future__ import annotations

import itertools
import random

import pytest

from energyscope.reporting.charts import naming

SIZES = range(len(naming.SIZES))


def _spots(count: int, seed: int) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    return [(rng.uniform(0.02, 0.98), rng.betavariate(0.7, 2.0) * 0.96 + 0.02) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 13, 60, 400])
def test_names_do_not_overlap_anything(count: int) -> None:
    """GIVEN 1 to 400 points, THEN no name meets a point, another name or a corner, in either width."""
    spots = _spots(count, seed=count)
    names = [f"attention.output {index}" for index in range(count)]
    corners = [naming.corner(right, top, "high energy, low impact: 12", 0.5) for right in (False, True)
               for top in (False, True)]  # fmt: skip
    found = naming.named(spots, names, range(count), 12, [[boxes[at] for boxes in corners] for at in SIZES])
    for at in SIZES:
        shown = [name for name in found if at == SIZES[-1] or not name.wide]
        boxes = [naming._box(spots[name.index], names[name.index], (name.right, name.below), at) for name in shown]
        points = naming._points(spots, naming.SIZES[at])
        assert not any(naming._meet(one, other) for one, other in itertools.combinations(boxes, 2))
        assert not any(naming._meet(box, other) for box in boxes for other in points)
        assert not any(naming._meet(box, corner[at]) for box in boxes for corner in corners)
    assert len(found) <= 12


def test_a_lone_point_has_its_name_at_any_width() -> None:
    """GIVEN one point, THEN it is named, also on a telephone; near the right end the name stands left of it."""
    assert naming.named([(0.4, 0.5)], ["norm"], [0], 5) == [naming.Name(0, right=False, below=False, wide=False)]
    assert naming.named([(0.95, 0.5)], ["norm"], [0], 5)[0].right


def test_the_order_decides_who_is_named() -> None:
    """GIVEN room for one name, THEN it is that of the first in order."""
    spots = [(0.3, 0.5), (0.3, 0.9)]
    assert [name.index for name in naming.named(spots, ["a", "b"], [1, 0], 1)] == [1]
