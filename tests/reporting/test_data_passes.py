from __future__ import annotations

from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data.passes import Effort, drift_sentence, effort, passes
from energyscope.runs.tree import EnergyTree, energy_tree


def _tree(path: Path) -> EnergyTree:
    frame = build_run(path / "run").energy
    assert frame is not None
    return energy_tree(frame)


def test_passes_keep_what_is_known() -> None:
    """GIVEN an anchor without an interval and a pass without an anchor, THEN neither gets one that is made up."""
    rows = passes({"passes": [{"index": 3, "anchor_mj": 70.0, "idle_w": 118.0, "clock_mhz": 1980.0}, {}]})
    assert [(row.index, row.idle_w, row.clock_mhz, row.temperature_c) for row in rows] == [
        (3, 118.0, 1980.0, None),
        (1, None, None, None),
    ]
    assert rows[0].anchor is not None
    assert not rows[0].anchor.known
    assert rows[1].anchor is None


@pytest.mark.parametrize(
    ("drift", "said"),
    [
        ({"change": 0.024, "low": 0.02, "high": 0.028, "significant": True}, "drifted by +2.4 % [2.0, 2.8]"),
        ({"change": 0.004, "low": 0.002, "high": 0.006, "significant": False}, "too little to matter"),
        ({"change": 0.002, "low": -0.004, "high": 0.008, "significant": False}, "no drift"),
        ({"change": -0.08, "low": -0.46, "high": 0.3, "significant": False}, "scatter too much to tell"),
        (None, "was not judged"),
    ],
)
def test_drift_is_read(drift: dict[str, object] | None, said: str) -> None:
    """A significant drift, a small one, none, and an older run each have their own sentence."""
    assert said in drift_sentence({"drift": drift})


def test_shared_values_count_once(tmp_path: Path) -> None:
    """GIVEN a kind's mean shown for four layers, THEN it is one value with one share of the windows."""
    tree = _tree(tmp_path)
    spent = effort({"settings": {"target_interval": 0.01}}, tree)
    groups = {node.group if node.reused else node.name for node in tree.nodes}
    assert (spent.values, spent.reached, spent.windows) == (len(groups), len(groups), 6 * len(groups))
    assert len(groups) == len(tree.nodes) - 3 * 6


def test_values_that_did_not_reach_the_target_are_counted(tmp_path: Path) -> None:
    """GIVEN half-widths of 0.75 % and a target of 0.5 %, THEN only what is tighter, none here, reached it."""
    spent = effort({"settings": {"target_interval": 0.005}}, _tree(tmp_path))
    assert spent.reached == 0
    assert f"none of {spent.values} came that close" in spent.sentence


def test_sampling_without_a_target_claims_none(tmp_path: Path) -> None:
    """GIVEN triggered sampling, which aims at no interval, THEN only the windows are told."""
    spent = effort({"settings": {"target_interval": 0.01, "sampling": "triggered"}}, _tree(tmp_path))
    assert spent.target is None
    assert spent.sentence == f"{spent.windows} windows were taken in all."
    assert Effort(None, 0, 0, None).sentence == ""


def test_a_significant_drift_is_among_the_findings(tmp_path: Path) -> None:
    """GIVEN a model that drifted, THEN the top of the report says so, right after what takes most."""
    from energyscope.reporting.data import report_data

    drift = {"change": 0.03, "low": 0.02, "high": 0.04, "significant": True}
    findings = report_data(build_run(tmp_path / "run", Shape(impact=False), drift=drift)).findings
    assert findings[1].startswith("The model's energy drifted by +3.0 %")
