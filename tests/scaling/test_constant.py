"""A constant is the mean of cells that do the same work, and holds for that work alone."""

from __future__ import annotations

import math
from dataclasses import replace

from simulated_board import SIZES, Board, cell, sweep, work

from energyscope.scaling.cell import Shape
from energyscope.scaling.constant import Constant, constant, same_work
from energyscope.scaling.prediction import NoLaw

BOARD = Board(form="floor")


def repeated(*energies):
    one = cell(BOARD, "mlp", SIZES[0], work("mlp", SIZES[0], 1, 32))
    return [replace(one, energy_mj=energy, energy_low_mj=None, energy_high_mj=None) for energy in energies]


def test_the_mean_with_an_interval_around_a_further_cell():
    """GIVEN four energies of one work THEN their mean is said, with Student's interval for a fifth."""
    cells = repeated(98.0, 100.0, 102.0, 100.0)
    said = constant(cells).predict(cells[0])
    assert math.isclose(said.energy_mj.value, 100.0, rel_tol=1e-3)
    deviation = math.sqrt(8 / 3)
    expected = 3.182 * deviation * math.sqrt(1 + 1 / 4)
    assert math.isclose(said.energy_mj.high - said.energy_mj.value, expected, rel_tol=0.03)
    assert not said.extrapolated


def test_one_cell_has_no_interval():
    """GIVEN one cell THEN its energy is all that is known."""
    found = constant(repeated(100.0))
    assert isinstance(found, Constant)
    assert not found.predict(repeated(100.0)[0]).energy_mj.known


def test_other_work_is_outside():
    """GIVEN four times the FLOPs THEN the constant says that it does not reach there."""
    cells = repeated(98.0, 102.0)
    assert constant(cells).predict(Shape(4, 32, cells[0].flops * 4, cells[0].bytes)).extrapolated


def test_a_constant_needs_the_same_work():
    """GIVEN cells of different work THEN there is no constant; work within 0.1 % is the same."""
    cells = sweep(BOARD, "mlp")
    assert isinstance(constant(cells), NoLaw)
    assert isinstance(constant([]), NoLaw)
    assert not same_work(cells)
    assert same_work([cells[0], replace(cells[0], flops=cells[0].flops * 1.0005)])
