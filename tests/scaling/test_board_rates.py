"""The roofline law at the board's rates: launches are found, and large models are foretold from small ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_board import SIZES, Board, Size, sweep, work

from energyscope.errors import UsageError
from energyscope.reasons import split
from energyscope.scaling.board_rates import BoardRates, board_rates
from energyscope.scaling.ceilings import rates_by_pass
from energyscope.scaling.prediction import NoLaw

BOARD = Board(form="floor", launch_us=45.0, pj_per_flop=0.0)
LARGE = Size("70b", 8192, 80, 28672)
SHORT = {"lengths": (32, 64), "batches": (1,)}


def over(kind, *, noise=0.0, **options):
    found = []
    for index, size in enumerate(SIZES[:2]):
        found += sweep(BOARD, kind, size, noise=noise, seed=index, **(options or SHORT))
    return found


def fitted(kind="mlp", **options):
    law = board_rates(over(kind, **options), rates=rates_by_pass(over("lm_head", **options)), mixed=["model"])
    assert isinstance(law, BoardRates)
    return law


def test_launches_are_found():
    """GIVEN layers of 1B that wait for launches, and of 3B that do not THEN t0 is the launch's time."""
    assert fitted().launch_us == pytest.approx(45.0)
    assert fitted(noise=0.02).launch_us == pytest.approx(45.0, rel=0.05)


def test_no_launch_where_none_shows():
    """GIVEN cells as fast as the board THEN t0 sets no time of theirs, and the times are the board's."""
    law = fitted("lm_head")
    for one in over("lm_head"):
        assert law.time_us(one) == pytest.approx(one.time_us, rel=1e-3)


def test_a_large_model_from_small_ones():
    """GIVEN energies of launches and bytes alone THEN 70B's layers are foretold, flagged as extrapolated."""
    shape = work("mlp", LARGE, 1, 32)
    said = fitted().predict(shape)
    assert said.time_us.value == pytest.approx(BOARD.time_us(shape), rel=0.02)
    assert said.energy_mj.value == pytest.approx(BOARD.energy_mj(shape), rel=0.02)
    assert said.extrapolated
    assert {(one.code, one.values["end"]) for one in split(said.why)} == {("beyond-cells", "most")}


def test_intervals_hold_a_further_measurement():
    """GIVEN noise THEN energy and time of a shape among the cells lie in the prediction intervals."""
    law = fitted(noise=0.02, lengths=(32, 64, 128, 256), batches=(1,))
    shape = work("mlp", SIZES[0], 1, 100)
    said = law.predict(shape)
    assert said.energy_mj.low <= BOARD.energy_mj(shape) <= said.energy_mj.high
    assert said.time_us.low <= BOARD.time_us(shape) <= said.time_us.high


def test_without_flops_no_joules_per_flop():
    """Norms have no J/FLOP; nothing is said of what no cell has."""
    assert fitted("norm").pj_per_flop is None
    assert fitted("norm").pj_per_byte is not None
    assert fitted("mlp").pj_per_flop is not None


def test_what_gives_no_law():
    """One cell and no static power give none, with a reason; several boards are refused."""
    cells = over("mlp")
    assert isinstance(board_rates(cells[:1]), NoLaw)
    unknown = board_rates([replace(one, static_mj=None) for one in cells], mixed=["model"])
    assert isinstance(unknown, NoLaw)
    assert unknown.reason.code == "no-static-power"
    with pytest.raises(UsageError, match="boards"):
        board_rates([cells[0], replace(cells[1], board="GPU-2")], mixed=["model"])


def test_no_cell_left_over_has_no_interval():
    """GIVEN a fit without a cell left over THEN energy and time have no limits, rather than wrong ones."""
    law = replace(fitted(), freedom=0, scale=None, time_scale=None)
    said = law.predict(work("mlp", SIZES[0], 1, 48))
    assert said.energy_mj.value > 0
    assert (said.energy_mj.low, said.energy_mj.high, said.time_us.low) == (None, None, None)
