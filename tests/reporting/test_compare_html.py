"""The page of a comparison: what stands on it, from which numbers, and that it escapes what it is given."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from run_builder import Shape, build_run

from energyscope.reporting.charts import grades
from energyscope.reporting.compare_page import default_path, write_comparison
from energyscope.reporting.comparison.conditions import Condition, conditions_table
from energyscope.reporting.comparison.drawing import Bar, Row, changes, columns_of, grouped
from energyscope.reporting.comparison.findings import findings
from energyscope.reporting.comparison.page import ComparisonPage, comparison_page
from energyscope.reporting.comparison.pareto import candidates, frontier
from energyscope.reporting.comparison.shares import shares
from energyscope.reporting.comparison.source import Source
from energyscope.reporting.comparison.words import digits_apart
from energyscope.reporting.differences import by_how_much
from energyscope.runs.intervals import Interval
from energyscope.runs.store import Run


def _page(*runs: Run) -> ComparisonPage:
    return comparison_page(Source.of(runs), Path())


def _written(tmp_path: Path, *runs: Run) -> str:
    return write_comparison(runs, tmp_path / "comparisons" / "page.html").read_text(encoding="utf-8")


def test_findings_say_less_and_by_how_much(tmp_path: Path) -> None:
    """GIVEN a run a tenth cheaper, THEN the first sentence says so with its interval and both values."""
    found = findings(Source.of([build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.9))]))
    assert re.match(r"b takes 10\.0\u00a0% \[\d[\d., ]+\] less energy per forward pass than a: \d", found[0])
    assert any("changed most" in one for one in found)


def test_findings_give_no_verdict_where_there_is_none(tmp_path: Path) -> None:
    """GIVEN another board, THEN the values stand beside the reason, and nothing is called less or more."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.5), device={"uuid": "GPU-2"})]
    found = findings(Source.of(runs))
    assert found[0].startswith("The joules of b and a get no verdict (other GPU board). As they stand: ")
    assert not any(" less " in one or " more " in one for one in found)


def _method(*runs: Run) -> Condition:
    return next(one for one in conditions_table(Source.of(runs)) if one.name == "Method")


@pytest.mark.parametrize(
    ("execution", "said"),
    [("eager", ["revision 1", "revision 1"]), ("cuda-graph", ["revision 0", "revision 1"])],
)
def test_methods_differ_only_where_a_change_concerns_the_passes(
    tmp_path: Path, execution: str, said: list[str]
) -> None:
    """GIVEN runs before and after a change, THEN the conditions show what it changed for their passes."""
    shape = Shape(execution=execution)
    found = _method(build_run(tmp_path / "a", shape), build_run(tmp_path / "b", shape, method=1))
    assert (found.values, found.differs) == (said, len(set(said)) > 1)


def test_methods_are_told_by_phase_where_they_differ(tmp_path: Path) -> None:
    """GIVEN old prefills in graphs beside their steps, which no change concerns, THEN each has its revision."""
    runs = [build_inference(tmp_path / name, Inference(layers=2)) for name in "ab"]
    for run in runs:
        run.document["settings"]["execution"] = "cuda-graph"
    assert _method(*runs).values == ["prefill: revision 0, decode: revision 1"] * 2


def test_no_difference_is_said_as_such(tmp_path: Path) -> None:
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=1.002))]
    assert findings(Source.of(runs))[0].startswith(
        "No difference in energy per forward pass is shown between b and a"
    )


@pytest.mark.parametrize(
    ("relative", "said"),
    [
        (Interval(0.9, 0.89, 0.91), "10.0\u00a0% [9.0, 11.0] less"),
        (Interval(1.25, 1.2, 1.3), "25\u00a0% [20, 30] more"),
        (Interval(2.4, 2.3, 2.5), "2.40\u00a0\u00d7 [2.30, 2.50] as much"),
        (Interval(1.25), "25\u00a0% more"),
    ],
)
def test_ratios_are_read_as_people_say_them(relative: Interval, said: str) -> None:
    assert by_how_much(relative) == said


def test_shares_hold_glue_and_what_is_unexplained_and_are_not_renormalised(tmp_path: Path) -> None:
    """GIVEN books that are over-captured, THEN unexplained is negative and stands with the others."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(unexplained_share=-0.05))]
    found = shares(Source.of(runs), None)
    assert set(found) == {"a", "b"}
    assert found["a"]["unexplained"][0].value > 0
    assert found["b"]["unexplained"][0].value < 0
    for held in found.values():
        assert "glue" in held
        assert sum(share.value for share, _ in held.values()) == pytest.approx(1.0)


def test_other_parts_are_joined_into_families(tmp_path: Path) -> None:
    """GIVEN fine against medium parts, THEN attention stands against attention and no sub-component alone."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(granularity="medium"))]
    found = shares(Source.of(runs), None)
    assert "attention" in found["a"]
    assert not any("." in kind for held in found.values() for kind in held)


