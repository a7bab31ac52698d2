from __future__ import annotations

from pathlib import Path

import pytest
from run_builder import Shape, build_run

from energyscope.reporting.data import report_data
from energyscope.reporting.data.correlate import coefficient_text, correlation_data, p_text
from energyscope.reporting.rows import component_rows
from energyscope.runs import schema
from energyscope.runs.store import load_run


def _metrics(data: object) -> dict[str, str]:
    return {metric.label: metric.value for metric in data.headline}  # type: ignore[attr-defined]


def test_headline_of_a_measured_run(tmp_path: Path) -> None:
    """GIVEN a measured run, THEN the top states energy, latency, power, static share, closure, grade and score."""
    metrics = _metrics(report_data(build_run(tmp_path / "run")))
    assert list(metrics) == [
        "Energy per forward pass", "Energy per 1,000 tokens", "Latency per forward pass", "Mean power",
        "Static share", "Closure", "Quality grade", "Perplexity",
    ]  # fmt: skip
    assert metrics["Static share"] == "39 %"
    assert metrics["Closure"] == "98.0 %"
    assert metrics["Perplexity"] == "6.42"


def test_energy_of_a_thousand_tokens(tmp_path: Path) -> None:
    """GIVEN 128 tokens a pass, THEN a thousand tokens cost 1000/128 passes."""
    run = build_run(tmp_path / "run")
    data = report_data(run)
    assert data.energy is not None
    assert data.energy.model is not None
    expected = data.energy.model.value * 1000 / 128
    assert float(_metrics(data)["Energy per 1,000 tokens"].split()[0]) == pytest.approx(expected, rel=0.005)


def test_a_measured_run_has_no_banner(tmp_path: Path) -> None:
    """Banners are kept for what must not be missed."""
    assert report_data(build_run(tmp_path / "run")).banners == []


def test_banners_of_modelled_random_and_interrupted_runs(tmp_path: Path) -> None:
    """Each of the three is said in capitals with its meaning."""
    stages = {"ablate": {"state": "interrupted", "reason": "Ctrl-C", "seconds": 3.0}}
    run = build_run(
        tmp_path / "run", Shape(modelled=True, impact=True), model={"weights": "random"}, stages=stages
    )
    banners = {banner.title: banner.text for banner in report_data(run).banners}
    assert list(banners) == ["MODELLED", "RANDOM WEIGHTS", "INCOMPLETE RUN"]
    assert "65.0 W" in banners["MODELLED"]
    assert banners["INCOMPLETE RUN"] == "The ablate stage was interrupted: Ctrl-C."


def test_a_modelled_run_has_no_static_share_and_says_modelled(tmp_path: Path) -> None:
    """GIVEN a modelled run, THEN every joule of the headline is called modelled and nothing is split."""
    data = report_data(build_run(tmp_path / "run", Shape(modelled=True)))
    metrics = _metrics(data)
    assert "Static share" not in metrics
    assert all(label.startswith("Modelled") for label in metrics if "nergy" in label)
    assert not any("static" in sentence for sentence in data.findings)
    assert "its time" in data.findings[0]


def test_findings_name_the_largest_kinds_with_numbers(tmp_path: Path) -> None:
    """The first sentence names up to three blocks with share and interval; the stage's own findings follow."""
    findings = report_data(build_run(tmp_path / "run")).findings
    assert findings[0].startswith("The MLP blocks take 37.8 % [")
    assert "; the attention blocks follow with 23.8 % [" in findings[0]
    assert ", the LM head with 20.3 % [" in findings[0]
    assert findings[-1].startswith("Energy and impact")
    assert len(findings) <= 5


def test_open_books_follow_what_takes_most(tmp_path: Path) -> None:
    """GIVEN a closure of 84 %, THEN the sentence after what takes most warns that shares are rough."""
    closure = {"model": {"energy": 0.84, "energy_low": 0.82, "energy_high": 0.86, "with_glue": False}}
    findings = report_data(build_run(tmp_path / "run", closure=closure)).findings
    assert findings[0].startswith("The MLP blocks take")
    assert findings[1].startswith("The books do not close")
    assert "without glue" in findings[1]


def test_books_that_close_by_a_wide_interval_are_not_called_open(tmp_path: Path) -> None:
    """GIVEN a closure of 88 % whose interval includes 100 %, THEN the sentence about it does not deny it."""
    model = {"energy": 0.88, "energy_low": 0.74, "energy_high": 1.02, "with_glue": True, "state": "closed"}
    findings = report_data(build_run(tmp_path / "run", closure={"model": model})).findings
    assert findings[1].startswith("The books close only within a wide interval: the components and the glue")


