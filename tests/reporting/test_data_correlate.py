from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_builder import Shape, build_run

from energyscope.reporting.charts import theme
from energyscope.reporting.correlation_figures import correlation_figures
from energyscope.reporting.data.correlate import CorrelationData, correlation_data, rank_text
from energyscope.reporting.data.matrix import column_name, matrix_data
from energyscope.reporting.data.relations import advice_panel
from energyscope.reporting.html import render
from energyscope.runs import schema
from energyscope.runs.store import Run, load_run
from energyscope.stages.correlate import correlate


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which components were removed, quantized, predicted and removed together, correlated for real."""
    built = build_run(tmp_path_factory.mktemp("runs") / "run", Shape(granularity="medium"))
    assert built.energy is not None
    assert built.impact is not None
    kl = built.impact[(built.impact["method"] == "zero") & (built.impact["metric"] == "kl")]
    joint = kl.iloc[:1].assign(component="transformer.h.{layer}.mlp", value=9.0, ci_low=8.0, ci_high=10.0)
    more = [kl.assign(method="int8"), kl.assign(method="predict", metric="fisher"), joint]
    impact = pd.concat([built.impact, *more], ignore_index=True)
    document = correlate(built.energy, impact, closure=1.0)
    (built.path / schema.CORRELATION_FILE).write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
    return load_run(built.path)


@pytest.fixture(scope="module")
def data(run: Run) -> CorrelationData:
    assert run.correlation is not None
    return correlation_data(run.correlation)


def test_every_table_is_there_and_square(data: CorrelationData) -> None:
    """GIVEN a full document, THEN each table has its rows, as many cells as columns, and no bare None or NaN."""
    assert data.advice is not None
    assert [panel.name for panel in data.panels] == ["within-kinds", "null-models", "predictors"]
    for panel in [data.advice, *data.panels]:
        assert panel.table.rows, panel.name
        for row in panel.table.rows:
            assert len(row) == len(panel.table.columns), panel.name
            assert not {"None", "nan", ""} & set(row), (panel.name, row)


def test_advice_and_what_is_withheld_are_apart(data: CorrelationData, run: Run) -> None:
    """GIVEN advice for some components, THEN these are shown, the others on demand, and together they are all."""
    assert data.advice is not None
    assert data.advice.rest is not None
    assert run.correlation is not None
    shown, rest = data.advice.table.rows, data.advice.rest.rows
    assert len(shown) + len(rest) == len(run.correlation["advice"])
    assert "quantize first" in {row[1] for row in shown}
    assert data.advice.before.startswith(f"Given for {len(shown)} of")


def test_no_advice_says_why_at_once(run: Run) -> None:
    """GIVEN a closure of 80 %, THEN the sentence above says why nothing is advised, and the table is empty."""
    assert run.energy is not None
    assert run.impact is not None
    advice = correlation_data(correlate(run.energy, run.impact, closure=0.8)).advice
    assert advice is not None
    assert advice.table.rows == []
    assert "80 %, outside 93-107 %" in advice.before
    assert "Only criticality" in advice.before


def test_each_reason_is_said_of_its_components_only() -> None:
    """GIVEN joules that are modelled and a norm without a matrix, THEN the norm's reason is not said of all."""
    because = {"h.0.mlp": "modelled", "h.1.mlp": "modelled", "h.2.mlp": "modelled", "h.0.ln": "no valid int8:kl"}
    advice = [
        {"component": name, "quadrant": "undecided", "advice": None, "why": "", "withheld_because": why}
        for name, why in because.items()
    ]
    several, norm = (advice_panel({"advice": entries, "impact": "int8:kl"}) for entries in (advice, advice[3:]))
    assert several is not None
    assert several.before == "No advice is given: for 3 components, modelled; for h.0.ln, no valid int8:kl."
    assert norm is not None
    assert norm.before == "No advice is given: for h.0.ln, no valid int8:kl."


def test_kinds_that_were_not_tested_say_why(data: CorrelationData) -> None:
    """GIVEN kinds of which some were tested, THEN the others carry the reason, and no coefficient."""
    within = data.panels[0]
    kinds = {row[0]: row for row in within.table.rows}
    assert "all, each kind centred" in kinds
    untested = [row for row in kinds.values() if row[4].startswith("not tested")]
    assert all(row[5] == row[6] == "\u2013" for row in untested)
    assert "Cochran" in within.after
    assert "Holm" in within.after