def test_every_section_has_what_two_complete_runs_give(tmp_path: Path) -> None:
    """GIVEN benchmarks, profiles and perplexities, THEN each section has its chart and table."""
    shape = {"benchmark": Bench(), "granularity": "medium"}
    page = _page(build_run(tmp_path / "a", Shape(**shape)), build_run(tmp_path / "b", Shape(scale=0.9, **shape)))
    assert page.whole[0].rows
    assert page.benchmarks[0].figures
    assert [len(one) for one in (page.changes, page.shares, page.depth, page.pareto)] == [1, 1, 3, 1]
    assert page.normalised[0].figures
    assert len(page.components) == 4 * 5 + 3
    names = [figure.name for figure in page.figures]
    assert len(names) == len(set(names))


def test_what_no_run_measured_has_no_section(tmp_path: Path) -> None:
    """GIVEN two benchmarks without a profile and without scores, THEN only the benchmark stands there."""
    shape = Shape(profile=False, benchmark=Bench(metric=None))
    runs = [build_run(tmp_path / name, shape, workload={"evaluation": None}) for name in "ab"]
    page = _page(*runs)
    assert page.benchmarks
    assert not any((page.whole, page.changes, page.shares, page.depth, page.normalised, page.components))
    assert not page.pareto


def test_several_runs_are_each_held_against_the_baseline(tmp_path: Path) -> None:
    """GIVEN three others, THEN there is a block for each, and the shares of all stand in one chart."""
    runs = [
        build_run(tmp_path / name, Shape(scale=scale))
        for name, scale in zip("abcd", (1, 0.9, 1.1, 1), strict=True)
    ]
    page = _page(*runs)
    assert [block.title for block in page.whole] == ["b", "c", "d"]
    assert len(page.shares) == 1
    assert page.shares[0].table.columns == ["part", "a", "b", "c", "d", "b - a", "c - a", "d - a"]


def test_moments_and_generations_stand_apart(tmp_path: Path) -> None:
    """GIVEN two inferences, THEN each moment has a block, and the generation one of its own."""
    page = _page(
        *(build_inference(tmp_path / name, Inference(layers=2, seed=seed)) for seed, name in enumerate("ab"))
    )
    assert len(page.whole) >= 3
    assert page.whole[0].title == "Prefill"
    assert page.generations[0].rows[0].name == "energy per generated token"
    assert "Energy per decode step (at 1,024 tokens)" in [metric.label for metric in page.headline]
    assert any("decode step at 1,024 tokens" in figure.title for figure in page.shares)


def test_the_frontier_holds_what_no_other_beats(tmp_path: Path) -> None:
    """GIVEN precisions with energies and perplexities, THEN each on the frontier is better than the one before."""
    runs = [build_run(tmp_path / name, Shape(benchmark=Bench(seed=seed))) for seed, name in enumerate("ab")]
    found = candidates(Source.of(runs), "perplexity")
    assert len(found) == 8
    best = frontier(found, "perplexity")
    scores = [one.score.value for one in best]
    assert scores == sorted(scores, reverse=True)
    for one in found:
        beaten = [it for it in best if it.energy.value <= one.energy.value and it.score.value <= one.score.value]
        assert beaten


def test_joules_of_another_board_take_no_part_in_the_frontier(tmp_path: Path) -> None:
    second = build_run(tmp_path / "b", Shape(scale=0.1), device={"uuid": "GPU-2"})
    found = candidates(Source.of([build_run(tmp_path / "a"), second]), "perplexity")
    assert [one.run for one in frontier(found, "perplexity")] == ["a"]


