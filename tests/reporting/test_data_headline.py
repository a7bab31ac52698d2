"""The numbers at the top: badges of closure and quality, joules per 1,000 tokens, and a bare benchmark's."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.reporting import text
from energyscope.reporting.data import report_data
from energyscope.reporting.data.closure import ClosureRow
from energyscope.reporting.data.findings import energy_findings
from energyscope.reporting.data.headline import Metric, closure_metric, grade_tone
from energyscope.reporting.html import render
from energyscope.reporting.text import unbroken
from energyscope.runs.intervals import Interval
from energyscope.runs.tree import energy_tree


@pytest.mark.parametrize(
    ("value", "state", "badge", "tone"),
    [
        (0.98, "closed", "closed", "good"),
        (0.90, "closed", "closed", "warn"),  # its interval includes 1, and no advice is given on it
        (0.98, "uncertain", "uncertain", "plain"),
        (0.80, "under-captured", "under-captured", "warn"),
        (1.20, "over-captured", "over-captured", "warn"),
        (0.98, None, "not judged", "plain"),
    ],
)
def test_a_closure_is_judged_by_its_badge(value: float, state: str | None, badge: str, tone: str) -> None:
    """GIVEN a closure, THEN its badge says how it is judged; only what closes well enough for advice is good."""
    row = ClosureRow("model", Interval(value), None, None, None, with_glue=True, state=state)
    found = closure_metric(row)
    assert (found.badge, found.tone) == (badge, tone)


def test_grades_without_advice_are_warned_of() -> None:
    """A and B are good, C and invalid are not."""
    assert [grade_tone(grade) for grade in ("A", "B", "C", "invalid", "-")] == [
        "good",
        "good",
        "warn",
        "warn",
        "plain",
    ]


def test_joules_for_a_thousand_tokens_of_an_inference(tmp_path: Path) -> None:
    """GIVEN a pass over 128 tokens, THEN 1,000 of them take 1000/128 of its energy, with limits alike."""
    data = report_data(build_inference(tmp_path / "run"))
    each = data.scenes[0].per_token
    assert each is not None
    found = next(one for one in data.headline if one.label == "Energy per 1,000 prompt tokens")
    assert found.value == text.quantity(1000 * each.value, "mJ")
    assert found.detail.startswith("95 % interval [")


def _of(metrics: list[Metric]) -> dict[str, Metric]:
    return {one.label: one for one in metrics}


def test_the_top_of_a_bare_benchmark_is_its_baseline(tmp_path: Path) -> None:
    """GIVEN a run of which only the benchmark ran, THEN the top has the baseline's joules and the least."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, benchmark=Bench()))
    data = report_data(run)
    assert data.benchmark is not None
    found = _of(data.headline)
    base = next(cell for cell in data.benchmark.first if cell.precision == "fp32")
    assert base.energy_mj is not None
    assert found["Energy per inference, FP32"].value == text.quantity(base.energy_mj.value, "mJ")
    assert found["Energy per 1,000 tokens, FP32"].value == text.quantity(base.energy_mj.value * 1000 / 128, "mJ")
    least = min(data.benchmark.first, key=lambda cell: cell.energy_mj.value if cell.energy_mj else 1e9)
    assert found["Least energy"].value == least.precision.upper()
    assert found["Quality grade"].tone == "good"


def test_the_top_of_a_modelled_benchmark_says_so(tmp_path: Path) -> None:
    """GIVEN modelled joules, THEN the top calls them modelled."""
    run = build_run(tmp_path / "run", Shape(profile=False, impact=False, modelled=True, benchmark=Bench()))
    labels = [one.label for one in report_data(run).headline]
    assert "Modelled energy per inference, FP32" in labels
    assert "Stated power" in labels
    assert not [label for label in labels if label.startswith("Energy")]


def test_a_profile_keeps_the_top_to_itself(tmp_path: Path) -> None:
    """GIVEN a profile beside the benchmark, THEN the top is the profile's."""
    labels = [one.label for one in report_data(build_run(tmp_path / "run", Shape(benchmark=Bench()))).headline]
    assert labels[:2] == ["Energy per forward pass", "Energy per 1,000 tokens"]
    assert not [label for label in labels if "FP32" in label]


def test_limits_stay_on_one_line() -> None:
    """The limits of an interval, and a number and its percent sign, are bound; other text may break."""
    assert unbroken("takes 46 % [44, 48], and a, b") == "takes 46\u00a0% [44,\u00a048], and a, b"
    assert unbroken("-0.18 [-0.57, +0.28]") == "-0.18\u00a0[-0.57,\u00a0+0.28]"


