"""The same pass under several limits: ratios over the board as it was found, and which limit is the best."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from planted_observations import observation, swept

from energyscope.scaling.cells import WHOLE, Observation
from energyscope.scaling.contrasts import contrasts
from energyscope.scaling.law_document import law_document
from energyscope.scaling.limits import limits

PLANTED = {"": (1.0, 1.0), "600 W": (0.93, 1.02), "400 W": (0.8, 1.3), "1200 MHz": (0.9, 1.5)}


def held(limit: str, base: Observation, energy: float = 1.0, time: float = 1.0) -> Observation:
    """The same pass under a limit, which takes so many times its energy and time."""
    cells = {
        name: replace(
            cell,
            limit=limit,
            energy_mj=cell.energy_mj * energy,
            energy_low_mj=cell.energy_low_mj * energy,
            energy_high_mj=cell.energy_high_mj * energy,
            time_us=cell.time_us * time,
        )
        for name, cell in base.cells.items()
    }
    return replace(base, run=f"{base.run}-{limit}", cells=cells)


def planted(tokens: int = 128) -> list[Observation]:
    return [held(limit, observation(1, tokens), *factors) for limit, factors in PLANTED.items()]


def test_each_limit_is_set_against_the_board_as_it_was_found():
    """GIVEN limits of planted factors THEN rows begin with none, the highest next, and have these ratios."""
    (entry,) = limits(reversed(planted()))
    rows = {row["limit"]: row for row in entry["rows"]}
    assert list(rows) == ["", "600 W", "400 W", "1200 MHz"]
    for limit, (energy, time) in PLANTED.items():
        ratio = rows[limit]["energy_ratio"]
        assert ratio["value"] == pytest.approx(energy)
        assert ratio["low"] <= energy <= ratio["high"]
        assert rows[limit]["time_ratio"] == pytest.approx(time)
    assert (entry["least_energy"], entry["least_edp"]) == ("400 W", "600 W")
    assert json.loads(json.dumps(entry)) == entry


def test_the_parts_are_set_against_themselves():
    """GIVEN a part that a limit changes more than others THEN its ratios say so, the largest part first."""
    base = observation(1, 128)
    low = held("400 W", base, 0.9)
    mlp = replace(
        low.cells["mlp"], energy_mj=base.cells["mlp"].energy_mj / 2, time_us=base.cells["mlp"].time_us * 2
    )
    low = replace(low, cells={**low.cells, "mlp": mlp})
    (entry,) = limits([held("", base), low])
    parts = {part["subject"]: part for part in entry["parts"]}
    assert set(parts) == set(base.parts) - {"glue", "unexplained"}
    energies = [base.cells[name].energy_mj for name in parts]
    assert energies == sorted(energies, reverse=True)
    assert parts["mlp"]["energy_ratio"]["value"] == pytest.approx(0.5)
    assert parts["mlp"]["time_ratio"] == pytest.approx(2.0)


def test_a_limit_that_saves_nothing_within_errors_is_not_the_best():
    """GIVEN a difference within the intervals THEN no limit is named, and no parts are given."""
    base = observation(1, 128)
    (entry,) = limits([held("", base), held("400 W", base, 0.995)])
    assert (entry["least_energy"], entry["parts"]) == (None, [])


def test_the_least_of_many_equal_limits_is_seldom_named():
    """GIVEN no difference but the 0.4 % between equal cells THEN few sweeps of five limits name one."""
    random, named = np.random.default_rng(7), 0
    for _ in range(200):
        base = observation(1, 128)
        factors = 1 + 0.004 * random.standard_normal(6)
        held_to = ["", *(f"{watts} W" for watts in range(300, 800, 100))]
        sweep = [sharp(held(limit, base, factor)) for limit, factor in zip(held_to, factors, strict=True)]
        (entry,) = limits(sweep)
        named += entry["least_energy"] is not None
    assert named <= 12  # 2.5 % of 200, and chance


def sharp(item: Observation) -> Observation:
    """A pass whose windows hardly scatter."""
    whole = item.cells[WHOLE]
    value = whole.energy_mj
    exact = replace(whole, energy_low_mj=value * 0.999, energy_high_mj=value * 1.001)
    return replace(item, cells={**item.cells, WHOLE: exact})


def test_other_shapes_and_boards_are_apart():
    """GIVEN two lengths at two limits THEN each is an entry; one limit alone, or another board's, is none."""
    both = [*planted(128), *planted(256)]
    assert [entry["tokens"] for entry in limits(both)] == [128, 256]
    assert limits(swept()) == []
    base = observation(1, 128)
    elsewhere = held("400 W", base)
    cells = {name: replace(cell, board="GPU-9") for name, cell in elsewhere.cells.items()}
    assert limits([held("", base), replace(elsewhere, cells=cells)]) == []


def test_laws_and_contrasts_keep_limits_apart():
    """GIVEN two lengths at two limits, and FP32 at one THEN laws are by limit, and no contrast crosses limits."""
    document = law_document([*planted(128), *planted(256)])
    assert [group["limit"] for group in document["groups"]] == list(PLANTED)
    assert len(document["limits"]) == 2
    base = observation(1, 128)
    cells = {name: replace(cell, precision="fp32") for name, cell in base.cells.items()}
    wide = held("", replace(base, precision="fp32", cells=cells))
    found = [entry for entry in contrasts([*planted(128), wide]) if entry["subject"] == WHOLE]
    assert [entry["limit"] for entry in found] == [""]
