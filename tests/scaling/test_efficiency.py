"""Tokens per joule along batch sizes and lengths: the definitions, the groups, and what is left out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from simulated_board import SIZES, Board
from size_observations import observation, observations, with_energy

from energyscope.scaling.cells import WHOLE
from energyscope.scaling.efficiency import efficiencies, tokens_of

BOARD = Board()
BATCHES = (1, 2, 4, 8, 16, 32, 64)


def along_batches(fixed_mj: float = 800.0, token_mj: float = 100.0):
    """Decode steps of E = fixed + batch x token, each of 10 ms and 1 ms a sequence."""
    base = _decoding(observation(BOARD))
    steps = []
    for batch in BATCHES:
        step = with_energy(base, fixed_mj + token_mj * batch, half_width=0.001, batch_size=batch)
        cell = replace(step.cells[WHOLE], batch_size=batch, time_us=1e4 + 1e3 * batch)
        steps.append(replace(step, cells={WHOLE: cell}, parts=()))
    return steps


def _decoding(prefill):
    cells = {subject: replace(cell, phase="decode") for subject, cell in prefill.cells.items()}
    return replace(prefill, phase="decode", kv_cache="dynamic", cells=cells)


def test_the_row_of_a_pass():
    """GIVEN a prefill of 4 x 128 tokens THEN tokens/J, tokens/s, energy a token and E x t follow from its cell."""
    first = observation(BOARD, shape=(4, 128))
    cell = first.cells[WHOLE]
    (entry,) = efficiencies([first])
    (row,) = entry["rows"]
    joules, seconds = cell.energy_mj / 1e3, cell.time_us / 1e6
    assert tokens_of(cell) == 512
    assert row["tokens_per_j"]["value"] == pytest.approx(512 / joules)
    assert row["tokens_per_j"]["low"] == pytest.approx(512 / joules / 1.01)
    assert row["energy_per_token_mj"]["value"] == pytest.approx(cell.energy_mj / 512)
    assert row["tokens_per_s"] == pytest.approx(512 / seconds)
    assert row["edp_mj_s"]["value"] == pytest.approx(cell.energy_mj * seconds)
    assert row["power_w"] == pytest.approx(joules / seconds)
    assert (entry["knee"], entry["least_edp"]) == (None, None)
    assert entry["reason"]


def test_a_decode_step_is_one_token_a_sequence():
    """GIVEN steps of E = 400 + 100 n mJ THEN tokens are the batch, and the knee is at 32, above 4.5 x n_1/2 = 18.

    GIVEN 800 mJ instead THEN n_1/2 is 8 and the knee at 64, the largest batch: still rising until there.
    """
    (entry,) = efficiencies(along_batches())
    assert (entry["along"], entry["fixed"]) == ("batch_size", 128)
    first = entry["rows"][0]
    assert first["tokens_per_j"]["value"] == pytest.approx(1 / 0.9)
    assert entry["knee"] is None
    assert entry["reason"].code == "no-knee-yet"
    (entry,) = efficiencies(along_batches(fixed_mj=400.0))
    assert entry["knee"]["batch_size"] == 32
    assert entry["knee"]["half_at"] == pytest.approx(4.0)


def test_the_least_energy_delay_product():
    """GIVEN E = E0 + e n and t = t0 + c n THEN E t / n is least at n = sqrt(E0 t0 / (e c)), here 8.9: at 8."""
    (entry,) = efficiencies(along_batches())
    assert entry["least_edp"] == 8


def test_both_axes():
    """GIVEN two batch sizes x three lengths THEN there are three entries along batches and two along lengths."""
    entries = efficiencies(observations(BOARD, SIZES[:1]))
    assert [(entry["along"], entry["fixed"], len(entry["rows"])) for entry in entries] == [
        ("batch_size", 32, 2), ("batch_size", 128, 2), ("batch_size", 512, 2), ("tokens", 1, 3), ("tokens", 4, 3),
    ]  # fmt: skip


def test_what_differs_is_not_mixed():
    """GIVEN passes of two boards, caches or kinds of weights THEN each has entries of its own."""
    first = observation(BOARD, shape=(1, 32))
    other = observation(BOARD, shape=(1, 128))
    board = {subject: replace(cell, board="GPU-2") for subject, cell in other.cells.items()}
    for changed in (replace(other, cells=board), replace(other, kv_cache="dynamic"), replace(other, weights="x")):
        entries = efficiencies([first, changed])
        assert [len(entry["rows"]) for entry in entries] == [1, 1]
    assert [len(entry["rows"]) for entry in efficiencies([first, other])] == [2]


def test_a_shape_measured_twice_is_one_row():
    """GIVEN 90 and 110 mJ, each within 1 % THEN the row has 100 mJ within the mean's own limits."""
    base = observation(BOARD)
    (entry,) = efficiencies([with_energy(base, 90.0), with_energy(base, 110.0)])
    (row,) = entry["rows"]
    assert row["energy_mj"]["value"] == pytest.approx(100.0)
    assert row["energy_mj"]["high"] == pytest.approx(100 + (0.9**2 + 1.1**2) ** 0.5 / 2)


def test_passes_without_a_whole_are_left_out():
    """Nothing measured of the whole, or a negative energy, gives no entry; the rest is plain JSON."""
    first = observation(BOARD)
    assert efficiencies([replace(first, cells={})]) == []
    assert efficiencies([with_energy(first, -5.0)]) == []
    entries = efficiencies(along_batches())
    assert json.loads(json.dumps(entries)) == entries
