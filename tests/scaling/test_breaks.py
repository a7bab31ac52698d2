from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated_board import straight

from energyscope.reasons import reason
from energyscope.scaling.breaks import left_out_errors, reach
from energyscope.scaling.prediction import NoLaw
from energyscope.scaling.two_term import two_term

FLOPS = [1e9 * 2**step for step in range(7)]


def test_the_closed_form_is_a_second_fit() -> None:
    """GIVEN noisy cells THEN errors from leverages are those of fits to the others, to rounding."""
    cells = straight(5, 0.8, FLOPS, noise=0.05, seed=4)
    errors = left_out_errors(cells)
    again = []
    for index, cell in enumerate(cells):
        law = two_term([*cells[:index], *cells[index + 1 :]])
        assert not isinstance(law, NoLaw)
        again.append(law.predict(cell).energy_mj.value / cell.energy_mj - 1)
    assert errors == pytest.approx(np.array(again), abs=1e-9)


def test_a_law_that_holds_reaches_the_last_cell() -> None:
    """GIVEN a straight line THEN the law holds for all cells, in any order."""
    found = reach(straight(5, 0.8, FLOPS, noise=0.01)[::-1])
    assert (found.holds, found.within, found.first_beyond, found.to_flops) == (True, 7, None, FLOPS[-1])


def test_the_break_is_found() -> None:
    """GIVEN cells that take half as much again from 32 GFLOPs on THEN the law reaches to 16 and no further."""
    cells = [
        replace(one, energy_mj=one.energy_mj * (1.5 if one.flops > 2e10 else 1)) for one in straight(5, 0.8, FLOPS)
    ]
    found = reach(cells)
    assert (found.holds, found.within, found.to_flops) == (False, 5, FLOPS[4])
    assert found.first_beyond == cells[5]
    assert len(found.errors) == 5


def test_nowhere_and_too_few_are_told_apart() -> None:
    """GIVEN energies that no line follows THEN nothing holds; GIVEN two cells THEN the reason says so."""
    wild = [
        replace(one, energy_mj=10.0 ** (1 + index % 2 * 2)) for index, one in enumerate(straight(5, 0.8, FLOPS))
    ]
    found = reach(wild)
    assert (found.holds, found.within, found.reason) == (False, 0, None)
    assert reach(wild[:2]).reason == reason("few-cells", cells=2, needed=3)