def test_bold_cells_are_those_that_exclude_zero(data: CorrelationData) -> None:
    """GIVEN intervals as text, THEN exactly those on one side of zero are bold."""
    for panel in data.panels:
        for line, column in panel.bold:
            low, high = panel.table.rows[line][column].split("[")[1].rstrip("]").split(", ")
            assert (low[0], low) == (high[0], low)


def test_chosen_impact_comes_first(data: CorrelationData) -> None:
    """GIVEN correlations with several impacts, THEN those with the points' impact are apart from the others."""
    assert [item.method for item in data.chosen] == ["pearson", "spearman", "kendall"]
    assert {item.y for item in data.others} >= {"mean:kl", "int8:kl"}
    assert len(data.chosen) + len(data.others) == len(data.correlations)


def _below_grade_c(run: Run) -> dict[str, Any]:
    """Return the run's correlation.json as it is where no component reaches grade C."""
    assert run.energy is not None
    assert run.impact is not None
    return correlate(run.energy.assign(quality="invalid"), run.impact)


def test_what_cannot_be_related_is_said_once_without_tables(run: Run) -> None:
    """GIVEN a run whose components are all below grade C, THEN one sentence says why, and no table of dashes."""
    found = correlation_data(_below_grade_c(run))
    assert "below grade C" in found.unrelated
    assert found.findings.count(found.unrelated) == 1
    assert [found.chosen, found.others, found.points] == [[], [], []]
    assert not {"within-kinds", "null-models"} & {panel.name for panel in found.panels}
    assert correlation_figures(found, "energy") == []


def test_the_page_says_once_why_nothing_is_related(run: Run) -> None:
    """GIVEN such a run, THEN its section holds the sentence once, and no table says that points are too few."""
    page = render(replace(run, correlation=_below_grade_c(run)))
    section = page.partition('<section id="correlate"')[2].partition("</section>")[0]
    assert section.count("Energy cannot be related") == 1
    assert "points are too few" not in section
    assert "<table" not in section


def test_older_documents_say_it_once_too(run: Run) -> None:
    """GIVEN a document without the sentence, with findings that repeat it, THEN one is left, with a reason."""
    few = "0 points are too few: a correlation needs 4 or more"
    document = {**_below_grade_c(run), "unrelated": None}
    document["findings"] = [f"The Spearman correlation is unknown: {few}.", f"No null model: {few}.", "Compared."]
    found = correlation_data(document, {"h.0", "h.1"})
    assert found.findings == [found.unrelated, "Compared."]
    assert found.unrelated == (
        f"Energy cannot be related to zero:kl: {few} (2 components of this run below grade C, not compared)."
    )


def test_older_documents_have_none_of_it(data: CorrelationData) -> None:
    """GIVEN a document with points alone, THEN there are no tables and no matrix, and ranks are not measured."""
    old = correlation_data({"points": [{"component": "a", "kind": "mlp", "energy_mj": 1.0, "impact": 2.0}]})
    assert (old.advice, list(old.panels), old.matrix) == (None, [], None)
    assert rank_text(old.points[0].energy_rank) == "not measured"
    assert rank_text((2, 2)) == "2"
    assert rank_text(data.points[0].energy_rank) != "not measured"


def test_points_below_grade_c_are_marked(run: Run) -> None:
    """GIVEN the name of a weak component, THEN its point alone is marked."""
    assert run.correlation is not None
    name = str(run.correlation["points"][0]["component"])
    points = correlation_data(run.correlation, {name}).points
    assert [point.component for point in points if point.invalid] == [name]
    assert not any(point.invalid for point in correlation_data(run.correlation).points)


def test_matrix_keeps_each_pair_once(data: CorrelationData) -> None:
    """GIVEN the matrix, THEN the triangle has each pair once, with a value or a reason."""
    assert data.matrix is not None
    count = len(data.matrix.columns)
    assert len({frozenset((cell.one, cell.other)) for cell in data.matrix.cells}) == count * (count - 1) / 2
    assert all((cell.value is None) == (cell.reason is not None) for cell in data.matrix.cells)


