"""Where the names of points stand, so that none covers another, a point or an interval, wide or narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NARROW_PX, WIDE_PX = 480, 760  # of the plot: more names have room from each of these widths on
HEIGHT = 420.0  # of the plots whose points are named
SIZES = (  # of such a plot on a telephone, in print, on a tablet, and on desks
    (290.0, HEIGHT),
    (290.0, 330.0),
    (float(NARROW_PX), HEIGHT),
    (float(WIDE_PX), HEIGHT),
    (1000.0, HEIGHT),
)
_FROM = (0, 0, NARROW_PX, WIDE_PX, WIDE_PX)  # the width of the plot from which each of them stands for it
_LETTER_PX, _LINE_PX, _POINT_PX, _LEAST_PX = 6.0, 13.0, 7.0, 2.0
_CLEAR_PX = 10.0  # between a name and the middle of another point: nearer, it could be that point's
ACROSS, DOWN = 9, 9  # how far a name is moved from its point, pixels

Spot = tuple[float, float]  # shares of the width from the left, and of the height from below
Line = tuple[Spot, Spot]  # upright or level, from its lower left end
Box = tuple[float, float, float, float]  # left, top, right, bottom, pixels
Side = tuple[bool, int]  # right: the name stands to the left of its point; down: -1 above it, 0 level, 1 below


@dataclass(frozen=True)
class Name:
    """A name that is written: of which point, on which side, and from which width of the plot (pixels) on."""

    index: int
    right: bool
    down: int
    from_px: int


def place_names(
    spots: Sequence[Spot],
    names: Sequence[str],
    order: Sequence[int],
    most: int,
    taken: Sequence[Sequence[Box]] = (),
) -> list[Name]:
    """Choose the points to name, in this order, and a side for each name that is free.

    A name meets no point, no other name and nothing that is ``taken``, boxes for each of the `SIZES`. It is left
    out where another point is so near that the name could be of either.
    """
    plots = [_Plot(spots, names, size, [*(taken[at] if taken else ())]) for at, size in enumerate(SIZES)]
    placed: list[Name] = []
    for index in order:
        if len(placed) >= most:
            break
        for width in sorted(set(_FROM)):
            wider = [plot for plot, begin in zip(plots, _FROM, strict=True) if begin >= width]
            sides = (side for side in _sides(spots[index]) if all(plot.free(index, side) for plot in wider))
            side = next(sides, None)
            if side is not None:
                placed.append(Name(index, *side, width))
                for plot in wider:
                    plot.taken.append(plot.box(index, side))
                break
    return placed


def line_boxes(lines: Sequence[Line]) -> list[list[Box]]:
    """Return the boxes of lines, in each of the `SIZES`; those that a point covers are left out."""
    plots = []
    for width, height in SIZES:
        ends = [(x0 * width, (1 - y1) * height, x1 * width, (1 - y0) * height) for (x0, y0), (x1, y1) in lines]
        plots.append(
            [
                (left - 1, top - 1, right + 1, bottom + 1)
                for left, top, right, bottom in ends
                if max(right - left, bottom - top) > 2 * _POINT_PX
            ]
        )
    return plots


def _sides(spot: Spot) -> list[Side]:
    rights = (True, False) if spot[0] > 0.8 else (False, True)
    return [(right, down) for down in (-1, 1, 0) for right in rights]


@dataclass
class _Plot:
    """The plot in one of its sizes, with what is ``taken`` in it."""

    spots: Sequence[Spot]
    names: Sequence[str]
    size: tuple[float, float]
    taken: list[Box]

    def __post_init__(self) -> None:
        width, height = self.size
        self._middles = [(x * width, (1 - y) * height) for x, y in self.spots]

    def box(self, index: int, side: Side) -> Box:
        """Return where a name is written."""
        right, down = side
        x, y = self._middles[index]
        y += down * DOWN
        long = len(self.names[index]) * _LETTER_PX
        left = x - ACROSS - long if right else x + ACROSS
        return left, y - _LINE_PX / 2, left + long, y + _LINE_PX / 2

    def free(self, index: int, side: Side) -> bool:
        """Whether a name lies within the plot, meets nothing, and is near no point but its own."""
        box, (width, height) = self.box(index, side), self.size
        if box[0] < -_LEAST_PX or box[2] > width + 2 * _LEAST_PX or box[1] < -_LEAST_PX or box[3] > height:
            return False
        point = self._middles[index]
        others = (middle for at, middle in enumerate(self._middles) if at != index)
        return not any(_meet(box, other) for other in self.taken) and not any(
            max(abs(other[0] - point[0]), abs(other[1] - point[1])) < _POINT_PX
            or _meet(box, _around(other, _CLEAR_PX))
            for other in others
        )


def _around(middle: Spot, half: float) -> Box:
    return middle[0] - half, middle[1] - half, middle[0] + half, middle[1] + half


def _meet(first: Box, second: Box) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]
