"""The pages that set published figures beside ours hold what the recorded runs say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from energyscope.intervals import Interval
from energyscope.runs.tree import Node

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"


@pytest.fixture(scope="module")
def study():
    """Yield the tool that makes the tables."""
    sys.path.insert(0, str(TOOLS))
    import study

    yield study
    sys.path.remove(str(TOOLS))


def test_pages_agree_with_their_data():
    """GIVEN the recorded runs, THEN every table made of them stands in its page as they have it."""
    done = subprocess.run(
        [sys.executable, str(TOOLS / "study.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_changed_number_is_noticed_and_made_anew(study):
    """GIVEN a page with another number in a table, THEN only that table is written again."""
    page = (ROOT / "reports/published-study/README.md").read_text(encoding="utf-8")
    assert page.count("9.02x") == 1
    assert study.renewed(page.replace("9.02x", "4.0x")) == page


def test_published_totals_agree_with_each_other(study):
    """GIVEN the T4 study's seconds, watts and joules, THEN the last is the product, and its shares are a whole."""
    t4 = study.t4
    assert pytest.approx(t4.T4_JOULES, rel=1e-4) == t4.T4_SECONDS * t4.T4_WATTS
    assert sum(t4.T4_SHARES.values()) == pytest.approx(1.0, abs=1e-3)


def test_what_is_too_noisy_says_so(study):
    """GIVEN groups of which a row is invalid, THEN the table of shares says it, so that none is ranked."""
    grades = {row["group"]: row["grade"] for row in study.t4.shares("distilbert-32x128-h200").rows}
    assert grades["FFN up"] == "invalid"
    assert grades["FFN down"] == "C"


@pytest.fixture
def equal_runs(study):
    """Return ten runs of 40 components whose energies scatter as their intervals say, or by so much more."""

    def made(scatter):
        random = np.random.default_rng(0)
        values = 1 + 0.01 * scatter * random.standard_normal((10, 40))
        half = 0.01 * 1.96
        return [
            [
                Node(
                    f"c{number}", "mlp", None, "block", None, {}, Interval(value, value - half, value + half), None
                )
                for number, value in enumerate(run)
            ]
            for run in values
        ]

    return made


@pytest.mark.parametrize(("scatter", "differ"), [(1.0, (0.02, 0.08)), (2.0, (0.25, 0.45))])
def test_equal_runs_differ_as_often_as_their_intervals_say(study, equal_runs, scatter, differ):
    """GIVEN intervals that are right THEN 5 % of pairs differ; half as wide as they must be, a third."""
    tool = study.repeatability
    found = tool.counts(equal_runs(scatter), tool.ENERGY, lambda node: node.level == "block")
    assert found[1].sum() == 45 * 40
    share = tool.share([found])
    assert differ[0] < share.value < differ[1]
    assert share.low < share.value < share.high