def test_the_page_is_one_file_that_fetches_nothing(tmp_path: Path) -> None:
    page = _written(tmp_path, build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.9)))
    assert "default-src &#39;none&#39;" in page
    body = page.partition('<script type="application/json"')[0]
    assert "src=" not in body.replace("-src", "")
    assert "http://" not in body
    assert "https://" not in body
    payload = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)
    assert payload is not None
    charts = set(re.findall(r'data-chart="([^"]+)"', page))
    assert charts == set(json.loads(payload[1])["specs"])


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """GIVEN names of runs, models and components that are markup, THEN none of it is."""
    bad = "</script><script>alert(1)</script>"
    shape = Shape(rename=lambda name: name.replace("mlp", bad))
    runs = [
        build_run(tmp_path / name, shape, model={"name": f"<img src=x {name}>"}, warnings=[f"<b>{name}</b>"])
        for name in "ab"
    ]
    for run, name in zip(runs, ("<i>one</i>", bad), strict=True):
        run.document["name"] = name
    page = _written(tmp_path, *runs)
    assert "alert(1)</script>" not in page.replace("<\\/script>", "")
    assert html.escape(bad) in page
    assert not re.search(r"<(i|img)[ >]|<b>[ab]</b>", page.partition('<script type="application/json"')[0])


def test_links_lead_to_the_runs_reports(tmp_path: Path) -> None:
    """GIVEN one run with a report, THEN its name is a link relative to the page, the other's is none."""
    first, second = build_run(tmp_path / "a b"), build_run(tmp_path / "c")
    (first.path / "report.html").write_text("x")
    page = _written(tmp_path, first, second)
    assert 'href="../a%20b/report.html"' in page
    assert "c/report.html" not in page


@pytest.mark.parametrize(
    ("names", "file"),
    [(["a", "b"], "a-vs-b.html"), (["one/x", "../two"], "one-x-vs-two.html"), ([""], "run.html")],
)
def test_the_file_is_named_after_the_runs(names: list[str], file: str) -> None:
    assert default_path(names, Path("runs")) == Path("runs/comparisons") / file


def test_long_names_stay_apart() -> None:
    """GIVEN many runs, THEN the name is short, and another one for other runs."""
    many = [f"a-very-long-name-of-a-run-{index}" for index in range(30)]
    one, two = (default_path(names, Path("r")) for names in (many, [*many[:-1], "another"]))
    assert len(one.name) < 200
    assert one != two


def test_modelled_and_incomplete_runs_are_banners(tmp_path: Path) -> None:
    modelled: dict[str, Any] = {"stages": {"profile": {"state": "interrupted"}}}
    page = _page(build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(modelled=True), **modelled))
    assert [banner.title for banner in page.banners] == ["MODELLED", "INCOMPLETE RUN"]
    assert page.banners[0].text.startswith("b: ")


def _scattered(run: Run) -> Run:
    """Return a run whose first precision's trials scatter so much that Student's lower limit is negative."""
    assert run.benchmark is not None
    run.benchmark["cells"][0]["energy_mj"] = {"value": 20.0, "low": -35.0, "high": 75.0}
    return run


def test_energies_that_cannot_be_negative_say_up_to_their_upper_limit(tmp_path: Path) -> None:
    """GIVEN benchmarks with a negative lower limit, THEN the page's tables say the upper one, as a report does."""
    shape = Shape(profile=False, benchmark=Bench())
    page = _page(*(_scattered(build_run(tmp_path / name, shape)) for name in "ab"))
    figure = page.benchmarks[0].figures[0]
    assert figure.table.rows[0][1] == "20.0 mJ [up to 75]"
    assert page.benchmarks[0].rows[0].limits == "[up to 59]"
    energies = [row[2] for row in page.pareto[0].table.rows]
    assert "156 \u00b5J [up to 586]" in energies


def test_a_benchmark_without_verdicts_says_each_reason_once(tmp_path: Path) -> None:
    """GIVEN another board and a precision below grade C, THEN each reason is said once, with how many it is."""
    shape = Shape(profile=False, benchmark=Bench())
    other = build_run(tmp_path / "b", shape, device={"uuid": "GPU-2"})
    assert other.benchmark is not None
    other.benchmark["cells"][1]["quality"] = "invalid"
    found = findings(Source.of([build_run(tmp_path / "a", shape), other]))
    said = "no precision of b gets less or more: other GPU board and graded invalid in the other run at 1 of 4."
    assert f"In the benchmark, {said}" in found


def test_captions_claim_no_intervals_where_none_is_known(tmp_path: Path) -> None:
    """GIVEN components with a single window each, THEN what is drawn of them is said to have no intervals."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.9))]
    assert "with 95\u00a0% intervals" in _page(*runs).changes[0].caption
    for run in runs:
        assert run.energy is not None
        run.energy[["energy_ci_low_mj", "energy_ci_high_mj", "glue_ci_low_mj", "glue_ci_high_mj"]] = None
    page = _page(*runs)
    for figure in (*page.changes, *page.shares, *page.depth, *page.whole[0].figures):
        assert "without intervals" in figure.caption
        assert "with 95" not in figure.caption


def test_a_legend_has_room_beside_the_names_of_its_rows() -> None:
    """GIVEN long names left of a chart, THEN the legend above it wraps before it leaves a telephone's width."""
    verdicts = ["cannot be told", "no difference shown"]
    assert columns_of(verdicts) == 2
    assert columns_of(verdicts, ["energy per forward pass"]) == 1
    assert columns_of(verdicts, ["fp16"]) == 1
    assert columns_of(["less", "more"], ["fp16"]) > 1


