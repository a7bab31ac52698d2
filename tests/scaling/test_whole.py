from __future__ import annotations

from functools import partial

import pytest

from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.scaling.prediction import Prediction
from energyscope.scaling.roofline import roofline
from energyscope.scaling.whole import summed

FIT = partial(roofline, form="sum", call_energy=False)


def test_a_sum_has_joined_limits_and_says_which_part_extrapolates() -> None:
    """GIVEN half-widths 3 and 4 THEN that of the sum is 5, without a time where a part has none."""
    one = Prediction("a", "constant", Interval(10, 7, 13), Interval(1, 1, 1), False)
    why = reason("beyond-cells", measure="tokens", factor=2.0, end="most")
    other = Prediction("b", "constant", Interval(20, 16, 24), None, True, why)
    found = summed([one, other], "model")
    assert found.energy_mj == Interval(30, pytest.approx(25), pytest.approx(35))
    assert (found.time_us, found.extrapolated, found.why) == (None, True, reason("of-part", part="b", why=why))
