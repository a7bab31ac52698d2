from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data.efficiency import efficiency, efficiency_rows, efficiency_sentences
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import energy_tree


def _table(path: Path) -> pd.DataFrame:
    frame = build_run(path / "run").energy
    assert frame is not None
    return frame


def test_units_of_the_prices_and_rates() -> None:
    """GIVEN 2 mJ, 1 GFLOP, 4 MB and 10 us, THEN 2 pJ/FLOP, 0.5 nJ/byte, 100 TFLOP/s, 400 GB/s, 250 FLOP/byte."""
    found = efficiency(Interval(2.0, 1.9, 2.1), flops=1e9, moved=4e6, time_us=10.0)
    assert found.pj_per_flop == Interval(pytest.approx(2.0), pytest.approx(1.9), pytest.approx(2.1))
    assert found.nj_per_byte is not None
    assert found.nj_per_byte.value == pytest.approx(0.5)
    assert found.flops_per_s == pytest.approx(100e12)
    assert found.bytes_per_s == pytest.approx(400e9)
    assert found.intensity == pytest.approx(250.0)


def test_no_matrix_work_has_no_price() -> None:
    """GIVEN 0 FLOPs, THEN price, rate and intensity are None, and those of the bytes are not."""
    found = efficiency(Interval(2.0), flops=0.0, moved=4e6, time_us=10.0)
    assert (found.pj_per_flop, found.flops_per_s, found.intensity) == (None, None, None)
    assert found.nj_per_byte is not None
    assert found.bytes_per_s is not None


def test_what_is_unknown_stays_unknown() -> None:
    """GIVEN neither energy nor time, THEN only the intensity, which needs neither, is known."""
    found = efficiency(None, flops=1e9, moved=4e6, time_us=None)
    assert (found.pj_per_flop, found.nj_per_byte, found.flops_per_s, found.bytes_per_s) == (None,) * 4
    assert found.intensity == pytest.approx(250.0)


def test_kinds_are_sums_over_their_leaves(tmp_path: Path) -> None:
    """GIVEN a table, THEN the model comes first, then the leaf kinds with their own prices."""
    rows = efficiency_rows(energy_tree(_table(tmp_path)))
    by_kind = {row.kind: row for row in rows}
    assert [rows[0].kind, rows[1].kind] == ["model", "lm_head"]
    assert "attention" not in by_kind
    assert (by_kind["mlp.up"].count, by_kind["norm"].flops) == (4, 0.0)
    price = by_kind["lm_head"].efficiency.pj_per_flop
    assert price is not None
    assert price.value == pytest.approx(4.0)


def test_a_leaf_without_work_makes_its_kind_unknown(tmp_path: Path) -> None:
    """GIVEN one projection whose FLOPs could not be counted, THEN its kind has no price: a part is not the sum."""
    frame = _table(tmp_path)
    frame.loc[frame["component"] == "transformer.h.0.mlp.c_fc", "flops"] = None
    row = next(row for row in efficiency_rows(energy_tree(frame)) if row.kind == "mlp.up")
    assert (row.flops, row.efficiency.pj_per_flop) == (None, None)
    assert row.efficiency.nj_per_byte is not None


def test_the_hosts_share_is_of_the_energy(tmp_path: Path) -> None:
    """GIVEN norms paced by the host, THEN they are flagged whole, half of them in part, one unknown not at all."""
    frame = _table(tmp_path)
    assert _norms(frame) == 1.0
    first = frame["component"].str.endswith("ln_1")
    frame["host_bound"] = frame["host_bound"].astype(object)
    frame.loc[first, "host_bound"] = False
    assert _norms(frame) == pytest.approx(
        1 - frame[first]["energy_mj"].sum() / frame[frame["kind"] == "norm"]["energy_mj"].sum()
    )
    frame.loc[first, "host_bound"] = None
    assert _norms(frame) is None


def _norms(frame: pd.DataFrame) -> float | None:
    return next(row for row in efficiency_rows(energy_tree(frame)) if row.kind == "norm").host_bound


def test_sentences_name_the_extremes_and_the_pace(tmp_path: Path) -> None:
    """GIVEN prices from 2 to 8 pJ and norms paced by the host, THEN both sentences say so."""
    prices, pace = efficiency_sentences(efficiency_rows(energy_tree(_table(tmp_path))))
    assert "from 2.00 pJ [" in prices
    assert prices.endswith("in attention.core.")
    assert pace.startswith("Launching from the host sets the pace of norm:")


def test_a_dear_flop_is_told_in_a_unit_that_can_be_read(tmp_path: Path) -> None:
    """GIVEN a kind whose FLOP costs a million times another's, THEN its price is in microjoules."""
    frame = _table(tmp_path)
    frame.loc[frame["kind"] == "attention.core", "flops"] /= 1e6
    (prices, _) = efficiency_sentences(efficiency_rows(energy_tree(frame)))
    assert "from 2.00 pJ [" in prices
    assert "to 8.00 µJ [" in prices


def test_a_run_that_counted_no_work_has_no_rows(tmp_path: Path) -> None:
    """GIVEN a table of an older version, THEN there is no efficiency and no sentence."""
    frame = build_run(tmp_path / "run", Shape(old=True)).energy
    assert frame is not None
    assert efficiency_rows(energy_tree(frame)) == []
    assert efficiency_sentences([]) == []