def test_a_skipped_stage_says_why(tmp_path: Path) -> None:
    """GIVEN no impact, THEN the section has no data and the sentence carries the reason."""
    data = report_data(build_run(tmp_path / "run", Shape(impact=False)))
    assert data.impact is None
    assert data.correlation is None
    assert data.missing["ablate"] == "The ablate stage was skipped: the weights are random."


def test_a_run_that_only_started_can_be_reported(tmp_path: Path) -> None:
    """GIVEN a run without any table, THEN everything says that it is missing and nothing fails."""
    run = build_run(tmp_path / "run", Shape(impact=False))
    (run.path / schema.ENERGY_FILE).unlink()
    data = report_data(load_run(run.path))
    assert data.energy is None
    assert data.flow is None
    assert component_rows(data) == []


def test_unknown_numbers_are_never_zero(tmp_path: Path) -> None:
    """GIVEN a model whose energy could not be measured, THEN the headline says so."""
    run = build_run(tmp_path / "run")
    assert run.energy is not None
    run.energy.loc[0, ["energy_mj", "time_us", "static_mj"]] = None
    metrics = _metrics(report_data(run))
    assert metrics["Energy per forward pass"] == "not measured"
    assert metrics["Latency per forward pass"] == "not measured"
    assert metrics["Static share"] == "not measured"


def test_invalid_ablations_are_counted_and_not_drawn(tmp_path: Path) -> None:
    """GIVEN an ablation that changed nothing, THEN no point is drawn for it and its reason is listed."""
    run = build_run(tmp_path / "run")
    assert run.impact is not None
    of_head = (run.impact["component"] == "lm_head") & (run.impact["method"] == "mean")
    run.impact.loc[of_head, "valid"] = False
    run.impact.loc[of_head, "reasons"] = "the output did not change"
    impact = report_data(run).impact
    assert impact is not None
    assert [group.sentence for group in impact.invalid] == [
        "4 rows: the output did not change (lm_head; mean ablation)"
    ]
    assert impact.invalid_rows == 4
    assert {point.method for point in impact.points if point.component == "lm_head"} == {"zero"}


def test_impact_by_kind_is_the_mean_over_components(tmp_path: Path) -> None:
    """The dot is the mean of a kind's components and the line their range."""
    run = build_run(tmp_path / "run")
    impact = report_data(run).impact
    assert impact is not None
    values = [
        point.value.value
        for point in impact.points
        if (point.kind, point.method, point.metric) == ("norm", "zero", "kl")
    ]
    norm = next(entry for entry in impact.of_metric("kl") if (entry.kind, entry.method) == ("norm", "zero"))
    assert norm.count == len(values) == 9
    assert norm.mean == pytest.approx(sum(values) / 9)
    assert (norm.low, norm.high) == (min(values), max(values))


def test_correlations_with_and_without_a_value() -> None:
    """A coefficient that could not be computed shows its reason; a tiny p-value its limit."""
    data = correlation_data(
        {
            "correlations": [
                {"x": "energy_mj", "y": "zero:kl", "method": "pearson", "n": 20, "value": -0.4, "ci_low": -0.7,
                 "ci_high": -0.1, "p_value": 0.0001, "reason": None},
                {"x": "energy_mj", "y": "zero:kl", "method": "spearman", "n": 2, "value": None, "ci_low": None,
                 "ci_high": None, "p_value": None, "reason": "fewer than four components"},
            ],
            "points": [{"component": "a", "kind": "mlp", "energy_mj": None, "impact": 1.0}],
        }
    )  # fmt: skip
    first, second = data.correlations
    assert (first.shown, coefficient_text(first), p_text(first.p_value)) == (
        True,
        "-0.40 [-0.70, -0.10]",
        "< 0.001",
    )
    assert (second.shown, coefficient_text(second)) == (False, "fewer than four components")
    assert (data.points, data.left_out) == ([], 1)


def test_undecided_points_come_last(tmp_path: Path) -> None:
    """The quadrants are listed with the undecided at the end, and every point is in one."""
    correlation = report_data(build_run(tmp_path / "run")).correlation
    assert correlation is not None
    assert list(correlation.quadrants)[-1] == "undecided"
    assert sum(map(len, correlation.quadrants.values())) == len(correlation.points)


def test_limits_say_what_happened(tmp_path: Path) -> None:
    """GIVEN negative unexplained energy, invalid numbers and warnings, THEN the limits name each of them."""
    run = build_run(tmp_path / "run", Shape(unexplained_share=-0.05), warnings=["the fan was loud"])
    assert run.energy is not None
    run.energy.loc[run.energy["component"] == "lm_head", "quality"] = "invalid"
    said = " ".join(report_data(run).limitations)
    for part in ("negative unexplained", "1 component did not reach grade C (lm_head)", "the fan was loud", "5 %"):
        assert part in said