def test_wide_matrices_are_cut_to_the_divergence() -> None:
    """GIVEN thirty columns, THEN those of energy and of KL are drawn, and the others are counted."""
    names = [
        "energy_mj",
        *(f"m{place}:{metric}" for place in range(10) for metric in ("kl", "js", "top1_agreement")),
    ]
    square = [[1.0] * len(names)] * len(names)
    found = matrix_data({"matrix": {"columns": names, "energy_columns": names[:1], "value": square, "n": square}})
    assert found is not None
    assert found.columns == ["energy", *(f"m{place} KL" for place in range(10))]
    assert found.left_out == 20
    assert column_name("skip:logit_difference") == "skip logits"


def test_matrix_is_drawn_in_both_themes(data: CorrelationData) -> None:
    """GIVEN a matrix with an unknown pair, THEN it is drawn, and that pair has no number."""
    import vl_convert

    assert data.matrix is not None
    first = replace(data.matrix.cells[0], value=None, reason="too few")
    figures = correlation_figures(
        replace(data, matrix=replace(data.matrix, cells=[first, *data.matrix.cells[1:]])), "Energy"
    )
    assert [figure.name for figure in figures] == ["energy-impact", "correlation-matrix"]
    matrix = figures[1]
    assert matrix.chart.to_dict(validate=True)
    for name in ("light", "dark"):
        specification: dict[str, Any] = {**theme.spec(matrix.chart), "width": 700}
        svg = vl_convert.vegalite_to_svg(specification, config=theme.config(name), vl_version="6.1")
        assert svg.count("<path") > len(data.matrix.cells)
    assert matrix.table.rows[0][3:] == ["not measured", "too few"]


def test_the_page_holds_every_table(run: Run, tmp_path: Path) -> None:
    """GIVEN a full document, THEN the page has a heading for each table and escapes what components are called."""
    page = render(run)
    for name in ("advice", "within-kinds", "null-models", "predictors", "correlation-matrix"):
        assert f'id="{name}"' in page
    hostile = build_run(tmp_path / "run", Shape(rename=lambda name: name.replace("mlp", "<b>x</b>")))
    assert hostile.energy is not None
    assert hostile.impact is not None
    document = correlate(hostile.energy, hostile.impact, closure=1.0)
    (hostile.path / schema.CORRELATION_FILE).write_text(json.dumps(document), encoding="utf-8")
    section = render(load_run(hostile.path)).split('<section id="correlate"')[1].split("</section>")[0]
    assert "<b>x</b>" not in section
    assert "&lt;b&gt;x&lt;/b&gt;" in section


def _older(kinds: list[str]) -> CorrelationData:
    """Read a document of before p-values were left out of pooled kinds, with a point of each of these kinds."""
    points = [
        {"component": f"c{index}", "kind": kind, "energy_mj": 1.0 + index, "impact": 0.1 * index}
        for index, kind in enumerate(kinds)
    ]
    known = {"x": "energy_mj", "y": "zero:kl", "method": "spearman", "n": len(kinds), "value": 0.5}
    said = [
        "When the output of one component is set to zero, the KL divergence of the outputs is highest for c3.",
        "The Spearman correlation is -0.07 (95 % interval -0.51 to +0.40, includes 0; permutation p = 1.2e-05).",
    ]
    return correlation_data(
        {"impact": "zero:kl", "points": points, "correlations": [{**known, "p_value": 0.01}], "findings": said}
    )


def test_pooled_kinds_have_no_p_value_in_an_older_document() -> None:
    """GIVEN points of two kinds with a p-value, THEN neither table nor findings have it; of one kind, both do."""
    pooled, alone = _older(["mlp", "mlp", "norm", "norm"]), _older(["mlp"] * 4)
    assert [item.p_value for item in pooled.correlations] == [None]
    assert pooled.findings[1].endswith("includes 0; no p-value: points of one kind are not independent).")
    assert [item.p_value for item in alone.correlations] == [0.01]
    assert "permutation p = 1.2e-05)" in alone.findings[1]


def test_the_highest_impact_says_of_which_components() -> None:
    """GIVEN an older sentence on the highest impact, THEN it is said to be of the compared components alone."""
    assert _older(["mlp", "norm"]).findings[0] == (
        "Of the 2 components whose energy and impact are compared, when the output of one component is set to "
        "zero, the KL divergence of the outputs is highest for c3."
    )