def test_a_step_makes_one_token_for_each_sequence(tmp_path: Path) -> None:
    """GIVEN decode steps alone, THEN each makes a token for a sequence, whatever the prompt's length."""
    shape = Inference(prefill=False, contexts=(1024,), generation=False, alternatives=False, beside_trace=False)
    run = build_inference(tmp_path / "run", shape, workload={"tokens_per_forward": 128})
    assert run.energy is not None
    root = energy_tree(run.energy).root
    assert root is not None
    assert root.energy is not None
    batch = root.number("batch_size")
    assert batch
    found = _of(report_data(run).headline)["Energy per 1,000 tokens"]
    assert found.value == text.quantity(root.energy.value * 1000 / batch, "mJ")
    assert found.note == f"{text.count(round(batch), 'token')} a step"
    head = render(run).partition("</header>")[0]
    assert "1,024 tokens in the cache" in head
    assert "x 128 tokens" not in head


def test_the_grade_at_the_top_is_the_worst_of_the_moments_shown(tmp_path: Path) -> None:
    """GIVEN a step below grade C behind a pass of grade A, THEN the top says invalid, where, and counts both."""
    run = build_inference(tmp_path / "run")
    assert run.energy is not None
    step = (run.energy["phase"] == "decode") & (run.energy["level"] == "model")
    run.energy.loc[step, "quality"] = "invalid"
    data = report_data(run)
    found = _of(data.headline)["Quality grade"]
    assert (found.value, found.tone) == ("invalid", "warn")
    shown = [scene for scene in data.scenes if scene.detailed]
    assert all(f"{scene.short}: " in found.detail for scene in shown)
    assert f"of all {text.count(sum(len(scene.tree.nodes) for scene in shown), 'row')}: " in found.detail


def test_a_finding_on_a_kind_says_what_is_not_in_its_sum(tmp_path: Path) -> None:
    """GIVEN an MLP block without a value, THEN the sentence on the blocks' share says that it is left out."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert run.energy is not None
    run.energy.loc[run.energy["component"] == "transformer.h.1.mlp", "energy_mj"] = None
    (largest,) = energy_findings(energy_tree(run.energy), run).largest
    assert largest.startswith("The MLP blocks take")
    assert "(1 without a value left out); the attention blocks" in largest


def test_a_finding_on_a_kind_says_how_much_of_it_is_weak(tmp_path: Path) -> None:
    """GIVEN one of the components of the largest kind below grade C, THEN the sentence on its share says so."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    assert run.energy is not None
    run.energy.loc[run.energy["component"] == "lm_head", "quality"] = "invalid"
    said = energy_findings(energy_tree(run.energy), run).said
    assert any(
        sentence.endswith("(1 of 1 below grade C).") and "the LM head with" in sentence for sentence in said
    )


def test_an_older_closure_has_one_verdict_on_the_page(tmp_path: Path) -> None:
    """GIVEN 83 % that nobody judged, THEN the tile, the finding and the table agree that it is too little."""
    open_books = {"model": {"energy": 0.83, "energy_low": 0.82, "energy_high": 0.84, "with_glue": True}}
    run = build_run(tmp_path / "run", Shape(impact=False), closure=open_books)
    data = report_data(run)
    assert _of(data.headline)["Closure"].badge == "under-captured"
    assert any(one.startswith("The books do not close: ") for one in data.findings)
    assert [row.state for row in data.trust.closures if row.name == "model"] == ["under-captured"]


@pytest.mark.parametrize("paced", [True, False])
def test_missing_time_is_the_hosts_only_where_the_host_sets_the_pace(tmp_path: Path, paced: bool) -> None:
    """GIVEN static energy that is missing, THEN the host is its cause where the model's row says host-bound."""
    level = {"energy": 0.83, "energy_low": 0.82, "energy_high": 0.84, "static": 0.7, "dynamic": 0.99}
    run = build_run(tmp_path / "run", Shape(impact=False), closure={"model": {**level, "with_glue": True}})
    assert run.energy is not None
    run.energy["host_bound"] = run.energy["level"].eq("model") & paced
    (said,) = [one for one in report_data(run).findings if "do not close" in one]
    assert ("waits for the host" in said) is paced
    assert ("what differs is idle time" in said) is not paced


def test_the_power_of_several_boards_says_so(tmp_path: Path) -> None:
    """GIVEN a run on two boards, THEN its mean power is of both together; of one, nothing is said."""
    sensor = {"devices": [{"device": "GPU-1"}, {"device": "GPU-2"}]}
    two = build_run(tmp_path / "two", Shape(impact=False), sensor=sensor)
    one = build_run(tmp_path / "one", Shape(impact=False))
    notes = [_of(report_data(run).headline)["Mean power"].note for run in (two, one)]
    assert notes == ["both boards together", ""]
    moments = report_data(build_inference(tmp_path / "moments", sensor=sensor)).headline
    assert "W (both boards together)" in moments[0].note