def _bars(chart: Any) -> dict[str, tuple[float, list[int]]]:
    """Return how each bar of a chart is painted: its fill and the dashes of its outline."""
    spec = chart.to_dict()
    bars = next(layer for layer in spec["layer"] if "fillOpacity" in layer["encoding"])
    assert bars["encoding"]["strokeDash"]["field"] == "dash"
    rows = (bars.get("data") or spec["data"])["values"]
    return {row["item"]: (row["fill"], row["dash"]) for row in rows}


def test_weak_bars_are_hollow_with_a_dashed_outline_as_on_every_page() -> None:
    """GIVEN bars of shares and of changes, THEN those below grade C are marked as on a run's own page."""
    value = Interval(1.0, 0.9, 1.1)
    full, hollow = (grades.FULL, grades.SOLID), (grades.HOLLOW, grades.DASHED)
    shared = grouped([Bar("mlp", "a", value, "1"), Bar("norm", "a", value, "1", weak=True)], ["a"], "t", "d")
    assert _bars(shared) == {"mlp": full, "norm": hollow}
    rows = [
        Row("mlp", value, "more", "1"),
        Row("norm", value, "cannot be told", "1", weak=True),
        Row("head", value, "not comparable", "1"),
    ]
    drawn = _bars(changes(rows, "t", "d"))
    assert drawn == {"mlp": full, "norm": hollow, "head": (grades.HOLLOW, grades.SOLID)}


def test_captions_say_what_hollow_and_dashed_are(tmp_path: Path) -> None:
    """GIVEN components below grade C, THEN the captions of shares and changes explain the outline; else not."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.9))]
    page = _page(*runs)
    assert "ashed" not in page.shares[0].caption + page.changes[0].caption
    for run in runs:
        assert run.energy is not None
        run.energy["quality"] = "invalid"
    page = _page(*runs)
    said = "Hollow, dashed: more than a tenth of the components is below grade C."
    assert said in page.shares[0].caption
    assert "Hollow: no verdict; dashed as well: below grade C." in page.changes[0].caption
    assert "Pale" not in page.shares[0].caption


def _scale(run: Run, factor: float, **where: Any) -> None:
    """Multiply the energies of the rows that have these values."""
    assert run.energy is not None
    rows = (run.energy[list(where)] == list(where.values())).all(axis=1)
    assert rows.any()
    run.energy.loc[rows, ["energy_mj", "energy_ci_low_mj", "energy_ci_high_mj"]] *= factor


def _moved(*runs: Run) -> list[str]:
    return [one for one in findings(Source.of(runs)) if "moved most" in one]


def test_the_share_that_moved_most_is_that_of_all_moments_and_names_its_own(tmp_path: Path) -> None:
    """GIVEN shares that move in a decode step alone, which is no run's first moment, THEN the finding names it."""
    runs = [build_inference(tmp_path / name, Inference(layers=2)) for name in "ab"]
    assert _moved(*runs) == []
    _scale(runs[1], 0.5, component="model", phase="decode", context_length=1024)
    (said,) = _moved(*runs)
    assert " moved most (decode step at 1,024 tokens): " in said


def test_a_finding_of_shares_says_that_parts_below_grade_c_are_not_among_them(tmp_path: Path) -> None:
    """GIVEN a head that moves more but is graded invalid, THEN the sentence says of which parts it speaks."""
    runs = [build_run(tmp_path / name) for name in "ab"]
    _scale(runs[1], 2.0, kind="lm_head")
    assert _moved(*runs)[0].startswith("The share of ")
    assert runs[1].energy is not None
    runs[1].energy.loc[runs[1].energy["kind"] == "lm_head", "quality"] = "invalid"
    (said,) = _moved(*runs)
    assert said.startswith("Of the parts with at most a tenth of their components below grade C, the share of ")
    assert "lm_head" not in said


