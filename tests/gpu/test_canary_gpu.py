"""A real GPU's two speeds: the graphs of a profile are timed in one of them. A minute."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import energyscope  # noqa: E402
from energyscope.accounting import records  # noqa: E402
from energyscope.runs.store import read_journal  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def test_the_windows_of_a_profile_are_at_one_speed(tmp_path):
    """GIVEN GPT-2, whose MLPs alone make some devices fast THEN at most one window in twenty is at another."""
    run = energyscope.run(
        "gpt2", weights="random", precision="bf16", layers="kinds", stages=("profile",), execution="cuda-graph",
        component_budget_s=2.6, root=tmp_path, name="a",
    )  # fmt: skip
    entries = read_journal(run.path)
    taken = [entry for entry in records.windows(entries) if entry.get("canary_us")]
    assert len(taken) >= 50
    assert len(records.windows_at_other_speed(entries)) <= 0.05 * len(taken)
