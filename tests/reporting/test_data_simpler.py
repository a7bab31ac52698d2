from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data import report_data
from energyscope.reporting.data.simpler import simpler_rows, simpler_sentences
from energyscope.runs.tree import energy_tree


def _table(path: Path) -> pd.DataFrame:
    frame = build_run(path / "run").energy
    assert frame is not None
    return frame


def test_leaves_are_added_up_by_kind(tmp_path: Path) -> None:
    """GIVEN a table, THEN each kind's sums are those of its leaves, in every method, the largest kind first."""
    frame = _table(tmp_path)
    rows = {row.kind: row for row in simpler_rows(energy_tree(frame))}
    norms = frame[frame["kind"] == "norm"]
    assert rows["norm"].energy.value == pytest.approx(norms["energy_mj"].sum())
    assert rows["norm"].proportional_mj == pytest.approx(norms["proportional_mj"].sum())
    assert rows["norm"].apart("proportional_mj") == pytest.approx(0.5)
    assert next(iter(rows)) == "lm_head"
    assert "mlp" not in rows


def test_the_largest_disagreement_is_a_sentence(tmp_path: Path) -> None:
    """GIVEN norms that take half again as much by time, THEN the sentence has both numbers and the difference."""
    by_time, plain = simpler_sentences(simpler_rows(energy_tree(_table(tmp_path))))
    assert by_time.startswith("Attribution by time would have given norm 4.72 mJ instead of 3.15 mJ [")
    assert "(+50 %); it is outside the interval for 9 of 9 kinds." in by_time
    assert plain.startswith("The counter's plain difference would have given lm_head 12.4 mJ instead of 13.8 mJ")
    assert "for 1 of 9 kinds" in plain


def test_a_part_is_not_the_sum(tmp_path: Path) -> None:
    """GIVEN one norm without a plain difference, THEN that of its kind is unknown, nothing is claimed."""
    frame = _table(tmp_path)
    frame.loc[frame["component"] == "transformer.ln_f", "naive_mj"] = None
    norm = next(row for row in simpler_rows(energy_tree(frame)) if row.kind == "norm")
    assert norm.naive_mj is None
    assert norm.apart("naive_mj") is None
    assert not norm.outside("naive_mj")


def test_methods_that_are_unknown_say_so(tmp_path: Path) -> None:
    """GIVEN no plain difference, THEN a sentence says so; GIVEN neither method, THEN there is no table."""
    frame = _table(tmp_path)
    frame["naive_mj"] = None
    rows = simpler_rows(energy_tree(frame))
    assert simpler_sentences(rows)[1] == "The counter's plain difference is not known for any kind."
    frame["proportional_mj"] = None
    assert simpler_rows(energy_tree(frame)) == []
    assert simpler_sentences([]) == []


def test_agreement_is_said(tmp_path: Path) -> None:
    """GIVEN a method that lies inside every interval, THEN the sentence says that it would have said the same."""
    frame = _table(tmp_path)
    frame["proportional_mj"] = frame["energy_mj"]
    said = simpler_sentences(simpler_rows(energy_tree(frame)))[0]
    assert said == "Attribution by time would have said nothing outside of the intervals."


def test_triggered_sampling_is_not_compared(tmp_path: Path) -> None:
    """GIVEN triggered sampling, which is a simpler method itself, THEN it is no yardstick for the others."""
    run = build_run(tmp_path / "run", settings={"sampling": "triggered"})
    assert report_data(run).trust.simpler == []


def test_nothing_is_compared_on_the_modelled_meter(tmp_path: Path) -> None:
    """GIVEN modelled joules, which are time, THEN there is nothing to compare attribution by time with."""
    assert report_data(build_run(tmp_path / "run", Shape(modelled=True))).trust.simpler == []