def test_a_share_that_is_not_shown_to_move_has_not_moved_most(tmp_path: Path) -> None:
    """GIVEN a largest shift whose interval holds zero, THEN no sentence says that a share moved."""
    runs = [build_run(tmp_path / name) for name in "ab"]
    _scale(runs[1], 2.0, kind="lm_head")
    assert _moved(*runs)
    assert runs[1].energy is not None
    runs[1].energy.loc[runs[1].energy["kind"] == "lm_head", "energy_ci_low_mj"] = 1.0
    assert _moved(*runs) == []


def test_shares_of_a_family_with_other_parts_and_of_glue_are_not_compared(tmp_path: Path) -> None:
    """GIVEN attention.core in one run alone, THEN neither attention nor glue has a difference, and it says why."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(glue_share=0.3))]
    assert _moved(*runs)[0].startswith("The share of ")
    assert "ot comparable" not in _page(*runs).shares[0].caption
    assert runs[1].energy is not None
    without = runs[1].energy[runs[1].energy["kind"] != "attention.core"]
    runs[1] = replace(runs[1], energy=without)
    figure = _page(*runs).shares[0]
    changes_by_part = {row[0]: row[-1] for row in figure.table.rows}
    why = "not comparable: attention.core is a part in a only"
    assert {part for part, said in changes_by_part.items() if said == why} == {"attention", "glue"}
    assert changes_by_part["mlp"].partition(" [")[0].endswith("points")
    assert (
        "Not comparable: glue and each family of which one run has a part that the other has not" in figure.caption
    )
    (said,) = _moved(*runs)
    assert said.startswith("Of the comparable parts, the share of ")
    assert not re.search(r"share of (glue|attention) ", said)


def test_what_takes_no_part_in_the_frontier_is_not_said_to_be_beaten(tmp_path: Path) -> None:
    """GIVEN a precision below grade C and another board, THEN these are not compared; the others yes or no."""
    first = build_run(tmp_path / "a", Shape(profile=False, benchmark=Bench()))
    second = build_run(tmp_path / "b", Shape(profile=False, benchmark=Bench()), device={"uuid": "GPU-2"})
    assert first.benchmark is not None
    first.benchmark["cells"][0]["quality"] = "invalid"
    rows = _page(first, second).pareto[0].table.rows
    assert [row[-1] == "not compared" for row in rows] == [True, *[False] * 3, *[True] * 4]
    assert {row[-1] for row in rows[1:4]} <= {"yes", "no"}


@pytest.mark.parametrize(
    ("values", "digits"),
    [([2.60404, 2.60404, 2.60423], 5), ([2.6, 2.7], 3), ([2.6, 2.6], 3), ([2.604044549, 2.604044551], 3)],
)
def test_different_values_do_not_look_equal(values: list[float], digits: int) -> None:
    """GIVEN values that three digits do not tell apart, THEN there are more; not for what is rounding."""
    assert digits_apart(values) == digits


def test_perplexities_that_differ_are_written_as_different(tmp_path: Path) -> None:
    """GIVEN perplexities of 6.4201 and 6.4204, THEN table and finding show both; and accuracies likewise."""
    evaluation = {"source": "held-out", "examples": 200}
    for metric, values, said in (
        ("perplexity", (6.4201, 6.4204), ["6.4201", "6.4204"]),
        ("accuracy", (0.9123, 0.9124), ["91.23 %", "91.24 %"]),
    ):
        runs = [
            build_run(
                tmp_path / f"{metric}-{name}", workload={"evaluation": {**evaluation, "baseline": {metric: at}}}
            )
            for name, at in zip("ab", values, strict=True)
        ]
        page = _page(*runs)
        assert [row[3] for row in page.pareto[0].table.rows] == said
    assert "Accuracy: 0.9124 against 0.9123" in findings(Source.of(runs))[-1]


def test_titles_go_on_behind_a_comma_where_joules_are_partly_modelled(tmp_path: Path) -> None:
    """GIVEN one modelled run, THEN no title reads as if it were modelled of one layer or against perplexity."""
    page = _page(build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(modelled=True)))
    assert "Energy, partly MODELLED, of one layer" in [figure.title for figure in page.depth]
    assert page.pareto[0].title == "Energy, partly MODELLED, against perplexity"
    measured = _page(build_run(tmp_path / "c"), build_run(tmp_path / "d"))
    assert measured.pareto[0].title == "Energy against perplexity"


def test_the_axis_of_depth_has_percentages_as_elsewhere(tmp_path: Path) -> None:
    """GIVEN layers by depth, THEN the axis writes a number and its percent sign with a space between."""
    axis = json.dumps(_page(build_run(tmp_path / "a"), build_run(tmp_path / "b")).depth[0].chart.to_dict())
    assert "'\\u00a0%'" in axis
    assert '"format": "%"' not in axis
