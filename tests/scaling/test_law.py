"""What a law says of work: its range, how it extrapolates, and sums over parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_board import SIZES, Board, cell, fitted, over, straight, sweep, work

from energyscope.intervals import Interval
from energyscope.reasons import reason, split
from energyscope.scaling.cells import Shape
from energyscope.scaling.law import FittedRange, Prediction, span_of, sum_of_parts

FLOPS = [1e9 * 2**step for step in range(6)]


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
    assert FittedRange((1e9, 1e10), (1e6, 1e7)).outside(Shape(1, 1, flops, moved)) == why


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
    assert span_of(cells).outside(Shape(batch, tokens, cells[1].flops, cells[1].bytes)) == why


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


def test_predictions_outside_of_the_data_say_so() -> None:
    """GIVEN cells up to 32 GFLOPs THEN 8 are inside, and 64 extrapolated by a factor of two."""
    law = fitted("two-term", straight(5, 0.8, FLOPS, noise=0.01))
    inside, outside = (
        law.predict(Shape(1, law.span.tokens[0], *amounts)) for amounts in ((8e9, 8e7), (64e9, 32e7))
    )
    assert (inside.extrapolated, inside.why) == (False, None)
    assert outside.extrapolated
    assert outside.why == reason("beyond-cells", measure="FLOPs", factor=2.0, end="most")


def test_what_has_no_flops_is_beyond_in_bytes() -> None:
    """GIVEN norms THEN a shape beyond is said in bytes, not FLOPs."""
    law = fitted("two-term-in-bytes", sweep(Board(), "norm", batches=(1,)))
    prediction = law.predict(work("norm", SIZES[0], 4, 4096))
    assert {why.values["measure"] for why in split(prediction.why)} == {"tokens", "sequences", "bytes"}
    assert prediction.law == "two-term-in-bytes"


def test_a_constant_does_not_reach_other_work() -> None:
    """GIVEN four times the FLOPs THEN the constant does not reach there; other lengths do not matter."""
    item = cell(Board(), "lm_head", SIZES[0], work("lm_head", SIZES[0], 1, 32))
    law = fitted("constant", [item, replace(item, tokens=64)])
    assert law.predict(Shape(4, 32, item.flops * 4, item.bytes)).extrapolated
    assert not law.predict(replace(item, tokens=4096)).extrapolated


def test_a_larger_model_than_any_measured_is_extrapolated() -> None:
    """GIVEN sizes up to 3B THEN the 8B's MLP is outside of their range, it is said how, and it is near."""
    law = fitted("per-call", over(Board(), "mlp", without="8b"), mixed=["model"])
    prediction = law.predict(work("mlp", SIZES[2], 4, 1024))
    assert {(why.code, why.values["end"]) for why in split(prediction.why)} == {("beyond-cells", "most")}
    truth = Board().energy_mj(work("mlp", SIZES[2], 4, 1024))
    assert prediction.energy_mj.value == pytest.approx(truth, rel=0.15)


def test_norms_of_a_left_out_size_are_told_without_flops() -> None:
    """GIVEN norms of three sizes THEN there is no J/FLOP, J/byte is found, and a left-out size is told."""
    cells = over(Board(), "norm", without="3b")
    law, shape = fitted("per-call", cells, mixed=["model"]), work("norm", SIZES[1], 1, 256)
    assert set(law.coefficients) == {"call_mj", "pj_per_byte"}
    assert law.predict(shape).energy_mj.value == pytest.approx(Board().energy_mj(shape), rel=0.05)


def test_a_sum_has_joined_limits_and_says_which_part_extrapolates() -> None:
    """GIVEN half-widths 3 and 4 THEN that of the sum is 5, without a time where a part has none."""
    first = Prediction("a", "constant", Interval(10, 7, 13), Interval(1, 1, 1))
    why = reason("beyond-cells", measure="tokens", factor=2.0, end="most")
    second = Prediction("b", "constant", Interval(20, 16, 24), None, why)
    total = sum_of_parts([first, second], "model")
    assert total.energy_mj == Interval(30, pytest.approx(25), pytest.approx(35))
    assert (total.time_us, total.extrapolated, total.why) == (None, True, reason("of-part", part="b", why=why))
