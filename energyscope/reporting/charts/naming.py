"""Where the names of points stand, so that none covers another, a point or an interval, wide or narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NARROW_PX = 480  # below this width of the plot, only the names that have room there are written
HEIGHT = 420.0  # of the plots whose points are named
SIZES = ((290.0, HEIGHT), (290.0, 330.0), (760.0, HEIGHT))  # of such a plot on a telephone, in print, on a desk
_WIDE = len(SIZES) - 1
_LETTER_PX, _LINE_PX, _POINT_PX, _LEAST_PX = 6.0, 13.0, 7.0, 2.0
ACROSS, DOWN = 9, 9  # how far a name is moved from its point, pixels

Spot = tuple[float, float]  # shares of the width from the left, and of the height from below
Box = tuple[float, float, float, float]  # left, top, right, bottom, pixels


@dataclass(frozen=True)
class Name:
    """A name that is written: of which point, on which side, and whether only where the plot is wide."""

    index: int
    right: bool  # of the plot, so that the name stands to the left of its point
    below: bool
    wide: bool


def named(
    spots: Sequence[Spot],
    names: Sequence[str],
    order: Sequence[int],
    most: int,
    taken: Sequence[Sequence[Box]] = (),
) -> list[Name]:
    """Choose the points to name, in this order, and a side for each name that is free.

    ``taken`` are boxes that stay free of names, for each of the `SIZES`.
    """
    filled = [[*_points(spots, size), *(taken[at] if taken else ())] for at, size in enumerate(SIZES)]
    found: list[Name] = []
    for index in order:
        if len(found) >= most:
            break
        sides = [(right, below) for below in (False, True) for right in _sides(spots[index])]
        on_desk = [side for side in sides if _free(spots[index], names[index], side, _WIDE, filled)]
        if not on_desk:
            continue
        always = [
            side
            for side in on_desk
            if all(_free(spots[index], names[index], side, at, filled) for at in range(_WIDE))
        ]
        right, below = (always or on_desk)[0]
        found.append(Name(index, right, below, wide=not always))
        for at in range(len(SIZES)) if always else (_WIDE,):
            filled[at].append(_box(spots[index], names[index], (right, below), at))
    return found


def corner(right: bool, top: bool, words: str, share: float) -> list[Box]:
    """Return the box of what is written in a corner, in each of the `SIZES`.

    The words stand on one line where this ``share`` of the width has room for them, else on two.
    """
    boxes: list[Box] = []
    for width, height in SIZES:
        lines = 1 if share * width > len(words) * _LETTER_PX else 2
        long = min(len(words) * _LETTER_PX, share * width)
        left = width - long if right else 0.0
        tall = (lines + 0.2) * _LINE_PX
        upper = 0.0 if top else height - tall
        boxes.append((left, upper, left + long, upper + tall))
    return boxes


def _sides(spot: Spot) -> tuple[bool, bool]:
    return (True, False) if spot[0] > 0.8 else (False, True)


def _points(spots: Sequence[Spot], size: tuple[float, float]) -> list[Box]:
    middles = [(x * size[0], (1 - y) * size[1]) for x, y in spots]
    return [(x - _POINT_PX, y - _POINT_PX, x + _POINT_PX, y + _POINT_PX) for x, y in middles]


def _box(spot: Spot, name: str, side: tuple[bool, bool], at: int) -> Box:
    (width, height), (right, below) = SIZES[at], side
    x, y = spot[0] * width, (1 - spot[1]) * height + (DOWN if below else -DOWN)
    long = len(name) * _LETTER_PX
    left = x - ACROSS - long if right else x + ACROSS
    return left, y - _LINE_PX / 2, left + long, y + _LINE_PX / 2


def _free(spot: Spot, name: str, side: tuple[bool, bool], at: int, filled: Sequence[Sequence[Box]]) -> bool:
    box, (width, height) = _box(spot, name, side, at), SIZES[at]
    if box[0] < -_LEAST_PX or box[2] > width + 2 * _LEAST_PX or box[1] < -_LEAST_PX or box[3] > height:
        return False
    return not any(_meet(box, other) for other in filled[at])


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
