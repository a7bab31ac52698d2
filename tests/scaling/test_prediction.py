from __future__ import annotations

import pytest
from simulated_board import SIZES, Board, sweep, work

from energyscope.reasons import reason
from energyscope.scaling.cell import Shape
from energyscope.scaling.prediction import Span, span_of


@pytest.mark.parametrize(
    ("flops", "moved", "why"),
    [
        (5e9, 5e6, None),
        (1e9, 1e7, None),
        (2e10, 5e6, reason("beyond-cells", measure="FLOPs", factor=2.0, end="most")),
        (5e9, 1e5, reason("beyond-cells", measure="bytes", factor=0.1, end="least")),
    ],
)
def test_outside_is_told_with_its_distance(flops: float, moved: float, why: str | None) -> None:
    """GIVEN a range of FLOPs and bytes THEN its ends are inside, and what lies beyond is said with the factor."""
    assert Span((1e9, 1e10), (1e6, 1e7)).outside(Shape(1, 1, flops, moved)) == why


@pytest.mark.parametrize(
    ("batch", "tokens", "why"),
    [
        (4, 500, reason("beyond-cells", measure="tokens", factor=500 / 128, end="most")),
        (8, 64, reason("beyond-cells", measure="sequences", factor=2.0, end="most")),
        (2, 64, None),
    ],
)
def test_a_length_or_a_batch_that_was_not_reached_is_outside(batch: int, tokens: int, why: str | None) -> None:
    """GIVEN lengths of 32 to 128 and batches of 1 to 4 THEN others are outside, whatever their work."""
    cells = sweep(Board(), "mlp", lengths=(32, 128), batches=(1, 4))
    inside = cells[1].shape
    assert span_of(cells).outside(Shape(batch, tokens, inside.flops, inside.bytes)) == why


def test_per_call_ranges_let_layers_grow() -> None:
    """GIVEN a range per call THEN twice the layers of the same size are inside; in all they are not."""
    cells = sweep(Board(), "mlp")
    double = work("mlp", SIZES[0], 4, 1024)
    more = Shape(4, 1024, 2 * double.flops, 2 * double.bytes, 2 * double.calls)
    assert span_of(cells, per_call=True).outside(more) is None
    assert span_of(cells).outside(more) is not None


def test_work_that_no_cell_had_is_outside() -> None:
    """GIVEN norms without FLOPs THEN a shape with some is outside."""
    assert span_of(sweep(Board(), "norm")).outside(Shape(1, 64, 1e9, 1e6)) is not None
