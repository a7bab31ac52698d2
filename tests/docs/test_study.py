"""The pages that set published figures beside ours hold what the recorded runs say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
