"""What has no FLOPs follows bytes, and speaks of bytes."""

from __future__ import annotations

import math
from dataclasses import replace

from simulated_board import SIZES, Board, cell, sweep, work

from energyscope.reasons import reason, split
from energyscope.scaling.by_bytes import ByBytes, by_bytes
from energyscope.scaling.prediction import NoLaw

BOARD = Board(form="floor")


def test_bytes_carry_what_has_no_flops():
    """GIVEN norms THEN E0 and k over bytes are found, and a shape beyond is said in bytes, not FLOPs."""
    cells = [
        replace(one, energy_mj=5 + 2e-7 * one.bytes, energy_low_mj=None, energy_high_mj=None)
        for one in sweep(BOARD, "norm", batches=(1,))
    ]
    law = by_bytes(cells)
    assert isinstance(law, ByBytes)
    assert math.isclose(law.fixed_mj.value, 5, rel_tol=1e-6)
    assert math.isclose(law.pj_per_byte.value, 200, rel_tol=1e-6)
    said = law.predict(work("norm", SIZES[0], 4, 4096))
    assert said.extrapolated
    assert {one.values["measure"] for one in split(said.why)} == {"tokens", "sequences", "bytes"}
    assert said.law == "two-term-in-bytes"


def test_bytes_without_a_range_are_no_law():
    """GIVEN one amount of bytes THEN the reason speaks of bytes."""
    found = by_bytes([cell(BOARD, "norm", SIZES[0], work("norm", SIZES[0], 1, 32))] * 3)
    assert isinstance(found, NoLaw)
    assert found.reason == reason("same-amount", cells=3, measure="bytes")
